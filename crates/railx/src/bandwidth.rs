//! Which dimension gets how many ports (RailX, Sections 3.3.4 and 5).
//!
//! Modelled: whole ports of one or several pools dealt to those who share them so that a cost is
//! least, exactly, for every cost that never rises with a port more; equation 11 and the slowest
//! dimension's time are two such costs, over one stage of a training or a weighted few. Beside it:
//! a training's stages with one split each, some, or one for all; and all ports by turns, with what
//! a switch takes beyond the gap that hides it.
//! Ignored: latency (add it to `hidden_s`, or use [`least_split`] with a cost of your own).
//! Checked: against every split on random costs; n proportional to the square root of V where
//! nothing is hidden; every way to cut a training into segments.

use serde::{Deserialize, Serialize};

/// What one dimension has to do in an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// How long its traffic takes with one port \[s\]: V / 2B.
    pub one_port_s: f64,
    /// Computation that may run meanwhile \[s\]: T* of equation 11.
    pub hidden_s: f64,
}

/// A part of a training: how much it counts, and the load of each dimension.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Iterations that it lasts.
    pub weight: f64,
    /// One a dimension, the same dimensions in every stage.
    pub loads: Vec<Load>,
}

/// What is to be least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The sum of the dimensions' times (equation 11).
    #[default]
    Total,
    /// The time of the slowest dimension (Section 3.3.4).
    Slowest,
}

impl Objective {
    /// The cost of dimensions that take so long.
    pub fn of(self, times: impl Iterator<Item = f64>) -> f64 {
        match self {
            Objective::Total => times.sum(),
            Objective::Slowest => times.fold(0.0, f64::max),
        }
    }
}

/// Ports a dimension, and the cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Split {
    /// Ports of each dimension.
    pub ports: Vec<u32>,
    /// What the objective is then \[s\].
    pub cost_s: f64,
}

/// One who shares a pool of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index of the pool of ports.
    pub pool: usize,
    /// Ports it cannot do without.
    pub least: u32,
}

/// The split of `ports` that is best for all `stages`, each at least one port; `None` if there are
/// more dimensions than ports. Of equally good ones that which gives the first dimensions more.
///
/// ```
/// use lightloom_railx::bandwidth::{Load, Objective, Stage, split};
/// let load = |one_port_s, hidden_s| Load { one_port_s, hidden_s };
/// // 4 : 1 in volume is 2 : 1 in ports for the sum, 4 : 1 for the slowest
/// let plain = [Stage { weight: 1.0, loads: vec![load(40.0, 0.0), load(10.0, 0.0)] }];
/// assert_eq!(split(15, &plain, Objective::Total).unwrap().ports, [10, 5]);
/// assert_eq!(split(15, &plain, Objective::Slowest).unwrap().ports, [12, 3]);
/// // what runs behind 10 s of computation needs no more than 4 ports
/// let hidden = [Stage { weight: 1.0, loads: vec![load(40.0, 10.0), load(10.0, 0.0)] }];
/// assert_eq!(split(15, &hidden, Objective::Total).unwrap().ports, [4, 11]);
/// ```
pub fn split(ports: u32, stages: &[Stage], objective: Objective) -> Option<Split> {
    let dimensions = stages.first().map_or(0, |stage| stage.loads.len());
    let shares = vec![Share { pool: 0, least: 1 }; dimensions];
    let cost = |given: &[u32]| cost(given, stages, objective);
    least_split(&[ports], &shares, f64::INFINITY, &cost)
}

/// What a split costs: the objective of each stage by its weight \[s\].
pub fn cost(ports: &[u32], stages: &[Stage], objective: Objective) -> f64 {
    let stage = |stage: &Stage| {
        let times = stage.loads.iter().zip(ports);
        stage.weight
            * objective
                .of(times.map(|(load, &n)| (load.one_port_s / f64::from(n)).max(load.hidden_s)))
    };
    stages.iter().map(stage).sum()
}

/// The cheapest way to deal each pool's ports to those who share it: exact where `cost` never rises
/// with a port more. `None` if a pool is too small or nothing costs less than `below`.
///
/// Branch and bound: whoever has no ports yet is taken to get all that the others leave.
pub fn least_split(
    pools: &[u32],
    shares: &[Share],
    below: f64,
    cost: &impl Fn(&[u32]) -> f64,
) -> Option<Split> {
    let mut spare = pools.to_vec();
    for share in shares {
        spare[share.pool] = spare[share.pool].checked_sub(share.least)?;
    }
    let mut search = Search { shares, cost, below, best: None };
    let mut ports: Vec<u32> = shares.iter().map(|share| share.least + spare[share.pool]).collect();
    search.deal(&mut ports, &mut spare, 0);
    search.best
}

struct Search<'a, C> {
    shares: &'a [Share],
    cost: &'a C,
    /// What the next split must cost less than \[s\].
    below: f64,
    best: Option<Split>,
}

impl<C: Fn(&[u32]) -> f64> Search<'_, C> {
    /// Tries all that the one at `at` and those after it may get; `ports` holds what those before
    /// have, and for the others the most that they may get.
    fn deal(&mut self, ports: &mut [u32], spare: &mut [u32], at: usize) {
        let bound = (self.cost)(ports);
        if bound >= self.below {
            return;
        }
        let Some(&Share { pool, least }) = self.shares.get(at) else {
            self.below = bound;
            self.best = Some(Split { ports: ports.to_vec(), cost_s: bound });
            return;
        };
        let rest: Vec<usize> =
            (at + 1..self.shares.len()).filter(|&i| self.shares[i].pool == pool).collect();
        let all = spare[pool];
        // The last of a pool takes what is left: a port more never costs.
        let first = if rest.is_empty() { all } else { 0 };
        for more in (first..=all).rev() {
            spare[pool] = all - more;
            ports[at] = least + more;
            for &i in &rest {
                ports[i] = self.shares[i].least + spare[pool];
            }
            self.deal(ports, spare, at + 1);
        }
        spare[pool] = all;
        ports[at] = least + all;
        for &i in &rest {
            ports[i] = self.shares[i].least + all;
        }
    }
}

/// Cuts stages `0..count` into segments that each keep one split, so that the segments' costs and
/// the changes between them are least: their ends, and the cost \[s\]. `segment(first, end)` is
/// what a segment costs with the split that is best for it.
///
/// ```
/// use lightloom_railx::bandwidth::segments;
/// // stages alike cost nothing together; 0 and 1 are alike, 2 is not
/// let kind = [0, 0, 1];
/// let segment = |first: usize, end: usize| if kind[first] == kind[end - 1] { 1.0 } else { 5.0 };
/// assert_eq!(segments(3, 0.5, segment), (vec![2, 3], 2.5));
/// ```
pub fn segments(
    count: usize,
    change_s: f64,
    segment: impl Fn(usize, usize) -> f64,
) -> (Vec<usize>, f64) {
    // The cheapest way to the end of each stage, and where its last segment begins.
    let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
    for end in 1..=count {
        let ways = (0..end).map(|first| {
            let change = if first == 0 { 0.0 } else { change_s };
            (best[first].0 + change + segment(first, end), first)
        });
        best.push(ways.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a stage has an end above 0"));
    }
    let (mut ends, mut end) = (Vec::new(), count);
    while end > 0 {
        ends.push(end);
        end = best[end].1;
    }
    ends.reverse();
    (ends, best[count].0)
}

/// Ports that two kinds of traffic have by turns (RailX, Section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    /// How long a switch is dark when its circuits change \[s\].
    pub delay_s: f64,
    /// Between the end of the first kind and the start of the second \[s\].
    pub gap_s: f64,
    /// Between the end of the second and the next start of the first \[s\].
    pub gap_back_s: f64,
}

impl Turns {
    /// What one change there and one back take beyond their gaps \[s\].
    ///
    /// ```
    /// use lightloom_railx::bandwidth::Turns;
    /// let turns = Turns { delay_s: 0.025, gap_s: 0.006, gap_back_s: 0.030 };
    /// assert_eq!(turns.exposed_s(), 0.025 - 0.006);
    /// ```
    pub fn exposed_s(self) -> f64 {
        let beyond = |gap: f64| (self.delay_s - gap).max(0.0);
        beyond(self.gap_s) + beyond(self.gap_back_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every way to deal `spare` ports to those from `at` on.
    fn all_splits(pools: &[u32], shares: &[Share], ports: &mut Vec<u32>, seen: &mut Vec<Vec<u32>>) {
        let Some(share) = shares.get(ports.len()) else {
            return seen.push(ports.clone());
        };
        let used: u32 = shares
            .iter()
            .zip(ports.iter())
            .filter(|(s, _)| s.pool == share.pool)
            .map(|(_, n)| n)
            .sum();
        for n in share.least..=pools[share.pool].saturating_sub(used) {
            ports.push(n);
            all_splits(pools, shares, ports, seen);
            ports.pop();
        }
    }

    fn loads(dimensions: usize) -> impl Strategy<Value = Vec<Load>> {
        let load = (0u32..1000, prop_oneof![Just(0u32), 0u32..200]);
        let load = load.prop_map(|(v, c)| Load { one_port_s: v.into(), hidden_s: c.into() });
        prop::collection::vec(load, dimensions)
    }

    fn stages() -> impl Strategy<Value = Vec<Stage>> {
        (1usize..5, 1usize..4).prop_flat_map(|(dimensions, stages)| {
            let stage = (1u32..10, loads(dimensions));
            let stage = stage.prop_map(|(w, loads)| Stage { weight: w.into(), loads });
            prop::collection::vec(stage, stages)
        })
    }

    proptest! {
        #[test]
        fn no_split_is_better(
            stages in stages(), ports in 1u32..14,
            objective in prop_oneof![Just(Objective::Total), Just(Objective::Slowest)],
        ) {
            let dimensions = stages[0].loads.len();
            let shares = vec![Share { pool: 0, least: 1 }; dimensions];
            let mut all = Vec::new();
            all_splits(&[ports], &shares, &mut Vec::new(), &mut all);
            let least = all.iter().map(|n| cost(n, &stages, objective)).fold(f64::INFINITY, f64::min);
            match split(ports, &stages, objective) {
                None => prop_assert!(dimensions as u32 > ports),
                Some(found) => {
                    prop_assert_eq!(found.ports.iter().sum::<u32>(), ports);
                    prop_assert_eq!(found.cost_s, cost(&found.ports, &stages, objective));
                    prop_assert_eq!(found.cost_s, least);
                }
            }
        }

        /// Costs that couple dimensions of two pools, as sums of gradients over several do.
        #[test]
        fn no_split_of_two_pools_is_better(
            shares in prop::collection::vec((0usize..2, 1u32..3), 1..5), pools in [4u32..9, 4u32..9],
            volumes in prop::collection::vec((0usize..5, 0usize..5, 1u32..100), 1..5),
        ) {
            let shares: Vec<Share> =
                shares.into_iter().map(|(pool, least)| Share { pool, least }).collect();
            let cost = |n: &[u32]| -> f64 {
                let of = |i: usize| f64::from(n[i % n.len()]);
                volumes.iter().map(|&(i, j, v)| f64::from(v) / (of(i) + of(j))).sum()
            };
            let mut all = Vec::new();
            all_splits(&pools, &shares, &mut Vec::new(), &mut all);
            let least = all.iter().map(|n| cost(n)).fold(f64::INFINITY, f64::min);
            match least_split(&pools, &shares, f64::INFINITY, &cost) {
                None => prop_assert!(all.is_empty()),
                Some(found) => prop_assert_eq!(found.cost_s, least),
            }
        }

        #[test]
        fn no_segments_are_better(
            costs in prop::collection::vec(prop::collection::vec(0u32..100, 5), 5), change in 0u32..50,
        ) {
            let segment = |first: usize, end: usize| f64::from(costs[first][end - 1]);
            let (ends, found) = segments(5, change.into(), segment);
            let price = |ends: &[usize]| {
                let starts = [0].into_iter().chain(ends.iter().copied());
                let sum: f64 = starts.zip(ends).map(|(first, &end)| segment(first, end)).sum();
                sum + f64::from(change) * (ends.len() - 1) as f64
            };
            prop_assert_eq!(price(&ends), found);
            for cuts in 0u32..16 {
                let ends: Vec<usize> =
                    (1..=5).filter(|&end| end == 5 || cuts >> (end - 1) & 1 == 1).collect();
                prop_assert!(found <= price(&ends));
            }
        }
    }

    #[test]
    fn no_dimension_goes_without() {
        let load = Load { one_port_s: 0.0, hidden_s: 0.0 };
        let stages = [Stage { weight: 1.0, loads: vec![load; 3] }];
        assert_eq!(split(2, &stages, Objective::Total), None);
        assert_eq!(split(3, &stages, Objective::Total).unwrap().ports, [1, 1, 1]);
    }
}
