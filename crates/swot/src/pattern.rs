//! The best times for a pattern: which plane serves which step is given, how much and when is not.
//!
//! With the pattern fixed the rest is a linear program (SWOT, equations 1-11, with the binaries
//! settled). Written in what it is about: `tau[s]`, the time between two barriers, and for each pair
//! of consecutive uses of a plane with different configurations, how much `early` it leaves the
//! first and how `late` it comes to the second. A switch fits if early + late + the steps that the
//! plane sits out make up the reconfiguration time; a step on q planes is served if
//! `q (tau - alpha)`, less what its planes miss, covers its volume. The sum of the taus is least.
//!
//! The program couples only steps that are near each other, so its normal matrix has a thin envelope
//! and a long collective costs as its length ([`lp`](super::lp)). Checked: through the schedulers, by
//! replay and against HiGHS.

use super::lp::{Envelope, Rows, minimise};
use crate::problem::{Held, Problem};
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
    /// Whether planes of one arc share how early they leave and how late they come; a relaxation, in
    /// which only a plane's last use tells it from others.
    pub merged: bool,
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
            merged: false,
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
    pub fn parts(&self, problem: &Problem) -> crate::simple::Parts {
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

/// A plane that switches between two uses, or between the beginning and its first.
#[derive(Clone, Copy)]
struct PlaneSwitch {
    from: Option<usize>,
    to: usize,
    plane: usize,
}

/// The arcs that may cost time.
fn arcs(p: &Scaled, pattern: &Pattern) -> Vec<PlaneSwitch> {
    // Least time of a step, to leave out switches that certainly fit.
    let least = |s: usize| p.alpha + p.work[s] / f64::from(pattern[s].count_ones());
    let mut arcs = Vec::new();
    for plane in 0..p.k {
        let mut from = None;
        let mut held = p.initial[plane];
        let mut between = 0.0;
        for (to, &set) in pattern.iter().enumerate() {
            if set >> plane & 1 == 0 {
                between += least(to);
                continue;
            }
            let wanted = Held::Configuration(p.configuration[to]);
            if held != wanted && held != Held::Free && between < p.dark {
                arcs.push(PlaneSwitch { from, to, plane });
            }
            (from, held, between) = (Some(to), wanted, 0.0);
        }
    }
    arcs
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

impl Solver {
    /// The least completion for this pattern, or `None` if it is certain to be above `cutoff`.
    ///
    /// Every step must have a plane.
    pub fn time(&mut self, problem: &Scaled, pattern: &Pattern, cutoff: f64) -> Option<Timing> {
        let start = self.build(problem, pattern);
        let x = minimise(&self.rows, &mut self.normal, &self.cost, start, cutoff - self.constant)?;
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
        let mut arcs = arcs(p, pattern);
        let mut twins = Vec::new();
        if p.merged {
            let mut firsts: Vec<PlaneSwitch> = Vec::with_capacity(arcs.len());
            for arc in arcs {
                match firsts.iter().find(|first| (first.from, first.to) == (arc.from, arc.to)) {
                    Some(first) => twins.push((arc, first.plane)),
                    None => firsts.push(arc),
                }
            }
            arcs = firsts;
        }
        let mut x = self.add_variables(p, &arcs, n);
        let lag = self.add_ends(p, pattern, &mut x);
        self.rows.columns = x.len();
        self.add_switches(p, &arcs, lag);
        for (PlaneSwitch { from, to, plane }, first) in twins {
            self.late[to * k + plane] = self.late[to * k + first];
            if let Some(from) = from {
                self.early[from * k + plane] = self.early[from * k + first];
            }
        }
        self.add_steps(p, pattern);
        x
    }

    /// The variables of steps and arcs, each where the point begins.
    fn add_variables(&mut self, p: &Scaled, arcs: &[PlaneSwitch], n: usize) -> Vec<f64> {
        let k = p.k;
        // Variables in the order of their steps, so that the envelope stays thin.
        let mut leaving = vec![Vec::new(); n];
        let mut coming = vec![Vec::new(); n];
        for arc in arcs {
            if let Some(from) = arc.from {
                leaving[from].push(arc);
            }
            coming[arc.to].push(arc);
        }
        let mut x = Vec::new();
        for (s, (coming, leaving)) in coming.iter().zip(&leaving).enumerate() {
            for &&PlaneSwitch { from, to, plane: j } in coming {
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
            for &&PlaneSwitch { to, plane: j, .. } in leaving {
                let adjacent = s + 1 == to;
                x.push(if adjacent { 0.5 * p.dark } else { p.dark + 0.1 });
                self.early[s * k + j] =
                    Some(Loss { variable: x.len() - 1, sign: 1.0, constant: 0.0 });
            }
        }
        x
    }

    /// The rows of arcs: early, late and the steps between make up the reconfiguration time. `lag` is the
    /// first of the lags that planes begin with, if they are free.
    fn add_switches(&mut self, p: &Scaled, arcs: &[PlaneSwitch], lag: Option<usize>) {
        let k = p.k;
        for &PlaneSwitch { from, to, plane: j } in arcs {
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
    }

    /// The rows of steps: each is served, and each of its planes for no less than no time.
    fn add_steps(&mut self, p: &Scaled, pattern: &Pattern) {
        let k = p.k;
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
            if p.merged {
                self.add_losses(p, s, set);
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
    }

    /// The rows of a step whose planes are told apart by their arcs only: none loses more than all.
    fn add_losses(&mut self, p: &Scaled, s: usize, set: u64) {
        let of = planes_of(set).flat_map(|j| [self.early[s * p.k + j], self.late[s * p.k + j]]);
        let mut losses: Vec<Loss> = of.flatten().collect();
        losses.sort_by_key(|loss| (loss.variable, loss.sign < 0.0));
        losses.dedup_by_key(|loss| (loss.variable, loss.sign < 0.0));
        for loss in losses {
            self.rows.put(loss.variable, -loss.sign);
            self.rows.put(self.tau[s], 1.0);
            self.rows.end(p.alpha + loss.constant);
        }
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
