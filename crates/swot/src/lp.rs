//! Linear programs `min c x, G x >= h`, by a primal-dual interior point (Mehrotra 1992).
//!
//! For programs whose feasible region has an inside, a point of which is known: so the primal stays
//! feasible, and once the dual is, its value bounds from below and hopeless programs end early. The
//! normal matrix is factored within its envelope. Checked: by the duality gap of every solution that
//! is returned, and against HiGHS through the schedulers.

/// `G x >= h`, sparse by rows.
#[derive(Default)]
pub(super) struct Rows {
    start: Vec<usize>,
    column: Vec<usize>,
    value: Vec<f64>,
    bound: Vec<f64>,
    /// How many variables there are.
    pub columns: usize,
}

impl Rows {
    pub fn clear(&mut self) {
        self.start.clear();
        self.start.push(0);
        self.column.clear();
        self.value.clear();
        self.bound.clear();
        self.columns = 0;
    }
    pub fn put(&mut self, column: usize, value: f64) {
        self.column.push(column);
        self.value.push(value);
    }
    pub fn end(&mut self, bound: f64) {
        self.bound.push(bound);
        self.start.push(self.column.len());
    }
    pub fn len(&self) -> usize {
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
pub(super) struct Envelope {
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

/// The least `cost` over `rows`, from a point strictly inside; `None` if it is certain to be above
/// `cutoff`.
pub(super) fn minimise(
    rows: &Rows,
    normal: &mut Envelope,
    cost: &[f64],
    mut x: Vec<f64>,
    cutoff: f64,
) -> Option<Vec<f64>> {
    let (n, m) = (x.len(), rows.len());
    normal.shape(rows);
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
            if dual > cutoff {
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
        normal.fill(rows, &d);
        normal.factor();
        let direction =
            |normal: &Envelope, rc: &[f64], rhs: &mut Vec<f64>, ds: &mut [f64], dy: &mut [f64]| {
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
        direction(normal, &rc, &mut rhs, &mut ds, &mut dy);
        let (ap, ad) = (reach(&s, &ds), reach(&y, &dy));
        let after = (0..m).map(|i| (s[i] + ap * ds[i]) * (y[i] + ad * dy[i])).sum::<f64>();
        let sigma = (after / m as f64 / mu).powi(3);
        for i in 0..m {
            rc[i] = sigma * mu - s[i] * y[i] - ds[i] * dy[i];
        }
        direction(normal, &rc, &mut rhs, &mut ds, &mut dy);
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

/// The largest step, up to 1, that keeps every entry positive.
fn reach(at: &[f64], direction: &[f64]) -> f64 {
    at.iter().zip(direction).filter(|&(_, &d)| d < 0.0).fold(1.0, |a: f64, (&x, &d)| a.min(-x / d))
}
