//! The optimum of short collectives, proven: branch and bound over patterns.
//!
//! Steps are settled one after the other. What is settled costs at least its linear program; what is
//! left costs at least its own optimum with every plane set for free (Russian dolls: suffixes are
//! solved first, the shortest one to begin with). Planes of one history are interchangeable; where
//! arcs are merged, a relaxation with far fewer patterns, those of one last use are.
//! Long collectives of equal steps get a bound from windows.
//! Checked: against every pattern on tiny instances, and against HiGHS.

use super::pattern::{Ends, Pattern, Scaled, Solver, planes_of};
use crate::problem::Held;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A pattern within this of a bound is as good as it.
const SAME: f64 = 1e-9;

/// What a search came to.
pub(super) struct Proven {
    /// No schedule completes before, in the scaled unit.
    pub bound: f64,
    /// A pattern better than the one that was known.
    pub better: Option<Pattern>,
}

/// Proves `known` optimal, or betters it, with so many programs at most; the bound holds in any case.
/// Where arcs are merged, what seems better need not be a schedule.
pub(super) fn prove(p: &Scaled, known: f64, programs: usize) -> Proven {
    let n = p.steps();
    let mut search = Search::new(n, programs);
    // Suffixes, every plane free.
    let mut doll = Pattern::new();
    for s in (1..n).rev() {
        let part = Scaled {
            work: p.work[s..].to_vec(),
            configuration: p.configuration[s..].to_vec(),
            initial: vec![Held::Free; p.k],
            ..p.clone()
        };
        let floor = p.alpha + p.work[s] / p.k as f64 + search.suffix[s + 1];
        // The best of the shorter suffix with a step before it: a first thing to beat.
        let mut known = f64::MAX;
        let mut at = Pattern::new();
        for set in 1..1u64 << p.k {
            let mut pattern = vec![set];
            pattern.extend_from_slice(&doll);
            if let Some(timing) = search.solver.time(&part, &pattern, known)
                && timing.completion < known
            {
                (known, at) = (timing.completion, pattern);
            }
        }
        // Half of what is left; where planes are merged, half of all is kept for the whole.
        let kept = if p.merged { programs / 2 } else { 0 };
        let share = search.left.saturating_sub(kept) / 2;
        let proven = search.doll(&part, s, known, floor, share);
        search.suffix[s] = proven.bound;
        doll = proven.better.unwrap_or(at);
    }
    let floor = p.alpha + p.work[0] / p.k as f64 + search.suffix[1];
    let all = search.left;
    search.doll(p, 0, known, floor, all)
}

/// A bound on long collectives of equal steps, each of a configuration of its own, by windows.
///
/// How far a plane is from being ready for another configuration, its lag, has a price: a window
/// pays it for the lags it ends with, and gets it back for those it begins with, which are whatever
/// suits it best. Over windows that follow one another the prices cancel, so the least costs of
/// windows add up to a bound. The price that serves best is searched for on windows shorter by two.
/// `None` if the collective is not of this kind.
pub(super) fn windows(p: &Scaled, length: usize, programs: usize) -> Option<f64> {
    let n = p.steps();
    // The first step differs if its configuration stands.
    let (first, whole_lag) = match p.initial[0] {
        Held::Configuration(c) if c == p.configuration[0] => (1, true),
        Held::Dark => (0, true),
        Held::Free => (0, false),
        Held::Configuration(_) => return None,
    };
    let mut distinct = p.configuration.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let equal = p.work.iter().all(|w| (w - p.work[0]).abs() <= 1e-12 * w);
    let same_start = p.initial.iter().all(|held| *held == p.initial[0]);
    if !equal || !same_start || distinct.len() < n || p.dark == 0.0 {
        return None;
    }
    let bound = |length: usize, lambda: f64| {
        let costs = window_costs(p, length, lambda, true, programs);
        let mut bound = if whole_lag { 0.0 } else { -lambda * p.dark };
        if first == 1 {
            bound += window_costs(p, 1, lambda, false, programs)[0];
        }
        let (whole, rest) = ((n - first) / length, (n - first) % length);
        bound + whole as f64 * costs[0] + costs[length - rest]
    };
    let shorter = length.saturating_sub(2).max(1);
    // Concave in the price, but for where a budget ends: coarse, then fine.
    let mut best = (0.0, 0.5);
    for step in [0.2, 0.1, 0.05] {
        let around = best.1;
        for lambda in [around - step, around, around + step] {
            let found = bound(shorter, lambda);
            if found > best.0 {
                best = (found, lambda);
            }
        }
    }
    Some(bound(length, best.1).max(best.0))
}

/// The least cost of windows of `length`, `length - 1`, ..., 0 steps; a lag of every plane costs
/// `lambda` together.
fn window_costs(
    p: &Scaled,
    length: usize,
    lambda: f64,
    any_lag: bool,
    programs: usize,
) -> Vec<f64> {
    let mut search = Search::new(length, programs);
    search.own = 1.0 - lambda;
    let least = (1.0 - lambda) * (p.alpha + p.work[0] / p.k as f64);
    for s in (0..length).rev() {
        let part = Scaled {
            work: p.work[..length - s].to_vec(),
            configuration: p.configuration[..length - s].to_vec(),
            initial: if any_lag { vec![Held::Dark; p.k] } else { p.initial.clone() },
            ends: Ends::Window { price: lambda / p.k as f64, any_lag },
            ..p.clone()
        };
        let floor = search.suffix[s + 1] + least;
        let share = search.left / (s + 1);
        search.suffix[s] = search.doll(&part, s, f64::MAX, floor, share).bound;
    }
    search.suffix
}

struct Search {
    solver: Solver,
    left: usize,
    /// What the steps from each on take at least, on planes that are free.
    suffix: Vec<f64>,
    /// The share of a further step's time by which a prefix costs more, at least.
    own: f64,
}

/// The greatest of a heap has the least bound, and of these the longest prefix.
impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.bound.total_cmp(&self.bound))
            .then(self.pattern.len().cmp(&other.pattern.len()))
            .then_with(|| other.pattern.cmp(&self.pattern))
    }
}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Node {}

impl Search {
    fn new(steps: usize, programs: usize) -> Self {
        Search { solver: Solver::default(), left: programs, suffix: vec![0.0; steps + 1], own: 1.0 }
    }
}

/// A prefix, and what any pattern that begins with it takes at least.
struct Node {
    bound: f64,
    /// What the prefix alone takes.
    prefix: f64,
    pattern: Pattern,
}

impl Search {
    /// Best first, so that the bound is good whenever the budget ends. `floor` bounds the whole.
    fn doll(&mut self, p: &Scaled, offset: usize, known: f64, floor: f64, most: usize) -> Proven {
        let n = p.steps();
        let mut best = known;
        let mut better = None;
        let mut left = most.min(self.left);
        let root = Node { bound: floor, prefix: 0.0, pattern: Vec::new() };
        let mut open = BinaryHeap::from([root]);
        while let Some(node) = open.pop() {
            // The least bound that is open bounds the whole.
            if node.bound >= best * (1.0 - SAME) {
                break;
            }
            if left == 0 {
                return Proven { bound: node.bound.min(best), better };
            }
            let s = node.pattern.len();
            for set in subsets(p, &node.pattern) {
                let rest = self.suffix[offset + s + 1];
                let step = p.alpha + p.work[s] / f64::from(set.count_ones());
                if node.prefix + self.own * step + rest >= best * (1.0 - SAME) {
                    continue;
                }
                let mut pattern = node.pattern.clone();
                pattern.push(set);
                if left == 0 {
                    open.push(Node { bound: node.bound, prefix: node.prefix, pattern });
                    continue;
                }
                left -= 1;
                self.left -= 1;
                let Some(timing) = self.solver.time(p, &pattern, best - rest) else { continue };
                let bound = (timing.completion + rest).max(node.bound);
                if bound >= best * (1.0 - SAME) {
                    continue;
                }
                if s + 1 == n {
                    best = timing.completion;
                    better = Some(pattern);
                } else {
                    open.push(Node { bound, prefix: timing.completion, pattern });
                }
            }
        }
        Proven { bound: best, better }
    }
}

/// Sets of planes for the next step; of planes of one history the first ones only.
fn subsets(p: &Scaled, before: &Pattern) -> Vec<u64> {
    let last = |j: usize| before.iter().rposition(|set| set >> j & 1 == 1);
    let same = |i: usize, j: usize| {
        if p.merged {
            return last(i) == last(j) && (last(i).is_some() || p.initial[i] == p.initial[j]);
        }
        p.initial[i] == p.initial[j] && before.iter().all(|set| set >> i & 1 == set >> j & 1)
    };
    let twin: Vec<Option<usize>> = (0..p.k).map(|j| (0..j).rev().find(|&i| same(i, j))).collect();
    (1u64..1 << p.k)
        .filter(|set| planes_of(*set).all(|j| twin[j].is_none_or(|i| set >> i & 1 == 1)))
        .collect()
}
