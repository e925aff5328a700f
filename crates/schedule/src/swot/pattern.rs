//! The best times for a pattern: which plane serves which step is given, how much and when is not.
//!
//! With the pattern fixed the rest is a linear program (SWOT, equations 1-11, with the binaries
//! settled). Written in what it is about: `tau[s]`, the time between two barriers, and for each pair
//! of consecutive uses of a plane with different configurations, how much `early` it leaves the
//! first and how `late` it comes to the second. A switch fits if early + late + the steps that the
//! plane sits out make up the reconfiguration time; a step on q planes is served if
//! `q (tau - alpha)`, less what its planes miss, covers its volume. The sum of the taus is least.
//!
//! Solved by a primal-dual interior point (Mehrotra 1992): the normal matrix couples only steps that
//! are near each other, so its envelope is thin and a long collective costs as its length. Checked:
//! against the worked example, and against HiGHS on random patterns.

use super::{Held, Problem};
use lightloom_units::Bytes;

/// Which planes serve each step, as sets of bits.
pub(super) type Pattern = Vec<u64>;

/// The problem in floating point: times in units of `unit_ps`.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    pub k: usize,
    /// Time of each step on one plane, without latency.
    pub work: Vec<f64>,
    pub configuration: Vec<u32>,
    pub initial: Vec<Held>,
    pub alpha: f64,
    pub dark: f64,
    pub unit_ps: f64,
    pub ends: Ends,
}

/// Where the steps at hand begin and end in a longer collective, for bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ends {
    /// They are the whole.
    Whole,
    /// They are a window. How far the planes are from being ready has a price, paid at the end and
    /// got back at the beginning: over windows that follow one another it cancels.
    Window {
        /// Price of a plane's lag (of one plane, so the mean lag's over k).
        price: f64,
        /// Whether each plane begins with whatever lag is best, instead of a whole one.
        any_lag: bool,
    },
}

impl Scaled {
    pub fn new(problem: &Problem) -> Self {
        let planes = problem.planes();
        let ps_per_byte = 8e12 / planes.rate_bps.bps() as f64;
        let work: Vec<f64> =
            problem.steps().iter().map(|s| s.volume_bytes.get() as f64 * ps_per_byte).collect();
        let mean = work.iter().sum::<f64>() / work.len() as f64;
        let unit_ps = (planes.reconfiguration_ps.ps() as f64).max(mean).max(1.0);
        Scaled {
            k: planes.planes as usize,
            work: work.into_iter().map(|w| w / unit_ps).collect(),
            configuration: problem.steps().iter().map(|s| s.configuration).collect(),
            initial: problem.initial().to_vec(),
            alpha: planes.latency_ps.ps() as f64 / unit_ps,
            dark: planes.reconfiguration_ps.ps() as f64 / unit_ps,
            unit_ps,
            ends: Ends::Whole,
        }
    }

    pub fn steps(&self) -> usize {
        self.work.len()
    }
}

/// Times for a pattern.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    /// Completion, in the scaled unit.
    pub completion: f64,
    /// What each plane of the pattern carries of each step, as a share of the step; planes rising.
    pub shares: Vec<Vec<(u32, f64)>>,
}

impl Timing {
    /// Whole bytes for each share; they sum to the volume of their step.
    pub fn parts(&self, problem: &Problem) -> super::Parts {
        let mut parts = Vec::with_capacity(self.shares.len());
        for (shares, step) in self.shares.iter().zip(problem.steps()) {
            let volume = step.volume_bytes.get();
            let total: f64 = shares.iter().map(|&(_, x)| x).sum();
            // Rounding the running sum keeps every part within a byte, and the sum exact.
            let (mut sum, mut before) = (0.0, 0u64);
            let mut of_step = Vec::with_capacity(shares.len());
            for (i, &(plane, share)) in shares.iter().enumerate() {
                sum += share;
                let until = if i + 1 == shares.len() {
                    volume
                } else {
                    ((sum / total * volume as f64).round() as u64).clamp(before, volume)
                };
                if until > before {
                    of_step.push((plane, Bytes::new(until - before)));
                }
                before = until;
            }
            parts.push(of_step);
        }
        parts
    }
}

/// A variable that some use loses time by: `sign * x + constant`.
#[derive(Clone, Copy)]
struct Loss {
    variable: usize,
    sign: f64,
    constant: f64,
}

/// Workspace, used again from one pattern to the next.
#[derive(Default)]
pub(super) struct Solver {
    rows: Rows,
    normal: Envelope,
    /// Losses of each use, by step then plane: leaving early, coming late.
    early: Vec<Option<Loss>>,
    late: Vec<Option<Loss>>,
    tau: Vec<usize>,
    cost: Vec<f64>,
    /// What the program takes beside its variables.
    constant: f64,
}

/// `G x >= h`, sparse by rows.
#[derive(Default)]
struct Rows {
    start: Vec<usize>,
    column: Vec<usize>,
    value: Vec<f64>,
    bound: Vec<f64>,
    columns: usize,
}

impl Rows {
    fn clear(&mut self) {
        self.start.clear();
        self.start.push(0);
        self.column.clear();
        self.value.clear();
        self.bound.clear();
        self.columns = 0;
    }
    fn put(&mut self, column: usize, value: f64) {
        self.column.push(column);
        self.value.push(value);
    }
    fn end(&mut self, bound: f64) {
        self.bound.push(bound);
        self.start.push(self.column.len());
    }
    fn len(&self) -> usize {
        self.bound.len()
    }
    fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.start[i]..self.start[i + 1];
        self.column[range.clone()].iter().copied().zip(self.value[range].iter().copied())
    }
    /// out = G x
    fn times(&self, x: &[f64], out: &mut [f64]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = self.row(i).map(|(j, v)| v * x[j]).sum();
        }
    }
    /// out += G' y
    fn add_transposed(&self, y: &[f64], out: &mut [f64]) {
        for (i, &y) in y.iter().enumerate() {
            for (j, v) in self.row(i) {
                out[j] += v * y;
            }
        }
    }
}

/// A symmetric positive definite matrix, the lower half, each row from its first entry on.
#[derive(Default)]
struct Envelope {
    first: Vec<usize>,
    start: Vec<usize>,
    value: Vec<f64>,
}

impl Envelope {
    fn shape(&mut self, rows: &Rows) {
        let n = rows.columns;
        self.first.clear();
        self.first.extend(0..n);
        for i in 0..rows.len() {
            let low = rows.row(i).map(|(j, _)| j).min().unwrap_or(0);
            for (j, _) in rows.row(i) {
                self.first[j] = self.first[j].min(low);
            }
        }
        self.start.clear();
        let mut at = 0;
        for (i, &first) in self.first.iter().enumerate() {
            self.start.push(at);
            at += i - first + 1;
        }
        self.value.clear();
        self.value.resize(at, 0.0);
    }

    /// self = G' diag(d) G, with a little on the diagonal so that it stays definite.
    fn fill(&mut self, rows: &Rows, d: &[f64]) {
        self.value.fill(0.0);
        for (i, &d) in d.iter().enumerate() {
            for (a, va) in rows.row(i) {
                for (b, vb) in rows.row(i) {
                    if b <= a {
                        self.value[self.start[a] + b - self.first[a]] += d * va * vb;
                    }
                }
            }
        }
        for i in 0..self.first.len() {
            self.value[self.start[i] + i - self.first[i]] += 1e-13;
        }
    }

    fn factor(&mut self) {
        for i in 0..self.first.len() {
            let fi = self.first[i];
            for j in fi..=i {
                let fj = self.first[j];
                let from = fi.max(fj);
                let (ri, rj) = (self.start[i] + from - fi, self.start[j] + from - fj);
                let len = j - from;
                let dot: f64 = self.value[ri..ri + len]
                    .iter()
                    .zip(&self.value[rj..rj + len])
                    .map(|(a, b)| a * b)
                    .sum();
                let at = self.start[i] + j - fi;
                let rest = self.value[at] - dot;
                self.value[at] = if i == j {
                    // What rounding left of a direction that is settled already: do not move in it.
                    if rest > 1e-13 * self.value[at] { rest.sqrt() } else { 1e64 }
                } else {
                    rest / self.value[self.start[j] + j - fj]
                };
            }
        }
    }

    /// x = (L L')^-1 x
    fn solve(&self, x: &mut [f64]) {
        let n = self.first.len();
        for i in 0..n {
            let row = &self.value[self.start[i]..self.start[i] + i - self.first[i] + 1];
            let (last, row) = row.split_last().expect("every row has a diagonal");
            let dot: f64 = row.iter().zip(&x[self.first[i]..]).map(|(a, b)| a * b).sum();
            x[i] = (x[i] - dot) / last;
        }
        for i in (0..n).rev() {
            let row = &self.value[self.start[i]..self.start[i] + i - self.first[i] + 1];
            let (last, row) = row.split_last().expect("every row has a diagonal");
            let value = x[i] / last;
            x[i] = value;
            for (a, b) in row.iter().zip(&mut x[self.first[i]..]) {
                *b -= a * value;
            }
        }
    }
}

impl Solver {
    /// The least completion for this pattern, or `None` if it is certain to be above `cutoff`.
    ///
    /// Every step must have a plane.
    pub fn time(&mut self, problem: &Scaled, pattern: &Pattern, cutoff: f64) -> Option<Timing> {
        let start = self.build(problem, pattern);
        let x = self.minimise(start, cutoff)?;
        let k = problem.k;
        let mut shares = Vec::with_capacity(pattern.len());
        for (s, &set) in pattern.iter().enumerate() {
            let tau = x[self.tau[s]];
            let mut of_step = Vec::with_capacity(set.count_ones() as usize);
            for j in planes_of(set) {
                let lost =
                    |loss: Option<Loss>| loss.map_or(0.0, |l| l.sign * x[l.variable] + l.constant);
                let carried =
                    tau - problem.alpha - lost(self.early[s * k + j]) - lost(self.late[s * k + j]);
                of_step.push((j as u32, carried.max(0.0)));
            }
            shares.push(of_step);
        }
        let completion = self.constant + self.cost.iter().zip(&x).map(|(c, x)| c * x).sum::<f64>();
        Some(Timing { completion, shares })
    }

    /// Writes the program down; returns a point strictly inside.
    fn build(&mut self, p: &Scaled, pattern: &Pattern) -> Vec<f64> {
        let (k, n) = (p.k, pattern.len());
        self.rows.clear();
        self.early.clear();
        self.early.resize(n * k, None);
        self.late.clear();
        self.late.resize(n * k, None);
        self.tau.clear();
        // Least time of a step, to leave out switches that certainly fit.
        let least = |s: usize| p.alpha + p.work[s] / f64::from(pattern[s].count_ones());
        // Arcs (from a use, or from the beginning) that may cost time.
        let mut arcs = Vec::new();
        for j in 0..k {
            let mut before: Option<usize> = None;
            let mut held = p.initial[j];
            let mut between = 0.0;
            for (s, &set) in pattern.iter().enumerate() {
                if set >> j & 1 == 0 {
                    between += least(s);
                    continue;
                }
                let wanted = Held::Configuration(p.configuration[s]);
                if held != wanted && held != Held::Free && between < p.dark {
                    arcs.push((before, s, j));
                }
                (before, held, between) = (Some(s), wanted, 0.0);
            }
        }
        // Variables in the order of their steps, so that the envelope stays thin.
        let mut leaving = vec![Vec::new(); n];
        let mut coming = vec![Vec::new(); n];
        for (a, &(from, to, _)) in arcs.iter().enumerate() {
            if let Some(from) = from {
                leaving[from].push(a);
            }
            coming[to].push(a);
        }
        let mut x = Vec::new();
        for (s, (coming, leaving)) in coming.iter().zip(&leaving).enumerate() {
            for &a in coming {
                let (from, to, j) = arcs[a];
                let loss = match from {
                    // Next to each other: late is what early leaves of the reconfiguration.
                    Some(from) if from + 1 == to => {
                        let early = self.early[from * k + j].expect("set at the step before");
                        Loss { variable: early.variable, sign: -1.0, constant: p.dark }
                    }
                    _ => {
                        x.push(p.dark + 0.1);
                        Loss { variable: x.len() - 1, sign: 1.0, constant: 0.0 }
                    }
                };
                self.late[s * k + j] = Some(loss);
            }
            self.tau.push(x.len());
            x.push(p.work[s] + p.alpha + 3.0 * (p.dark + 0.2));
            for &a in leaving {
                let (_, to, j) = arcs[a];
                let adjacent = s + 1 == to;
                x.push(if adjacent { 0.5 * p.dark } else { p.dark + 0.1 });
                self.early[s * k + j] =
                    Some(Loss { variable: x.len() - 1, sign: 1.0, constant: 0.0 });
            }
        }
        let lag = self.add_ends(p, pattern, &mut x);
        self.rows.columns = x.len();
        for &(from, to, j) in &arcs {
            let late = self.late[to * k + j].expect("every arc comes late");
            let early = from.and_then(|f| self.early[f * k + j]);
            if late.sign < 0.0 {
                self.rows.put(late.variable, 1.0);
                self.rows.end(0.0);
                self.rows.put(late.variable, -1.0);
                self.rows.end(-p.dark);
                continue;
            }
            for loss in [Some(late), early].into_iter().flatten() {
                self.rows.put(loss.variable, 1.0);
                self.rows.end(0.0);
            }
            for loss in [early, Some(late)].into_iter().flatten() {
                self.rows.put(loss.variable, 1.0);
            }
            for s in from.map_or(0, |f| f + 1)..to {
                self.rows.put(self.tau[s], 1.0);
            }
            match lag {
                // As late as the lag it began with.
                Some(first) if from.is_none() => {
                    self.rows.put(first + j, -1.0);
                    self.rows.end(0.0);
                }
                _ => self.rows.end(p.dark),
            }
        }
        for (s, &set) in pattern.iter().enumerate() {
            let q = f64::from(set.count_ones());
            let mut needed = p.work[s] + q * p.alpha;
            self.rows.put(self.tau[s], q);
            for j in planes_of(set) {
                for loss in [self.early[s * k + j], self.late[s * k + j]].into_iter().flatten() {
                    self.rows.put(loss.variable, -loss.sign);
                    needed += loss.constant;
                }
            }
            self.rows.end(needed);
            if set.count_ones() == 1 {
                continue;
            }
            for j in planes_of(set) {
                let losses = [self.early[s * k + j], self.late[s * k + j]];
                let mut needed = p.alpha;
                for loss in losses.iter().flatten() {
                    self.rows.put(loss.variable, -loss.sign);
                    needed += loss.constant;
                }
                self.rows.put(self.tau[s], 1.0);
                self.rows.end(needed);
            }
        }
        x
    }

    /// The price of lags at both ends of a window: variables, rows and costs. Returns the first of
    /// the lags that planes begin with, if they are free.
    fn add_ends(&mut self, p: &Scaled, pattern: &Pattern, x: &mut Vec<f64>) -> Option<usize> {
        self.constant = 0.0;
        self.cost.clear();
        self.cost.resize(x.len(), 0.0);
        for &t in &self.tau {
            self.cost[t] = 1.0;
        }
        let Ends::Window { price, any_lag } = p.ends else { return None };
        let k = p.k;
        let lag = any_lag.then_some(x.len());
        if any_lag {
            for _ in 0..k {
                x.push(0.5 * p.dark);
                self.cost.push(-price);
                self.rows.put(x.len() - 1, 1.0);
                self.rows.end(0.0);
                self.rows.put(x.len() - 1, -1.0);
                self.rows.end(-p.dark);
            }
        } else {
            self.constant = -price * p.dark * k as f64;
        }
        for j in 0..k {
            let last = (0..pattern.len()).rev().find(|&s| pattern[s] >> j & 1 == 1);
            // What is left of the lag at the end.
            x.push(p.dark + 0.1);
            self.cost.push(price);
            let left = x.len() - 1;
            self.rows.put(left, 1.0);
            self.rows.end(0.0);
            self.rows.put(left, 1.0);
            let mut needed = p.dark;
            if let Some(last) = last {
                x.push(p.dark + 0.1);
                self.cost.push(0.0);
                let early = x.len() - 1;
                self.early[last * k + j] = Some(Loss { variable: early, sign: 1.0, constant: 0.0 });
                self.rows.put(early, 1.0);
            } else if let Some(first) = lag {
                self.rows.put(first + j, -1.0);
                needed = 0.0;
            }
            for s in last.map_or(0, |s| s + 1)..pattern.len() {
                self.rows.put(self.tau[s], 1.0);
            }
            self.rows.end(needed);
            if last.is_some() {
                self.rows.put(x.len() - 1, 1.0);
                self.rows.end(0.0);
            }
        }
        lag
    }

    /// Least sum of taus from a point strictly inside.
    fn minimise(&mut self, mut x: Vec<f64>, cutoff: f64) -> Option<Vec<f64>> {
        let (n, m) = (x.len(), self.rows.len());
        let rows = &self.rows;
        self.normal.shape(rows);
        let cost = &self.cost;
        let mut s = vec![0.0; m];
        rows.times(&x, &mut s);
        for (s, h) in s.iter_mut().zip(&rows.bound) {
            *s = (*s - h).max(1e-9);
        }
        let mut y: Vec<f64> = s.iter().map(|s| 0.3 / s).collect();
        let (mut d, mut rhs, mut rc) = (vec![0.0; m], vec![0.0; n], vec![0.0; m]);
        let (mut ds, mut dy) = (vec![0.0; m], vec![0.0; m]);
        for _ in 0..80 {
            // Primal feasibility holds from the start and steps keep it: s is always G x - h.
            let mut rd = vec![0.0; n];
            rows.add_transposed(&y, &mut rd);
            for (rd, c) in rd.iter_mut().zip(cost) {
                *rd = c - *rd;
            }
            let mu = s.iter().zip(&y).map(|(s, y)| s * y).sum::<f64>() / m as f64;
            let off = rd.iter().fold(0.0f64, |a, r| a.max(r.abs()));
            let total: f64 = cost.iter().zip(&x).map(|(c, x)| c * x).sum();
            if off < 1e-9 {
                let dual: f64 = y.iter().zip(&rows.bound).map(|(y, h)| y * h).sum();
                if dual + self.constant > cutoff {
                    return None;
                }
                if total - dual < 1e-12 * total.abs() {
                    break;
                }
            }
            if mu < 1e-15 {
                break;
            }
            for i in 0..m {
                d[i] = y[i] / s[i];
            }
            self.normal.fill(rows, &d);
            self.normal.factor();
            let direction = |normal: &Envelope,
                             rc: &[f64],
                             rhs: &mut Vec<f64>,
                             ds: &mut [f64],
                             dy: &mut [f64]| {
                for i in 0..m {
                    dy[i] = rc[i] / s[i];
                }
                rhs.fill(0.0);
                rows.add_transposed(dy, rhs);
                for (r, rd) in rhs.iter_mut().zip(&rd) {
                    *r -= rd;
                }
                normal.solve(rhs);
                rows.times(rhs, ds);
                for i in 0..m {
                    dy[i] = (rc[i] - y[i] * ds[i]) / s[i];
                }
            };
            for i in 0..m {
                rc[i] = -s[i] * y[i];
            }
            direction(&self.normal, &rc, &mut rhs, &mut ds, &mut dy);
            let (ap, ad) = (reach(&s, &ds), reach(&y, &dy));
            let after = (0..m).map(|i| (s[i] + ap * ds[i]) * (y[i] + ad * dy[i])).sum::<f64>();
            let sigma = (after / m as f64 / mu).powi(3);
            for i in 0..m {
                rc[i] = sigma * mu - s[i] * y[i] - ds[i] * dy[i];
            }
            direction(&self.normal, &rc, &mut rhs, &mut ds, &mut dy);
            let near = 1.0 - (0.1f64).min(0.005 + mu);
            let (ap, ad) = (reach(&s, &ds) * near, reach(&y, &dy) * near);
            for (x, dx) in x.iter_mut().zip(&rhs) {
                *x += ap * dx;
            }
            for i in 0..m {
                s[i] += ap * ds[i];
                y[i] += ad * dy[i];
            }
        }
        Some(x)
    }
}

/// The largest step, up to 1, that keeps every entry positive.
fn reach(at: &[f64], direction: &[f64]) -> f64 {
    at.iter().zip(direction).filter(|&(_, &d)| d < 0.0).fold(1.0, |a: f64, (&x, &d)| a.min(-x / d))
}

/// The planes of a set, rising.
pub(super) fn planes_of(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let j = set.trailing_zeros() as usize;
            set &= set - 1;
            j
        })
    })
}
