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

use super::linear::{add_rows, axpy, cholesky, dot, dots, solve, subtract_gram};

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

/// More steps than any fit needs: tests come to 30 at most.
const MOST_STEPS: u32 = 100;
impl Transition {
    /// Fits a matrix until `gap <= tolerance * constant_objective`.
    ///
    /// It starts from the constant prediction. The last fit would be no better a start: when a window
    /// of fewer samples than experts moves on, its optimum jumps, and an interior-point method has
    /// to leave the old one's boundary first (measured: two to six steps more).
    ///
    /// Without samples every column is uniform. If rounding stops the method early, the gap says so.
    ///
    /// # Panics
    /// If a sample has not `experts` entries twice, or there are no experts.
    ///
    /// ```
    /// use lightloom_circuits::predict::{Sample, Transition};
    /// // Whatever expert 0 had goes to expert 1, and the other way round.
    /// let window = [([0.8, 0.2], [0.2, 0.8]), ([0.4, 0.6], [0.6, 0.4])];
    /// let samples: Vec<Sample> = window
    ///     .iter()
    ///     .map(|(before, after)| Sample { before, after, weight: 1.0 })
    ///     .collect();
    /// let fitted = Transition::fit(2, &samples, 1e-6);
    /// let next = fitted.apply(&[0.1, 0.9]);
    /// assert!((next[0] - 0.9).abs() < 1e-2);
    /// assert!(fitted.gap <= 1e-6 * fitted.constant_objective);
    /// ```
    pub fn fit(experts: usize, samples: &[Sample<'_>], tolerance: f64) -> Self {
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
        let mut point = Point::new(&problem);
        let explain = problem.constant;
        // Below the second, differences are rounding.
        let enough = (tolerance * explain).max(1e-11 * problem.size);
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
            if steps == 0 {
                point.enter();
            }
            if !point.step() {
                break;
            }
            steps += 1;
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
    /// The weighted mean of the loads after.
    mean: Vec<f64>,
    /// `|P X - Y|^2` of the best constant prediction, that mean.
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
            axpy(sample.weight / total, sample.after, &mut mean);
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
        let constant = (size - n * n * dot(&mean, &mean) - rest).max(0.0);
        Problem { experts, stride, rank, before, after, rest, mean, constant, size }
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
    /// By row: D, the diagonal `primal / dual`, and U, where U^T U = I + X D X^T.
    weights: Vec<f64>,
    cores: Vec<f64>,
    /// Cholesky factor of the system of the column sums.
    schur: Vec<f64>,
    rhs: Vec<f64>,
    /// A row's product with each sample, and what they answer.
    seen: Vec<f64>,
    back: Vec<f64>,
    primal_step: Vec<f64>,
    dual_step: Vec<f64>,
    sums_step: Vec<f64>,
}

impl<'a> Point<'a> {
    /// The constant prediction.
    fn new(problem: &'a Problem) -> Self {
        let (n, stride) = (problem.experts, problem.stride);
        let size = n * stride;
        let mut point = Point {
            problem,
            primal: vec![0.0; size],
            dual: vec![0.0; size],
            sums: vec![0.0; stride],
            gradient: vec![0.0; size],
            weights: vec![0.0; size],
            cores: vec![0.0; n * problem.rank * problem.rank],
            schur: vec![0.0; stride * stride],
            rhs: vec![0.0; size],
            seen: vec![0.0; problem.rank],
            back: vec![0.0; stride],
            primal_step: vec![0.0; size],
            dual_step: vec![0.0; size],
            sums_step: vec![0.0; stride],
        };
        for (row, &mean) in point.primal.chunks_exact_mut(stride).zip(&problem.mean) {
            row[..n].fill(mean);
        }
        point.slope();
        point
    }

    /// Leaves the boundary: a tenth of a uniform matrix makes no entry zero.
    fn enter(&mut self) {
        let (n, stride) = (self.problem.experts, self.problem.stride);
        let uniform = 1.0 / n as f64;
        for row in self.primal.chunks_exact_mut(stride) {
            row[..n].iter_mut().for_each(|share| *share = 0.9 * *share + 0.1 * uniform);
        }
        self.slope();
        for row in self.gradient.chunks_exact(stride) {
            axpy(uniform, row, &mut self.sums);
        }
        // Equal products p z, of which the gap is the sum.
        let gap = self.gap().max(1e-3 * self.problem.constant).max(1e-12 * self.problem.size);
        let product = gap / 2.0 * uniform * uniform;
        for (z, &p) in self.dual.iter_mut().zip(&self.primal) {
            *z = if p > 0.0 { product / p } else { 0.0 };
        }
    }

    /// Half the gradient of the objective, (P X - Y) X^T.
    fn slope(&mut self) {
        let problem = self.problem;
        let rows = self.primal.chunks_exact(problem.stride);
        let gradients = self.gradient.chunks_exact_mut(problem.stride);
        let wrong = &mut self.seen;
        for ((row, gradient), wanted) in
            rows.zip(gradients).zip(problem.after.chunks_exact(problem.rank))
        {
            dots(&problem.before, row, wrong);
            axpy(-1.0, wanted, wrong);
            gradient.fill(0.0);
            add_rows(wrong, &problem.before, gradient);
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
        let primal = self.primal.iter().zip(&self.primal_step);
        for ((p, dp), (z, dz)) in primal.zip(self.dual.iter().zip(&self.dual_step)) {
            ahead += (p + length * dp) * (z + length * dz);
        }
        let shrink = (ahead / count / target).max(0.0);
        let centre = shrink * shrink * shrink * target;
        self.direction(|p, z, dp, dz| centre - p * z - dp * dz);
        let length = self.longest();
        // Near the edge of rounding a factor's root may be of a negative number.
        let finite = self.primal_step.iter().chain(&self.dual_step).all(|step| step.is_finite());
        if !finite || length < 1e-8 {
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
        let mut half = vec![0.0; rank * stride];
        let mut minus = Vec::with_capacity(rank);
        self.schur.fill(0.0);
        for i in 0..n {
            let entries = i * stride..i * stride + n;
            let values = self.primal[entries.clone()].iter().zip(&self.dual[entries.clone()]);
            for (weight, (p, z)) in self.weights[entries].iter_mut().zip(values) {
                *weight = p / z;
            }
            let weights = &self.weights[i * stride..(i + 1) * stride];
            let diagonal = self.schur.iter_mut().step_by(stride + 1);
            diagonal.zip(&weights[..n]).for_each(|(sum, weight)| *sum += weight);
            let core = &mut self.cores[i * rank * rank..(i + 1) * rank * rank];
            for (t, row) in half.chunks_exact_mut(stride).enumerate() {
                for ((to, &x), &weight) in row.iter_mut().zip(self.problem.x(t)).zip(weights) {
                    *to = x * weight;
                }
                let from_here = &self.problem.before[t * stride..];
                dots(from_here, row, &mut core[t * rank + t..(t + 1) * rank]);
                core[t * rank + t] += 1.0;
            }
            cholesky(core, rank);
            // U^-T X D, whose square is what the core takes from D.
            for t in 0..rank {
                let (done, rest) = half.split_at_mut(t * stride);
                let row = &mut rest[..stride];
                minus.clear();
                minus.extend((0..t).map(|s| -core[s * rank + t]));
                add_rows(&minus, done, row);
                let pivot = core[t * rank + t];
                row.iter_mut().for_each(|value| *value *= pivot);
            }
            subtract_gram(&half, &mut self.schur, stride);
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
        let products = self.primal.iter().zip(&self.dual).zip(&self.primal_step);
        for (((&p, &z), &step), change) in products.zip(&mut self.dual_step) {
            *change = if p > 0.0 { wanted(p, z, step, *change) } else { 0.0 };
        }
        self.sums_step.fill(0.0);
        for i in 0..n {
            let row = i * stride..(i + 1) * stride;
            let entries = i * stride..i * stride + n;
            let changes = self.dual_step[entries.clone()].iter().zip(&self.primal[entries.clone()]);
            let others = self.dual[entries.clone()].iter().zip(&self.sums);
            let others = others.zip(&self.gradient[entries.clone()]);
            let all = changes.zip(others).zip(&mut self.rhs[entries]);
            for (((change, p), ((z, sum), slope)), rhs) in all {
                *rhs = change / p + z + sum - slope;
            }
            self.invert_row(i);
            axpy(-1.0, &self.primal_step[row], &mut self.sums_step);
        }
        solve(&self.schur, stride, &mut self.sums_step);
        for i in 0..n {
            axpy(1.0, &self.sums_step, &mut self.rhs[i * stride..(i + 1) * stride]);
            self.invert_row(i);
            let entries = i * stride..i * stride + n;
            let values = self.dual[entries.clone()].iter().zip(&self.primal[entries.clone()]);
            let steps = self.primal_step[entries.clone()].iter();
            for (((z, p), step), change) in values.zip(steps).zip(&mut self.dual_step[entries]) {
                *change = (*change - z * step) / p;
            }
        }
    }

    /// `primal_step = (X X^T + Z / P)^-1 rhs` for a row.
    fn invert_row(&mut self, i: usize) {
        let (stride, rank) = (self.problem.stride, self.problem.rank);
        let row = i * stride..(i + 1) * stride;
        let (rhs, step) = (&self.rhs[row.clone()], &mut self.primal_step[row.clone()]);
        let weights = &self.weights[row];
        for ((step, &rhs), &weight) in step.iter_mut().zip(rhs).zip(weights) {
            *step = weight * rhs;
        }
        let (before, seen) = (&self.problem.before, &mut self.seen[..]);
        dots(before, step, seen);
        let core = &self.cores[i * rank * rank..(i + 1) * rank * rank];
        solve(core, rank, seen);
        self.back.fill(0.0);
        add_rows(seen, before, &mut self.back);
        for ((step, &back), &weight) in step.iter_mut().zip(&self.back).zip(weights) {
            *step -= weight * back;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn loads(n: usize, most: usize) -> impl Strategy<Value = Vec<(Vec<f64>, Vec<f64>, f64)>> {
        let load = prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0, 0.9..1.1f64], n)
            .prop_map(|load| {
                let sum: f64 = load.iter().sum();
                let n = load.len() as f64;
                load.iter().map(|l| if sum > 0.0 { l / sum } else { 1.0 / n }).collect()
            })
            .boxed();
        prop::collection::vec((load.clone(), load, 0.05..1.0f64), 0..most)
    }

    fn samples(window: &[(Vec<f64>, Vec<f64>, f64)]) -> Vec<Sample<'_>> {
        window
            .iter()
            .map(|(before, after, weight)| Sample { before, after, weight: *weight })
            .collect()
    }

    /// Equation 1, with weights that sum to 1.
    fn objective(
        window: &[(Vec<f64>, Vec<f64>, f64)],
        matrix: impl Fn(usize, usize) -> f64,
    ) -> f64 {
        let total: f64 = window.iter().map(|sample| sample.2).sum();
        let wrong = |(before, after, weight): &(Vec<f64>, Vec<f64>, f64)| {
            let row = |i: usize| (0..before.len()).map(|j| matrix(i, j) * before[j]).sum::<f64>();
            let square = |i: usize| (row(i) - after[i]).powi(2);
            weight / total * (0..after.len()).map(square).sum::<f64>()
        };
        window.iter().map(wrong).sum()
    }

    proptest! {
        #[test]
        fn columns_are_distributions_and_none_is_better_by_more_than_the_gap(
            (n, window, other) in (1usize..9).prop_flat_map(|n| {
                (Just(n), loads(n, 24), prop::collection::vec(0.001..1.0f64, n * n))
            }),
        ) {
            let fitted = Transition::fit(n, &samples(&window), 1e-6);
            for j in 0..n {
                let column: f64 = (0..n).map(|i| fitted.get(i, j)).sum();
                prop_assert!((column - 1.0).abs() < 1e-12);
                prop_assert!((0..n).all(|i| (0.0..=1.0 + 1e-12).contains(&fitted.get(i, j))));
            }
            if window.is_empty() {
                return Ok(());
            }
            let reached = objective(&window, |i, j| fitted.get(i, j));
            prop_assert!((reached - fitted.objective).abs() < 1e-12);
            // Where a constant explains nearly all, rounding ends the fit at some 1e-11 of a square.
            let allowed = (1e-6 * fitted.constant_objective).max(1e-10) * 1.001;
            prop_assert!(fitted.gap <= allowed, "gap {} of {allowed}", fitted.gap);
            let total: f64 = window.iter().map(|sample| sample.2).sum();
            let mean = |i: usize| window.iter().map(|s| s.2 / total * s.1[i]).sum::<f64>();
            let share = |i: usize, j: usize| {
                other[i * n + j] / (0..n).map(|k| other[k * n + j]).sum::<f64>()
            };
            let constant = objective(&window, |i, _| mean(i));
            prop_assert!((constant - fitted.constant_objective).abs() < 1e-12);
            for rival in [
                objective(&window, |i, j| f64::from(u8::from(i == j))),
                objective(&window, |_, _| 1.0 / n as f64),
                constant,
                objective(&window, share),
            ] {
                prop_assert!(fitted.objective - fitted.gap <= rival + 1e-12);
            }
        }

        /// Two experts, one unknown a column: the best of a fine grid is no better.
        #[test]
        fn brute_force_finds_nothing_better(window in loads(2, 5)) {
            prop_assume!(!window.is_empty());
            let fitted = Transition::fit(2, &samples(&window), 1e-6);
            let least = (0..=100u32).flat_map(|a| (0..=100u32).map(move |b| [a, b])).map(|stay| {
                let top = stay.map(|share| f64::from(share) / 100.0);
                objective(&window, |i, j| if i == 0 { top[j] } else { 1.0 - top[j] })
            });
            let least = least.fold(f64::INFINITY, f64::min);
            prop_assert!(fitted.objective - fitted.gap <= least + 1e-12);
            prop_assert!(fitted.objective <= least + fitted.gap + 1e-9, "{} > {least}", fitted.objective);
        }

        #[test]
        fn a_planted_matrix_is_found_again(
            planted in prop::collection::vec(0.0..1.0f64, 36),
            window in loads(6, 40),
        ) {
            let share = |i: usize, j: usize| {
                planted[i * 6 + j] / (0..6).map(|k| planted[k * 6 + j]).sum::<f64>()
            };
            let mut window = window;
            // Rich: every expert is hot once.
            for hot in 0..6 {
                let load = (0..6).map(|e| if e == hot { 0.75 } else { 0.05 }).collect();
                window.push((load, Vec::new(), 1.0));
            }
            for (before, after, _) in &mut window {
                *after = (0..6).map(|i| (0..6).map(|j| share(i, j) * before[j]).sum()).collect();
            }
            let fitted = Transition::fit(6, &samples(&window), 1e-10);
            for (i, j) in (0..6).flat_map(|i| (0..6).map(move |j| (i, j))) {
                prop_assert!((fitted.get(i, j) - share(i, j)).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn more_samples_than_experts_change_no_objective() {
        let load = |at: usize| {
            let raw: Vec<f64> = (0..4).map(|e| 1.0 + ((at * 7 + e * e * 3) % 11) as f64).collect();
            let sum: f64 = raw.iter().sum();
            raw.iter().map(|l| l / sum).collect::<Vec<f64>>()
        };
        let window: Vec<_> = (0..50).map(|t| (load(t), load(t * t + 1), 0.9)).collect();
        let fitted = Transition::fit(4, &samples(&window), 1e-8);
        let direct = objective(&window, |i, j| fitted.get(i, j));
        assert!((direct - fitted.objective).abs() < 1e-13);
        assert!(fitted.objective < fitted.constant_objective);
    }

    /// Loads spread over 16 sources as evenly as whole tokens allow: all samples are one but for
    /// rounding, so that the last steps have nothing but rounding to go by.
    #[test]
    fn sources_that_differ_by_a_token_are_fitted() {
        let mut state = 1u64;
        let mut load = || -> Vec<u64> {
            let mut draw = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                500 + (state >> 33) % 4000
            };
            (0..16).map(|_| draw()).collect()
        };
        let share = |load: &[u64], source: u64| {
            let counts: Vec<u64> =
                load.iter().map(|l| l / 16 + u64::from(source < l % 16)).collect();
            let sum: u64 = counts.iter().sum();
            counts.iter().map(|&count| count as f64 / sum as f64).collect::<Vec<f64>>()
        };
        for turn in 0..40 {
            let (before, after) = (load(), load());
            let sample = |source| (share(&before, source), share(&after, source), 1.0);
            let window: Vec<_> = (0..16).map(sample).collect();
            let fitted = Transition::fit(16, &samples(&window), 1e-6);
            assert!(fitted.matrix.iter().all(|share| share.is_finite()), "{turn}: {fitted:?}");
            assert!(fitted.objective - fitted.gap <= fitted.constant_objective, "{turn}");
        }
    }

    #[test]
    fn fits_repeat_to_the_last_bit() {
        let window = [
            (vec![0.5, 0.3, 0.2], vec![0.1, 0.2, 0.7], 1.0),
            (vec![0.2, 0.3, 0.5], vec![0.3, 0.3, 0.4], 0.9),
        ];
        let fit = || Transition::fit(3, &samples(&window), 1e-6);
        assert_eq!(fit(), fit());
    }
}
