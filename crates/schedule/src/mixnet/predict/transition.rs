//! The transition matrix of MixNet, equation 1: which load of a layer follows which load of the
//! layer before.
//!
//! Modelled: minimise `sum_t w_t |y_t - P x_t|^2` over matrices P whose entries lie in \[0, 1\] and
//! whose columns sum to 1. It is a convex quadratic program, solved by a primal-dual interior-point
//! method (Mehrotra's predictor and corrector) that keeps every iterate feasible. The Hessian has
//! the rank of the window, k samples, so each row of P costs one k x k factorisation, and the
//! column sums one n x n system: `O(n^3 k)` a step, however large the window is, because a window of
//! more than n samples is first reduced to n by Householder reflections.
//! Ignored: with fewer samples than experts many matrices are optimal; the one found lies in the
//! middle of them.
//! Checked: against brute force and HiGHS on small sizes; the duality gap of every result is stated
//! and tested against the objective of other matrices; a planted matrix is found again.

use super::linear::{axpy, cholesky, dot, solve_lower, solve_upper, subtract_gram};

/// Loads of two neighbouring layers in one iteration, and how much they count.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Share of the tokens that each expert of the layer before received.
    pub before: &'a [f64],
    /// Share of the tokens that each expert of the layer received.
    pub after: &'a [f64],
    /// Weight, above zero.
    pub weight: f64,
}

/// A fitted transition matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    experts: usize,
    matrix: Vec<f64>,
    /// The weighted squared error, with weights that sum to 1.
    pub objective: f64,
    /// No column-stochastic matrix has an objective below `objective - gap`.
    pub gap: f64,
    /// The objective of the best constant prediction, the samples' weighted mean: what there is to
    /// explain.
    pub constant_objective: f64,
    /// Steps of the interior-point method.
    pub steps: u32,
}

/// Where the next fit starts: a point in the middle of the last one's way.
#[derive(Clone, Debug, Default)]
pub struct Warm {
    primal: Vec<f64>,
    dual: Vec<f64>,
}

/// More steps than any fit needs: tests come to 30 at most.
const MOST_STEPS: u32 = 100;
/// Gap, relative to what there is to explain, at which an iterate serves the next fit as its start:
/// later ones are too close to the old solution's boundary to leave it again.
const WARM_GAP: f64 = 0.1;

impl Transition {
    /// Fits a matrix until `gap <= tolerance * constant_objective`, starting from `warm`, which is
    /// left for the next fit.
    ///
    /// Without samples every column is uniform. If rounding stops the method early, the gap says so.
    ///
    /// # Panics
    /// If a sample has not `experts` entries twice, or there are no experts.
    ///
    /// ```
    /// use lightloom_schedule::mixnet::predict::{Sample, Transition, Warm};
    /// // Whatever expert 0 had goes to expert 1, and the other way round.
    /// let window = [([0.8, 0.2], [0.2, 0.8]), ([0.4, 0.6], [0.6, 0.4])];
    /// let samples: Vec<Sample> = window
    ///     .iter()
    ///     .map(|(before, after)| Sample { before, after, weight: 1.0 })
    ///     .collect();
    /// let fitted = Transition::fit(2, &samples, 1e-6, &mut Warm::default());
    /// let next = fitted.apply(&[0.1, 0.9]);
    /// assert!((next[0] - 0.9).abs() < 1e-2);
    /// assert!(fitted.gap <= 1e-6 * fitted.constant_objective);
    /// ```
    pub fn fit(experts: usize, samples: &[Sample<'_>], tolerance: f64, warm: &mut Warm) -> Self {
        assert!(experts > 0, "a matrix of at least one expert");
        let problem = Problem::new(experts, samples);
        let n = experts as f64;
        if problem.rank == 0 || experts == 1 {
            return Transition {
                experts,
                matrix: vec![1.0 / n; experts * experts],
                objective: problem.rest.max(0.0),
                gap: 0.0,
                constant_objective: problem.rest.max(0.0),
                steps: 0,
            };
        }
        let mut point = Point::new(&problem, warm);
        let explain = problem.constant;
        // Below this, differences are rounding.
        let enough = (tolerance * explain).max(1e-14 * problem.size);
        let mut left = None;
        let mut best: Option<(f64, Vec<f64>)> = None;
        let mut steps = 0;
        loop {
            let gap = point.gap();
            if best.as_ref().is_none_or(|(least, _)| gap < *least) {
                best = Some((gap, point.primal.clone()));
            }
            if gap <= enough || steps == MOST_STEPS {
                break;
            }
            if left.is_none() && gap <= WARM_GAP * explain.max(enough) {
                left = Some((point.primal.clone(), point.dual.clone()));
            }
            if !point.step() {
                break;
            }
            steps += 1;
        }
        if let Some((primal, dual)) = left {
            *warm = Warm { primal, dual };
        }
        let (gap, padded) = best.expect("the loop looks at one point at least");
        let matrix: Vec<f64> =
            padded.chunks_exact(problem.stride).flat_map(|row| &row[..experts]).copied().collect();
        // Back from loads relative to their mean.
        let unit = 1.0 / (n * n);
        let objective = (problem.square(&matrix) + problem.rest) * unit;
        let constant_objective = (explain + problem.rest) * unit;
        Transition { experts, matrix, objective, gap: gap * unit, constant_objective, steps }
    }

    /// The number of experts: rows and columns.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Share of what the layer before sent to expert `from` that goes to expert `to`.
    pub fn get(&self, to: usize, from: usize) -> f64 {
        self.matrix[to * self.experts + from]
    }

    /// The load that follows a load.
    pub fn apply(&self, before: &[f64]) -> Vec<f64> {
        self.matrix.chunks_exact(self.experts).map(|row| dot(row, before)).collect()
    }
}

/// Least squares `|P X - Y|^2 + rest`, loads in units of their mean, weights inside X and Y.
struct Problem {
    experts: usize,
    /// Length of a padded row: experts rounded up to a multiple of four.
    stride: usize,
    /// Columns of X and Y after the reduction.
    rank: usize,
    /// X by sample: `rank` rows of `stride`.
    before: Vec<f64>,
    /// Y by expert: `experts` rows of `rank`.
    after: Vec<f64>,
    /// What no matrix explains: weighted squares lost in the reduction.
    rest: f64,
    /// `|P X - Y|^2` of the best constant prediction.
    constant: f64,
    /// `|Y|^2`.
    size: f64,
}

impl Problem {
    fn new(experts: usize, samples: &[Sample<'_>]) -> Self {
        let n = experts as f64;
        let total: f64 = samples.iter().map(|sample| sample.weight).sum();
        let mut x: Vec<Vec<f64>> = Vec::with_capacity(samples.len());
        let mut y: Vec<Vec<f64>> = Vec::with_capacity(samples.len());
        let mut mean = vec![0.0; experts];
        for sample in samples {
            assert!(
                sample.before.len() == experts && sample.after.len() == experts,
                "a sample of {experts} experts"
            );
            let root = n * (sample.weight / total).sqrt();
            x.push(sample.before.iter().map(|load| load * root).collect());
            y.push(sample.after.iter().map(|load| load * root).collect());
            axpy(sample.weight / total * n, sample.after, &mut mean);
        }
        let square = |rows: &[Vec<f64>]| rows.iter().map(|row| dot(row, row)).sum::<f64>();
        let size = square(&y);
        if x.len() > experts {
            reduce(&mut x, &mut y, experts);
        }
        let rank = x.len();
        let rest = (size - square(&y)).max(0.0);
        let stride = experts.next_multiple_of(4);
        let mut before = vec![0.0; rank * stride];
        let mut after = vec![0.0; experts * rank];
        for t in 0..rank {
            before[t * stride..][..experts].copy_from_slice(&x[t]);
            (0..experts).for_each(|i| after[i * rank + t] = y[t][i]);
        }
        // sum w |y|^2 - |mean|^2, of which `rest` is set aside.
        let constant = (size - dot(&mean, &mean) - rest).max(0.0);
        Problem { experts, stride, rank, before, after, rest, constant, size }
    }

    fn x(&self, t: usize) -> &[f64] {
        &self.before[t * self.stride..(t + 1) * self.stride]
    }

    /// `|P X - Y|^2` of a matrix without padding.
    fn square(&self, matrix: &[f64]) -> f64 {
        let mut sum = 0.0;
        for (i, row) in matrix.chunks_exact(self.experts).enumerate() {
            for t in 0..self.rank {
                let wrong = dot(row, &self.x(t)[..self.experts]) - self.after[i * self.rank + t];
                sum += wrong * wrong;
            }
        }
        sum
    }
}

/// Turns the samples (rows) so that all of `x` but its first `experts` rows vanish, and drops those.
/// `|P X - Y|^2` changes only by the squares of the dropped rows of `y`.
fn reduce(x: &mut Vec<Vec<f64>>, y: &mut Vec<Vec<f64>>, experts: usize) {
    for column in 0..experts {
        let norm = x[column..].iter().map(|row| row[column] * row[column]).sum::<f64>().sqrt();
        if norm == 0.0 {
            continue;
        }
        // The reflection that maps the column's lower part to a multiple of its first axis.
        let mut axis: Vec<f64> = x[column..].iter().map(|row| row[column]).collect();
        axis[0] += if axis[0] < 0.0 { -norm } else { norm };
        let scale = 2.0 / dot(&axis, &axis);
        for rows in [&mut *x, &mut *y] {
            let mut along = vec![0.0; experts];
            for (row, &a) in rows[column..].iter().zip(&axis) {
                axpy(a, row, &mut along);
            }
            for (row, &a) in rows[column..].iter_mut().zip(&axis) {
                axpy(-scale * a, &along, row);
            }
        }
    }
    x.truncate(experts);
    y.truncate(experts);
}

/// An iterate: P (feasible and positive), the multipliers Z of `P >= 0` and of the column sums.
struct Point<'a> {
    problem: &'a Problem,
    primal: Vec<f64>,
    dual: Vec<f64>,
    sums: Vec<f64>,
    gradient: Vec<f64>,
    /// By row: `primal / dual`, and L^-1 X D, where L L^T = I + X D X^T.
    weights: Vec<f64>,
    factors: Vec<f64>,
    /// Cholesky factor of the system of the column sums.
    schur: Vec<f64>,
    rhs: Vec<f64>,
    primal_step: Vec<f64>,
    dual_step: Vec<f64>,
    sums_step: Vec<f64>,
}

impl<'a> Point<'a> {
    fn new(problem: &'a Problem, warm: &Warm) -> Self {
        let (n, stride) = (problem.experts, problem.stride);
        let size = n * stride;
        let mut point = Point {
            problem,
            primal: vec![0.0; size],
            dual: vec![0.0; size],
            sums: vec![0.0; stride],
            gradient: vec![0.0; size],
            weights: vec![0.0; size],
            factors: vec![0.0; n * problem.rank * stride],
            schur: vec![0.0; stride * stride],
            rhs: vec![0.0; size],
            primal_step: vec![0.0; size],
            dual_step: vec![0.0; size],
            sums_step: vec![0.0; stride],
        };
        if warm.primal.len() == size {
            point.primal.copy_from_slice(&warm.primal);
            point.dual.copy_from_slice(&warm.dual);
            point.slope();
            for i in 0..n {
                let row = i * stride..(i + 1) * stride;
                axpy(1.0 / n as f64, &point.gradient[row.clone()], &mut point.sums);
                axpy(-1.0 / n as f64, &point.dual[row], &mut point.sums);
            }
            return point;
        }
        for row in point.primal.chunks_exact_mut(stride) {
            row[..n].fill(1.0 / n as f64);
        }
        point.slope();
        for i in 0..n {
            axpy(1.0 / n as f64, &point.gradient[i * stride..(i + 1) * stride], &mut point.sums);
        }
        // Complementarity at the scale of the gap, so that the first steps are not cut short.
        let gap = point.gap().max(1e-3 * problem.constant).max(1e-12 * problem.size);
        let each = gap / 2.0 / n as f64;
        for row in point.dual.chunks_exact_mut(stride) {
            row[..n].fill(each);
        }
        point
    }

    /// Half the gradient of the objective, (P X - Y) X^T.
    fn slope(&mut self) {
        let problem = self.problem;
        let rows = self.primal.chunks_exact(problem.stride);
        let gradients = self.gradient.chunks_exact_mut(problem.stride);
        for ((row, gradient), wanted) in
            rows.zip(gradients).zip(problem.after.chunks_exact(problem.rank))
        {
            gradient.fill(0.0);
            for (t, &wanted) in wanted.iter().enumerate() {
                axpy(dot(row, problem.x(t)) - wanted, problem.x(t), gradient);
            }
        }
    }

    /// How far the objective can lie above the optimum: each column's best corner beside it.
    fn gap(&self) -> f64 {
        let (n, stride) = (self.problem.experts, self.problem.stride);
        let mut least = vec![f64::INFINITY; n];
        for row in self.gradient.chunks_exact(stride) {
            for (least, &slope) in least.iter_mut().zip(row) {
                *least = slope.min(*least);
            }
        }
        let mut gap = 0.0;
        for (row, gradient) in
            self.primal.chunks_exact(stride).zip(self.gradient.chunks_exact(stride))
        {
            for j in 0..n {
                gap += row[j] * (gradient[j] - least[j]);
            }
        }
        (2.0 * gap).max(0.0)
    }

    /// One step of Mehrotra's method; `false` if rounding leaves nothing to gain.
    fn step(&mut self) -> bool {
        self.factor();
        let count = (self.problem.experts * self.problem.experts) as f64;
        let target = dot(&self.primal, &self.dual) / count;
        self.direction(|p, z, _, _| -p * z);
        let length = self.longest();
        let mut ahead = 0.0;
        for at in 0..self.primal.len() {
            ahead += (self.primal[at] + length * self.primal_step[at])
                * (self.dual[at] + length * self.dual_step[at]);
        }
        let shrink = (ahead / count / target).max(0.0);
        let centre = shrink * shrink * shrink * target;
        self.direction(|p, z, dp, dz| centre - p * z - dp * dz);
        let length = self.longest();
        if length.is_nan() || length < 1e-8 {
            return false;
        }
        axpy(length, &self.primal_step, &mut self.primal);
        axpy(length, &self.dual_step, &mut self.dual);
        axpy(length, &self.sums_step, &mut self.sums);
        self.normalise();
        self.slope();
        true
    }

    /// The longest step, up to 1, that keeps P and Z positive.
    fn longest(&self) -> f64 {
        let mut steepest: f64 = 0.995;
        for (values, steps) in [(&self.primal, &self.primal_step), (&self.dual, &self.dual_step)] {
            for (&value, &step) in values.iter().zip(steps) {
                if step < 0.0 {
                    steepest = steepest.max(-step / value);
                }
            }
        }
        0.995 / steepest
    }

    /// Removes what rounding adds to the columns' sums.
    fn normalise(&mut self) {
        let stride = self.problem.stride;
        let mut sums = vec![0.0; stride];
        self.primal.chunks_exact(stride).for_each(|row| axpy(1.0, row, &mut sums));
        for row in self.primal.chunks_exact_mut(stride) {
            for (share, &sum) in row.iter_mut().zip(&sums).take(self.problem.experts) {
                *share /= sum;
            }
        }
    }

    /// Factors the Newton system: rows by their k x k core, column sums by their n x n complement.
    fn factor(&mut self) {
        let (n, stride, rank) = (self.problem.experts, self.problem.stride, self.problem.rank);
        let mut core = vec![0.0; rank * rank];
        self.schur.fill(0.0);
        for i in 0..n {
            let at = i * stride;
            for j in 0..n {
                self.weights[at + j] = self.primal[at + j] / self.dual[at + j];
                self.schur[j * stride + j] += self.weights[at + j];
            }
            let weights = &self.weights[at..at + stride];
            let factors = &mut self.factors[i * rank * stride..(i + 1) * rank * stride];
            for (t, row) in factors.chunks_exact_mut(stride).enumerate() {
                for ((to, &x), &weight) in row.iter_mut().zip(self.problem.x(t)).zip(weights) {
                    *to = x * weight;
                }
                for s in 0..=t {
                    core[t * rank + s] = dot(row, self.problem.x(s));
                }
                core[t * rank + t] += 1.0;
            }
            cholesky(&mut core, rank);
            // Rows of L^-1 (X D), in place.
            for t in 0..rank {
                let (done, rest) = factors.split_at_mut(t * stride);
                let row = &mut rest[..stride];
                for (s, done) in done.chunks_exact(stride).enumerate() {
                    axpy(-core[t * rank + s], done, row);
                }
                let pivot = 1.0 / core[t * rank + t];
                row.iter_mut().for_each(|value| *value *= pivot);
            }
            subtract_gram(factors, &mut self.schur, stride);
        }
        for j in n..stride {
            self.schur[j * stride + j] = 1.0;
        }
        cholesky(&mut self.schur, stride);
    }

    /// The Newton step towards `wanted(p, z, last dp, last dz)` added to each product `p z`.
    fn direction(&mut self, wanted: impl Fn(f64, f64, f64, f64) -> f64) {
        let (n, stride) = (self.problem.experts, self.problem.stride);
        // What each entry's product is to change by, kept where Z's step will be. Padding is zero.
        for at in 0..self.primal.len() {
            let (p, z) = (self.primal[at], self.dual[at]);
            let steps = (self.primal_step[at], self.dual_step[at]);
            self.dual_step[at] = if p > 0.0 { wanted(p, z, steps.0, steps.1) } else { 0.0 };
        }
        self.sums_step.fill(0.0);
        for i in 0..n {
            for j in 0..n {
                let at = i * stride + j;
                self.rhs[at] = self.dual_step[at] / self.primal[at] + self.dual[at] + self.sums[j]
                    - self.gradient[at];
            }
            let row = i * stride..(i + 1) * stride;
            self.invert_row(i);
            axpy(-1.0, &self.primal_step[row], &mut self.sums_step);
        }
        solve_lower(&self.schur, stride, &mut self.sums_step);
        solve_upper(&self.schur, stride, &mut self.sums_step);
        for i in 0..n {
            axpy(1.0, &self.sums_step, &mut self.rhs[i * stride..(i + 1) * stride]);
            self.invert_row(i);
            for at in i * stride..i * stride + n {
                self.dual_step[at] =
                    (self.dual_step[at] - self.dual[at] * self.primal_step[at]) / self.primal[at];
            }
        }
    }

    /// `primal_step = (X X^T + Z / P)^-1 rhs` for a row.
    fn invert_row(&mut self, i: usize) {
        let (stride, rank) = (self.problem.stride, self.problem.rank);
        let row = i * stride..(i + 1) * stride;
        let (rhs, step) = (&self.rhs[row.clone()], &mut self.primal_step[row.clone()]);
        for ((step, &rhs), &weight) in step.iter_mut().zip(rhs).zip(&self.weights[row]) {
            *step = weight * rhs;
        }
        for factor in self.factors[i * rank * stride..(i + 1) * rank * stride].chunks_exact(stride)
        {
            axpy(-dot(factor, rhs), factor, step);
        }
    }
}
