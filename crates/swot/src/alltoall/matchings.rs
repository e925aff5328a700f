//! Planes switched as a whole: the demand as matchings that last.
//!
//! Greedy: of the rest of the demand take the matching that serves most in the time it costs, set-up
//! included, where what finishes an entry and what fuller lines have counts more; it lasts as long as
//! the best of a few durations says. Then all durations are improved together by a linear
//! program that covers every entry, matchings that come to nothing are left out, and the rest is
//! dealt to the planes, longest first; where that leaves a plane late, matchings are cut at a common
//! target, and what is left of them goes to other planes. The first matching of each plane is set
//! while others are; from then on each plane switches on its own, so it overlaps with the others by
//! itself.

use super::demand::Demand;
use super::hold::{Hold, completion};
use crate::lp::{Envelope, Rows, minimise};
use crate::problem::Planes;
use lightloom_units::{Bytes, Time};

/// Durations tried for each matching, as shares of the nonzero rest in rising order.
const QUANTILES: [f64; 6] = [1.0, 0.9, 0.75, 0.5, 0.3, 0.1];
/// How much the emptier line of an entry counts, as a power; the best stands.
const OTHER: [i32; 3] = [0, 1, 4];
/// More nodes than this: fewer durations are tried, and only the first of the powers.
const MANY: usize = 64;
/// Targets tried, between planes that are equally full and the longest without cuts.
const TARGETS: u32 = 24;

/// Circuits for a demand, every switch of a plane setting all its ports, from dark planes.
pub fn matchings(planes: &Planes, demand: &Demand) -> Vec<Hold> {
    let other = if demand.nodes() as usize > MANY { &OTHER[..1] } else { &OTHER[..] };
    let mut found = Vec::new();
    for &other in other {
        let mut chosen = greedy(planes, demand, other);
        improve(&mut chosen, demand);
        chosen.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
        found.push(deal(&chosen, planes, demand));
        found.extend(cut(&chosen, planes).map(|cut| deal(&cut, planes, demand)));
    }
    found.into_iter().min_by_key(|holds| completion(holds)).expect("at least one way is tried")
}

/// What a matching costs beside its bytes, in bytes.
fn set_up(planes: &Planes) -> f64 {
    let once = planes.reconfiguration_ps + planes.latency_ps;
    once.ps() as f64 * planes.rate_bps.bps() as f64 / 8e12
}

/// Whom each node sends to (itself: nothing), and bytes on each circuit at most.
#[derive(Clone)]
struct Matching {
    to: Vec<usize>,
    bytes: f64,
}

fn greedy(planes: &Planes, demand: &Demand, other: i32) -> Vec<Matching> {
    let n = demand.nodes() as usize;
    let once = set_up(planes);
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
                let (a, b) = (line[at / n] / fullest, line[n + at % n] / fullest);
                served * a.max(b).powi(4) * a.min(b).powi(other)
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

/// The matchings in the order in which they are dealt, cut at the target that ends soonest; `None`
/// if no cut helps. What is cut pays for another set-up.
fn cut(chosen: &[Matching], planes: &Planes) -> Option<Vec<Matching>> {
    let (once, k) = (set_up(planes), planes.planes as usize);
    let lengths: Vec<f64> = chosen.iter().map(|m| m.bytes).filter(|&b| b > 0.0).collect();
    let least = lengths.iter().map(|b| b + once).sum::<f64>() / k as f64;
    let (_, whole) = pieces(&lengths, once, k, f64::INFINITY);
    let mut best = (Vec::new(), whole);
    for i in 0..TARGETS {
        let target = least + (whole - least) * f64::from(i) / f64::from(TARGETS);
        let tried = pieces(&lengths, once, k, target);
        if tried.1 < best.1 {
            best = tried;
        }
    }
    // Matchings of nothing, which come last, may take what rounding leaves.
    best.0.extend((lengths.len()..chosen.len()).map(|m| (m, 0.0)));
    let piece = |(m, bytes): (usize, f64)| Matching { bytes, ..chosen[m].clone() };
    (best.1 < whole).then(|| best.0.into_iter().map(piece).collect())
}

/// Deals matchings, longest first, to whichever plane is free first; what would run past the target
/// ends there, and its rest is dealt in its turn. Returns (matching, bytes) in this order, and when
/// the last plane is done.
fn pieces(lengths: &[f64], once: f64, k: usize, target: f64) -> (Vec<(usize, f64)>, f64) {
    let mut open: Vec<(f64, usize)> = lengths.iter().copied().zip(0..).collect();
    open.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let mut free = vec![0.0f64; k];
    let mut dealt = Vec::new();
    while let Some((length, m)) = open.pop() {
        let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("there is a plane");
        let room = target - *first - once;
        // A cut must leave more on both sides than it costs.
        let carries = if room > once && length - room > once { room } else { length };
        if carries < length {
            let rest = (length - carries, m);
            open.insert(open.partition_point(|o| *o < rest), rest);
        }
        *first += once + carries;
        dealt.push((m, carries));
    }
    (dealt, free.into_iter().fold(0.0, f64::max))
}

/// Each in turn to whichever plane is free first.
fn deal(chosen: &[Matching], planes: &Planes, demand: &Demand) -> Vec<Hold> {
    let n = demand.nodes() as usize;
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
    use super::super::bound::{bound, whole_bound};
    use super::*;
    use lightloom_units::BitRate;
    use proptest::prelude::*;

    fn planes(k: u32, dark_us: u64) -> Planes {
        Planes {
            planes: k,
            rate_bps: BitRate::from_bps(800_000_000_000 / u64::from(k)),
            reconfiguration_ps: Time::from_us(dark_us),
            latency_ps: Time::from_us(5),
        }
    }

    /// One pair has nearly all of what its nodes send: one plane alone would take 1,260 us.
    #[test]
    fn a_dominant_pair_is_carried_by_all_planes() {
        let mut bytes: Vec<u64> = (0..144u64).map(|at| 50_000 + at * 7_919 % 200_000).collect();
        bytes[1] = 41_200_000;
        let (planes, demand) = (planes(3, 20), Demand::new(12, bytes).expect("valid"));
        let found = completion(&matchings(&planes, &demand));
        let least = whole_bound(&planes, &demand);
        assert!(least >= bound(&planes, &demand) && found >= least);
        assert!(found.ps() as f64 <= 1.15 * least.ps() as f64, "{found} {least}");
    }

    fn every(n: usize, row: usize, used: u32, weight: &[f64]) -> f64 {
        (0..n)
            .filter(|c| used >> c & 1 == 0)
            .map(|c| weight[row * n + c] + every(n, row + 1, used | 1 << c, weight))
            .fold(if row == n { 0.0 } else { f64::MIN }, f64::max)
    }

    /// The least time of one plane: every set of the matchings of three nodes, each as long as the
    /// linear program says.
    fn one_plane(planes: &Planes, demand: &Demand) -> f64 {
        let every = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let mut least = f64::MAX;
        for set in 1..1u32 << every.len() {
            let mut chosen: Vec<Matching> = (0..every.len())
                .filter(|m| set >> m & 1 == 1)
                .map(|m| Matching { to: every[m].to_vec(), bytes: 1e12 })
                .collect();
            let serves =
                |from: u32, to: u32| chosen.iter().any(|m| m.to[from as usize] == to as usize);
            if demand.entries().all(|(from, to, _)| serves(from, to)) {
                improve(&mut chosen, demand);
                least = least.min(chosen.iter().map(|m| m.bytes + set_up(planes)).sum());
            }
        }
        least * 8e12 / planes.rate_bps.bps() as f64
    }

    proptest! {
        #[test]
        fn one_plane_is_near_the_best_and_the_bound_below_it(
            bytes in prop::collection::vec(prop_oneof![Just(0u64), 1_000u64..3_000_000], 9),
            dark in prop_oneof![Just(0u64), 1u64..300],
        ) {
            let planes = planes(1, dark);
            let demand = Demand::new(3, bytes).expect("valid");
            prop_assume!(demand.entries().next().is_some());
            let optimum = one_plane(&planes, &demand);
            prop_assert!(whole_bound(&planes, &demand).ps() as f64 <= optimum * (1.0 + 1e-6));
            let found = completion(&matchings(&planes, &demand)).ps() as f64;
            prop_assert!(found >= optimum * (1.0 - 1e-6) && found <= 1.34 * optimum, "{found} {optimum}");
        }

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
