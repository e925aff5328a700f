//! Planes switched as a whole: the demand as matchings that last.
//!
//! Greedy: of the rest of the demand take the matching that serves most in the time it costs, set-up
//! included, where what finishes an entry and what fuller lines have counts more; it lasts as long as
//! the best of a few durations says. Then all durations are improved together by a linear
//! program that covers every entry, matchings that come to nothing are left out, and the rest is
//! dealt to the planes, longest first. The first matching of each plane is set while others are; from
//! then on each plane switches on its own, so it overlaps with the others by itself.

use super::demand::Demand;
use super::hold::Hold;
use crate::lp::{Envelope, Rows, minimise};
use crate::problem::Planes;
use lightloom_units::{Bytes, Time};

/// Durations tried for each matching, as shares of the nonzero rest in rising order.
const QUANTILES: [f64; 6] = [1.0, 0.9, 0.75, 0.5, 0.3, 0.1];
/// More nodes than this: fewer durations are tried.
const MANY: usize = 64;

/// Circuits for a demand, every switch of a plane setting all its ports, from dark planes.
pub fn matchings(planes: &Planes, demand: &Demand) -> Vec<Hold> {
    let n = demand.nodes() as usize;
    let mut chosen = greedy(planes, demand);
    improve(&mut chosen, demand);
    deal(&mut chosen, planes, demand, n)
}

/// Whom each node sends to (itself: nothing), and bytes on each circuit at most.
struct Matching {
    to: Vec<usize>,
    bytes: f64,
}

fn greedy(planes: &Planes, demand: &Demand) -> Vec<Matching> {
    let n = demand.nodes() as usize;
    let once = (planes.reconfiguration_ps + planes.latency_ps).ps() as f64
        * planes.rate_bps.bps() as f64
        / 8e12;
    let mut rest: Vec<u64> = demand.bytes.clone();
    let mut chosen = Vec::new();
    let mut assignment = Assignment::new(n);
    let quantiles = if n > MANY { &QUANTILES[1..4] } else { &QUANTILES[..] };
    loop {
        let mut sizes: Vec<u64> = rest.iter().copied().filter(|&b| b > 0).collect();
        if sizes.is_empty() {
            return chosen;
        }
        sizes.sort_unstable();
        let mut line = vec![0.0f64; 2 * n];
        for (at, &bytes) in rest.iter().enumerate() {
            if bytes > 0 {
                line[at / n] += bytes as f64 + once;
                line[n + at % n] += bytes as f64 + once;
            }
        }
        let fullest = line.iter().fold(0.0f64, |a, &b| a.max(b));
        let mut best: Option<(f64, Vec<usize>, u64)> = None;
        let mut before = 0;
        for quantile in quantiles {
            let last = ((sizes.len() as f64 * quantile).ceil() as usize).clamp(1, sizes.len());
            let lasts = sizes[last - 1];
            if std::mem::replace(&mut before, lasts) == lasts {
                continue;
            }
            let weight = |at: usize| {
                let bytes = rest[at];
                if bytes == 0 {
                    return 0.0;
                }
                // A finished entry never needs a set-up again.
                let served = bytes.min(lasts) as f64 + if bytes <= lasts { once } else { 0.0 };
                let urgent = line[at / n].max(line[n + at % n]) / fullest;
                served * urgent.powi(4)
            };
            let (to, value) = assignment.heaviest(weight);
            let rate = value / (lasts as f64 + once);
            if best.as_ref().is_none_or(|(most, ..)| rate > *most) {
                best = Some((rate, to, lasts));
            }
        }
        let (_, to, lasts) = best.expect("at least one duration is tried");
        // Where switching costs next to nothing, short ones look best; each must finish an entry.
        let entries = to.iter().enumerate().map(|(from, &to)| rest[from * n + to]);
        let shortest = entries.filter(|&bytes| bytes > 0).min();
        let lasts =
            lasts.max(shortest.expect("the heaviest matching has an entry, as there is one"));
        let mut most = 0;
        for (from, &to) in to.iter().enumerate() {
            let bytes = &mut rest[from * n + to];
            let served = (*bytes).min(lasts);
            *bytes -= served;
            most = most.max(served);
        }
        chosen.push(Matching { to, bytes: most as f64 });
    }
}

/// The least sum of durations with which these matchings carry the demand.
fn improve(chosen: &mut [Matching], demand: &Demand) {
    let n = demand.nodes() as usize;
    let mut of_entry: Vec<Vec<usize>> = vec![Vec::new(); n * n];
    for (m, matching) in chosen.iter().enumerate() {
        for (from, &to) in matching.to.iter().enumerate() {
            of_entry[from * n + to].push(m);
        }
    }
    let unit = chosen.iter().map(|m| m.bytes).fold(1.0, f64::max);
    let mut rows = Rows::default();
    rows.clear();
    rows.columns = chosen.len();
    for m in 0..chosen.len() {
        rows.put(m, 1.0);
        rows.end(0.0);
    }
    for (from, to, bytes) in demand.entries() {
        for &m in &of_entry[from as usize * n + to as usize] {
            rows.put(m, 1.0);
        }
        rows.end(bytes as f64 / unit);
    }
    let start = chosen.iter().map(|m| m.bytes / unit + 1.0).collect();
    let cost = vec![1.0; chosen.len()];
    let Some(x) = minimise(&rows, &mut Envelope::default(), &cost, start, f64::MAX) else {
        return;
    };
    let total = |m: &[f64]| m.iter().sum::<f64>();
    let greedy: Vec<f64> = chosen.iter().map(|m| m.bytes / unit).collect();
    // An entry may be rounded up by a byte in each matching; what is less than that is nothing.
    let tiny = (chosen.len() as f64 / unit).max(1e-9);
    if total(&x) < total(&greedy) {
        for (matching, x) in chosen.iter_mut().zip(&x) {
            matching.bytes = if *x < tiny { 0.0 } else { x * unit };
        }
    }
}

/// Longest first to whichever plane is free first.
fn deal(chosen: &mut [Matching], planes: &Planes, demand: &Demand, n: usize) -> Vec<Hold> {
    chosen.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    // Bytes of each entry, matching by matching; what rounding leaves goes on the last one.
    let mut rest = demand.bytes.clone();
    let mut last = vec![usize::MAX; n * n];
    for (m, matching) in chosen.iter().enumerate() {
        for (from, &to) in matching.to.iter().enumerate() {
            if matching.bytes > 0.0 || last[from * n + to] == usize::MAX {
                last[from * n + to] = m;
            }
        }
    }
    let mut free = vec![Time::ZERO; planes.planes as usize];
    let mut holds = Vec::new();
    for (m, matching) in chosen.iter().enumerate() {
        let (plane, &dark) =
            free.iter().enumerate().min_by_key(|&(_, t)| *t).expect("there is a plane");
        let start = dark + planes.reconfiguration_ps;
        let mut ends = Time::ZERO;
        for (from, &to) in matching.to.iter().enumerate() {
            let at = from * n + to;
            let most = if last[at] == m { rest[at] } else { matching.bytes.ceil() as u64 };
            let bytes = most.min(rest[at]);
            if bytes == 0 {
                continue;
            }
            rest[at] -= bytes;
            let bytes = Bytes::new(bytes);
            let end = start + planes.latency_ps + planes.rate_bps.time_for(bytes);
            ends = ends.max(end);
            holds.push(Hold {
                plane: plane as u32,
                from: from as u32,
                to: to as u32,
                dark_ps: dark,
                start_ps: start,
                end_ps: end,
                bytes,
                set: true,
            });
        }
        if ends > Time::ZERO {
            free[plane] = ends;
        }
    }
    holds
}

/// The assignment problem, by shortest augmenting paths (Jonker and Volgenant 1987).
struct Assignment {
    n: usize,
    weight: Vec<f64>,
}

impl Assignment {
    fn new(n: usize) -> Self {
        Assignment { n, weight: vec![0.0; n * n] }
    }

    /// The permutation of greatest weight, and its weight; weights are 0 or more.
    fn heaviest(&mut self, weight: impl Fn(usize) -> f64) -> (Vec<usize>, f64) {
        const NONE: usize = usize::MAX;
        let n = self.n;
        for (at, w) in self.weight.iter_mut().enumerate() {
            *w = weight(at);
        }
        let (mut u, mut v) = (vec![0.0; n], vec![0.0; n]);
        let mut row_of = vec![NONE; n];
        let mut distance = vec![0.0; n];
        let mut via = vec![0; n];
        let mut done = vec![false; n];
        for first in 0..n {
            distance.fill(f64::INFINITY);
            done.fill(false);
            let (mut row, mut reached) = (first, 0.0);
            // Columns in the order of their distance, until one is free.
            let end = loop {
                let (mut next, mut least) = (NONE, f64::INFINITY);
                for column in 0..n {
                    if done[column] {
                        continue;
                    }
                    let through = reached - self.weight[row * n + column] - u[row] - v[column];
                    if through < distance[column] {
                        distance[column] = through;
                        via[column] = row;
                    }
                    if distance[column] < least {
                        (next, least) = (column, distance[column]);
                    }
                }
                done[next] = true;
                reached = least;
                if row_of[next] == NONE {
                    break next;
                }
                row = row_of[next];
            };
            for column in 0..n {
                if done[column] {
                    let slack = reached - distance[column];
                    v[column] -= slack;
                    if row_of[column] != NONE {
                        u[row_of[column]] += slack;
                    }
                }
            }
            u[first] += reached;
            // Shift the matched edges along the path.
            let mut column = end;
            loop {
                let row = via[column];
                let before = row_of.iter().position(|&r| r == row);
                row_of[column] = row;
                match before {
                    Some(freed) if row != first => column = freed,
                    _ => break,
                }
            }
        }
        let mut to = vec![0; n];
        for (column, &row) in row_of.iter().enumerate() {
            to[row] = column;
        }
        let total = to.iter().enumerate().map(|(row, &c)| self.weight[row * n + c]).sum();
        (to, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn every(n: usize, row: usize, used: u32, weight: &[f64]) -> f64 {
        (0..n)
            .filter(|c| used >> c & 1 == 0)
            .map(|c| weight[row * n + c] + every(n, row + 1, used | 1 << c, weight))
            .fold(if row == n { 0.0 } else { f64::MIN }, f64::max)
    }

    proptest! {
        #[test]
        fn the_heaviest_is_the_best_of_all(n in 1usize..6, seed in prop::collection::vec(0u32..20, 25)) {
            let weight: Vec<f64> = seed.iter().map(|&w| f64::from(w)).collect();
            let (to, total) = Assignment::new(n).heaviest(|at| weight[at]);
            let mut seen = to.clone();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..n).collect::<Vec<_>>());
            prop_assert_eq!(total, every(n, 0, 0, &weight[..n * n]));
        }
    }
}
