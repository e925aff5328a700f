//! Which kind of parallelism goes to the mesh, to X and to Y, and which rails it gets there
//! (RailX, Sections 3.3.4 and 5).
//!
//! Modelled: every kind's degree as a product of a factor inside the node, one along X and one along
//! Y, such that the nodes are full and neither axis has more of them than a switch holds; each
//! factor above 1 on an axis is a logical dimension with rails of its own, joined as a ring or, for
//! experts, all to all. All of these are tried. In the dynamic form, context and expert parallelism
//! share an axis and its rails by turns.
//!
//! A chip has 2 n / m of a dimension's n ports a chip edge, since m chips share a rail, and 2 k n
//! ports' worth inside (Table 4). A collective over several dimensions is cut into chunks that take
//! them in different orders. However it is cut, the dimensions of any set S, taken last, still carry
//! V (P_S - 1) / P, where P_S is the product of their sizes and P that of all; these bounds are what
//! is reached, as loads of orders are the vertices of a polymatroid. The one set of one dimension
//! gives equation 6, both of two alike equation 9.
//!
//! Ignored: traffic that passes through a mesh (its links must be wide enough: k), rings of two kinds
//! crossing in one mesh, latency inside, the ends of a pipeline.
//! Checked: equations 6 and 9; the bound against every order of random dimensions; each placement
//! legal; no rail moved to another dimension helps.

use super::bandwidth::{Objective, Share, Turns, least_split};
use super::volume::{Kind, Pattern, Traffic};
use lightloom_fabric::railx::Axis;
use serde::{Deserialize, Serialize};

/// What stands in the hall, and how fast it is.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hall {
    /// Chips along each side of a node (m).
    pub mesh: u32,
    /// Rail ports at an outer chip edge (n).
    pub ports: u32,
    /// Ports of an optical switch (R).
    pub ocs: u32,
    /// Bandwidth inside a node over that of rails (k).
    pub inside: f64,
    /// Rate of a rail port, each way \[B/s\] (B).
    pub port_bytes_per_s: f64,
    /// Latency of an optical hop \[s\].
    pub hop_s: f64,
    /// Whether single rails are dealt, rather than a port of every chip edge.
    pub uneven: bool,
}

/// Where the ranks of one kind are: the product of the three is its degree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Factors {
    /// Whose.
    pub kind: Kind,
    /// Inside a node.
    pub inside: u32,
    /// Along X.
    pub x: u32,
    /// Along Y.
    pub y: u32,
}

/// How a dimension's nodes are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Joined {
    /// A ring on each rail.
    Ring,
    /// Every two directly.
    AllToAll,
}

/// A logical dimension, or one that two kinds have by turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Along which axis.
    pub axis: Axis,
    /// Whose ranks lie along it.
    pub kinds: Vec<Kind>,
    /// How it is joined; by turns: in the turn of experts.
    pub joined: Joined,
    /// Rails of a node along the axis that it has.
    pub rails: u32,
}

/// How long one row of Table 4 takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timed {
    /// The row.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// All its times in an iteration \[s\].
    pub time_s: f64,
}

/// A mapping of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mapping {
    /// Where each kind is, in the order of [`Kind::ALL`].
    pub factors: Vec<Factors>,
    /// The dimensions and their rails.
    pub groups: Vec<Group>,
    /// How long each kind communicates in an iteration of each stage of the training \[s\].
    pub kinds_s: Vec<[f64; 5]>,
    /// Each row's time in an iteration of the first stage.
    pub rows: Vec<Timed>,
    /// By turns: what changing circuits takes beyond the gaps, in an iteration of each stage \[s\].
    pub exposed_s: Vec<f64>,
    /// The objective, weighted over the stages \[s\].
    pub cost_s: f64,
}

/// A part of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Iterations.
    pub weight: f64,
    /// What is sent in one.
    pub traffic: Vec<Traffic>,
    /// Changes from context to expert traffic in one, and as many back; read by turns.
    pub turns: f64,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The hall.
    pub hall: Hall,
    /// Degree of each kind, in the order of [`Kind::ALL`].
    pub degrees: [u32; 5],
    /// Parts of the training, over which one mapping is to be best.
    pub phases: &'a [Phase],
    /// Computation in an iteration that may hide the communication of each kind \[s\].
    pub hidden_s: [f64; 5],
    /// What is to be least.
    pub objective: Objective,
    /// If context and expert parallelism are to have their rails by turns.
    pub turns: Option<Turns>,
}

/// The best mapping; `None` if no placement is legal. Of equal ones the first that was found.
///
/// Each placement is bounded by giving every dimension all the rails that others leave; those that
/// cannot beat the best are not split. Exact.
pub fn place(question: &Question<'_>) -> Option<Mapping> {
    let mut candidates = candidates(question);
    candidates.sort_by(|a, b| a.bound_s.total_cmp(&b.bound_s));
    let mut best: Option<(f64, Vec<u32>, &Candidate)> = None;
    for candidate in &candidates {
        let below = best.as_ref().map_or(f64::INFINITY, |found| found.0);
        if candidate.bound_s >= below {
            break;
        }
        let cost = |units: &[u32]| question.cost(candidate, units);
        let pools = [question.hall.units(); 2];
        if let Some(found) = least_split(&pools, &candidate.shares(question.hall), below, &cost) {
            best = Some((found.cost_s, found.ports, candidate));
        }
    }
    let (cost_s, units, candidate) = best?;
    Some(question.mapping(candidate, &units, cost_s))
}

/// Rails an all-to-all of so many nodes needs; rails come in whole sets of these.
fn set(nodes: u32) -> u32 {
    nodes.saturating_sub(1).max(1)
}

impl Hall {
    /// What is dealt of an axis: ports of a chip edge, or single rails.
    fn units(self) -> u32 {
        if self.uneven { self.ports * self.mesh } else { self.ports }
    }

    fn rails(self, units: u32) -> u32 {
        if self.uneven { units } else { units * self.mesh }
    }

    /// What a chip has of `rails` rails both ways \[B/s\]: m rows of m chips share them.
    fn chip_rate(self, rails: u32) -> f64 {
        2.0 * f64::from(rails) / f64::from(self.mesh * self.mesh) * self.port_bytes_per_s
    }

    /// What a chip has in a ring inside its node \[B/s\].
    fn mesh_rate(self) -> f64 {
        2.0 * self.inside * f64::from(self.ports) * self.port_bytes_per_s
    }
}

/// A placement and the dimensions it makes.
struct Candidate {
    factors: [Factors; 5],
    groups: Vec<Lane>,
    bound_s: f64,
}

/// Kinds that have the same rails of an axis.
struct Lane {
    axis: Axis,
    /// Kinds and their factors along the axis.
    kinds: Vec<(Kind, u32)>,
    joined: Joined,
}

impl Lane {
    fn size(&self, kind: Kind) -> u32 {
        self.kinds.iter().find(|lane| lane.0 == kind).map_or(1, |lane| lane.1)
    }

    /// Rails that are lit in the turn of experts.
    fn lit(&self, rails: u32) -> u32 {
        match self.joined {
            Joined::Ring => rails,
            Joined::AllToAll => rails / set(self.size(Kind::Ep)) * set(self.size(Kind::Ep)),
        }
    }

    /// Rails that carry what is not the experts' own: all of those that are had by turns.
    fn lit_otherwise(&self, rails: u32) -> u32 {
        if self.kinds.len() > 1 { rails } else { self.lit(rails) }
    }
}

impl Candidate {
    fn shares(&self, hall: Hall) -> Vec<Share> {
        let share = |lane: &Lane| {
            let rails = match lane.joined {
                Joined::Ring => 1,
                Joined::AllToAll => set(lane.size(Kind::Ep)),
            };
            Share { pool: lane.axis as usize, least: rails.div_ceil(hall.rails(1)) }
        };
        self.groups.iter().map(share).collect()
    }
}

impl Question<'_> {
    fn cost(&self, candidate: &Candidate, units: &[u32]) -> f64 {
        let phase = |phase: &Phase| {
            let times = self.kinds_s(candidate, units, &phase.traffic);
            let times = times.iter().zip(self.hidden_s).map(|(&time, hidden)| time.max(hidden));
            phase.weight * (self.objective.of(times) + self.exposed_s(phase))
        };
        self.phases.iter().map(phase).sum()
    }

    fn exposed_s(&self, phase: &Phase) -> f64 {
        self.turns.map_or(0.0, |turns| phase.turns * turns.exposed_s())
    }

    fn kinds_s(&self, candidate: &Candidate, units: &[u32], traffic: &[Traffic]) -> [f64; 5] {
        let mut times = [0.0; 5];
        for row in traffic {
            times[row.kind as usize] += self.time_s(candidate, units, row);
        }
        times
    }

    /// How long a row of Table 4 takes, all its times together.
    fn time_s(&self, candidate: &Candidate, units: &[u32], row: &Traffic) -> f64 {
        let hall = self.hall;
        let inside: u32 =
            row.over.iter().map(|&kind| candidate.factors[kind as usize].inside).product();
        let outside = candidate.groups.iter().zip(units).filter_map(|(lane, &units)| {
            let nodes: u32 = row.over.iter().map(|&kind| lane.size(kind)).product();
            (nodes > 1).then(|| (nodes, lane, hall.rails(units)))
        });
        let once = match row.pattern {
            Pattern::Gather | Pattern::Sum => {
                let ways = if row.pattern == Pattern::Sum { 2.0 } else { 1.0 };
                let mut dimensions = vec![(inside, hall.mesh_rate())];
                let mut steps = 0;
                for (nodes, lane, rails) in outside {
                    dimensions.push((nodes, hall.chip_rate(lane.lit_otherwise(rails))));
                    steps += nodes - 1;
                }
                ways * (gather_s(row.volume_bytes, &dimensions) + f64::from(steps) * hall.hop_s)
            }
            Pattern::AllToAll => {
                let mut slowest = self.mesh_all_to_all_s(row.volume_bytes, inside);
                let mut hops = 0;
                for (nodes, lane, rails) in outside {
                    // Hops that 1 / p of the volume takes to each other node, all together.
                    let (passed, farthest) = match lane.joined {
                        Joined::AllToAll => (nodes - 1, 1),
                        Joined::Ring => (nodes * nodes / 4, nodes / 2),
                    };
                    let load = row.volume_bytes / f64::from(nodes) * f64::from(passed);
                    slowest = slowest.max(load / hall.chip_rate(lane.lit(rails)));
                    hops += farthest;
                }
                slowest + f64::from(hops) * hall.hop_s
            }
            Pattern::Send => {
                // One way. Of a node's chips only the last stage's leave it, with all its rails.
                let leaving = outside.map(|(_, lane, rails)| {
                    let rate = hall.chip_rate(lane.lit_otherwise(rails)) / 2.0 * f64::from(inside);
                    row.volume_bytes / rate + hall.hop_s
                });
                let within =
                    if inside > 1 { row.volume_bytes / (hall.mesh_rate() / 2.0) } else { 0.0 };
                leaving.fold(within, f64::max)
            }
        };
        row.times * once
    }

    /// Half of what is sent inside a node crosses its middle, m links of k n ports each way.
    fn mesh_all_to_all_s(&self, volume_bytes: f64, inside: u32) -> f64 {
        let sent = volume_bytes * f64::from(inside - 1) / f64::from(inside);
        sent * f64::from(self.hall.mesh) / (2.0 * self.hall.mesh_rate())
    }

    fn mapping(&self, candidate: &Candidate, units: &[u32], cost_s: f64) -> Mapping {
        let first = self.phases.first();
        let timed = |row: &Traffic| Timed {
            traffic: row.clone(),
            time_s: self.time_s(candidate, units, row),
        };
        let group = |(lane, &units): (&Lane, &u32)| Group {
            axis: lane.axis,
            kinds: lane.kinds.iter().map(|&(kind, _)| kind).collect(),
            joined: lane.joined,
            rails: self.hall.rails(units),
        };
        Mapping {
            factors: candidate.factors.to_vec(),
            groups: candidate.groups.iter().zip(units).map(group).collect(),
            kinds_s: self
                .phases
                .iter()
                .map(|phase| self.kinds_s(candidate, units, &phase.traffic))
                .collect(),
            rows: first.map_or(Vec::new(), |phase| phase.traffic.iter().map(timed).collect()),
            exposed_s: self.phases.iter().map(|phase| self.exposed_s(phase)).collect(),
            cost_s,
        }
    }
}

/// The least time of a reduce-scatter or an all-gather of a volume over dimensions, each so many
/// members and so many bytes a second of a chip, cut into chunks that take them in any orders.
///
/// ```
/// use lightloom_schedule::railx::placement::gather_s;
/// // RailX, equation 6 without latency: (p - 1) / p V / 2B
/// assert_eq!(gather_s(80.0, &[(4, 2.0)]), 30.0);
/// // two dimensions alike carry half each
/// assert_eq!(gather_s(160.0, &[(4, 2.0), (4, 2.0)]), 15.0 / 16.0 * 160.0 / 4.0);
/// // a slow dimension is taken last, with what the others leave of the volume
/// assert_eq!(gather_s(160.0, &[(4, 1e9), (4, 2.0)]), 3.0 / 16.0 * 160.0 / 2.0);
/// ```
pub fn gather_s(volume_bytes: f64, dimensions: &[(u32, f64)]) -> f64 {
    let all: f64 = dimensions.iter().map(|&(members, _)| f64::from(members)).product();
    let bound = |chosen: u32| {
        let of = dimensions.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
        let (product, rate) = of.fold((1.0, 0.0), |(product, rate), (_, &(members, own))| {
            (product * f64::from(members), rate + own)
        });
        volume_bytes * (product - 1.0) / all / rate
    };
    (1..1u32 << dimensions.len()).map(bound).fold(0.0, f64::max)
}

/// Every legal placement with every way to join its dimensions, bounded.
fn candidates(question: &Question<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    let start = Kind::ALL.map(|kind| Factors { kind, inside: 1, x: 1, y: 1 });
    place_kind(question, start, 0, &mut found);
    found
}

/// Splits the degree of the kind at `at`, those before it being split.
fn place_kind(
    question: &Question<'_>,
    mut factors: [Factors; 5],
    at: usize,
    found: &mut Vec<Candidate>,
) {
    let hall = question.hall;
    let product = |of: fn(&Factors) -> u32| -> u32 { factors[..at].iter().map(of).product() };
    let (inside, x, y) = (product(|f| f.inside), product(|f| f.x), product(|f| f.y));
    let node = hall.mesh * hall.mesh;
    if at == factors.len() {
        if inside == node {
            join(question, factors, found);
        }
        return;
    }
    let degree = question.degrees[at];
    for within in divisors(degree).filter(|f| node % (inside * f) == 0) {
        let outside = degree / within;
        for along in divisors(outside).filter(|f| x * f <= hall.ocs / 2) {
            // X and Y are alike: the first kind that tells them apart has more of X.
            let alike = factors[..at].iter().all(|f| f.x == f.y);
            let across = outside / along;
            if y * across > hall.ocs / 2 || (alike && along < across) {
                continue;
            }
            factors[at] = Factors { inside: within, x: along, y: across, ..factors[at] };
            place_kind(question, factors, at + 1, found);
        }
    }
}

fn divisors(of: u32) -> impl Iterator<Item = u32> {
    let small = (1..=of.isqrt()).filter(move |d| of % d == 0);
    small.flat_map(move |d| [Some(d), (of / d > d).then_some(of / d)]).flatten()
}

/// Adds a placement, once for each way to join the dimensions of experts.
fn join(question: &Question<'_>, factors: [Factors; 5], found: &mut Vec<Candidate>) {
    let hall = question.hall;
    let by_turns = question.turns.is_some();
    let along = |axis: Axis, f: &Factors| if axis == Axis::X { f.x } else { f.y };
    let mut lanes: Vec<Lane> = Vec::new();
    for axis in [Axis::X, Axis::Y] {
        for f in factors.iter().filter(|f| along(axis, f) > 1) {
            let own = (f.kind, along(axis, f));
            let shared = |lane: &&mut Lane| {
                by_turns && f.kind == Kind::Ep && lane.axis == axis && lane.kinds[0].0 == Kind::Cp
            };
            match lanes.iter_mut().find(shared) {
                Some(lane) => lane.kinds.push(own),
                None => lanes.push(Lane { axis, kinds: vec![own], joined: Joined::Ring }),
            }
        }
    }
    if by_turns {
        // Both wholly on one axis, and the same: then the lane has all that either sends out.
        let outside = |kind: Kind| {
            let f = factors[kind as usize];
            f.x * f.y
        };
        let whole = |lane: &Lane| {
            lane.kinds.len() == 2 && lane.kinds.iter().all(|&(kind, size)| size == outside(kind))
        };
        if !lanes.iter().any(whole) {
            return;
        }
    }
    // Up to three nodes a ring joins them all.
    let experts: Vec<usize> = (0..lanes.len()).filter(|&i| lanes[i].size(Kind::Ep) > 3).collect();
    for chosen in 0..1u32 << experts.len() {
        let groups = lanes.iter().enumerate().map(|(i, lane)| {
            let direct = experts.iter().position(|&e| e == i).is_some_and(|e| chosen >> e & 1 == 1);
            let joined = if direct { Joined::AllToAll } else { Joined::Ring };
            Lane { axis: lane.axis, kinds: lane.kinds.clone(), joined }
        });
        let mut candidate = Candidate { factors, groups: groups.collect(), bound_s: 0.0 };
        let shares = candidate.shares(hall);
        let taken = |axis: Axis| -> u32 {
            shares.iter().filter(|share| share.pool == axis as usize).map(|share| share.least).sum()
        };
        let spare = [Axis::X, Axis::Y].map(|axis| hall.units().checked_sub(taken(axis)));
        let [Some(x), Some(y)] = spare else { continue };
        let most: Vec<u32> = shares.iter().map(|share| share.least + [x, y][share.pool]).collect();
        candidate.bound_s = question.cost(&candidate, &most);
        found.push(candidate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::railx::bandwidth::Objective;
    use crate::railx::volume::Work;
    use lightloom_workload::{Parallelism, example};
    use proptest::prelude::*;

    fn hall(mesh: u32, ports: u32, ocs: u32) -> Hall {
        let port_bytes_per_s = 1e11;
        Hall { mesh, ports, ocs, inside: 4.0, port_bytes_per_s, hop_s: 3e-7, uneven: false }
    }

    fn phase(degrees: [u32; 5], sequence_length: u32) -> Phase {
        let [tp, cp, ep, dp, pp] = degrees;
        let work = Work {
            model: example::mixtral_8x7b().model,
            parallelism: Parallelism { tp, cp, ep, dp, pp },
            sequence_length,
            micro_batch: 1,
            micro_batches: 16,
            activation_bytes: 2,
            gradient_bytes: 2,
        };
        Phase { weight: 1.0, traffic: work.traffic(), turns: 256.0 }
    }

    fn question(hall: Hall, degrees: [u32; 5], phases: &[Phase]) -> Question<'_> {
        let objective = Objective::Total;
        Question { hall, degrees, phases, hidden_s: [0.0; 5], objective, turns: None }
    }

    /// Every way to deal the units of both axes.
    fn splits(shares: &[Share], units: u32) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new()];
        for (at, share) in shares.iter().enumerate() {
            let deal = |given: Vec<u32>| {
                let used: u32 =
                    (0..at).filter(|&i| shares[i].pool == share.pool).map(|i| given[i]).sum();
                (share.least..=units - used.min(units)).map(move |n| [&given[..], &[n]].concat())
            };
            all = all.into_iter().flat_map(deal).collect();
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Chunk by chunk, each taking the dimension with the most to do last, the bound is reached.
        #[test]
        fn orders_of_chunks_reach_the_bound(
            dimensions in prop::collection::vec((2u32..6, 1u32..10), 1..5),
        ) {
            let dimensions: Vec<(u32, f64)> =
                dimensions.into_iter().map(|(p, rate)| (p, rate.into())).collect();
            let mut times = vec![0.0f64; dimensions.len()];
            let chunks = 20_000;
            for _ in 0..chunks {
                let mut order: Vec<usize> = (0..dimensions.len()).collect();
                order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
                let mut left = 1.0 / f64::from(chunks);
                for at in order {
                    let (members, rate) = dimensions[at];
                    times[at] += left * f64::from(members - 1) / f64::from(members) / rate;
                    left /= f64::from(members);
                }
            }
            let slowest = times.iter().copied().fold(0.0, f64::max);
            let bound = gather_s(1.0, &dimensions);
            prop_assert!(slowest >= bound * (1.0 - 1e-9) && slowest <= bound * 1.01,
                "{slowest} against {bound}");
        }

        /// No placement, no way to join, no split of rails costs less than what is found.
        #[test]
        fn nothing_is_better(
            exponents in [0u32..3, 0u32..3, 0u32..4, 0u32..3, 0u32..3], ports in 1u32..5,
            hidden in 0u32..3, slowest in any::<bool>(), uneven in any::<bool>(),
            by_turns in any::<bool>(),
        ) {
            let degrees = exponents.map(|e| 1 << e);
            let phases = [phase(degrees, 8192), Phase { weight: 0.5, ..phase(degrees, 65536) }];
            let mut asked = question(Hall { uneven, ..hall(2, ports, 16) }, degrees, &phases);
            asked.hidden_s[3] = f64::from(hidden);
            if slowest {
                asked.objective = Objective::Slowest;
            }
            let turns = Turns { delay_s: 0.007, gap_s: 0.006, gap_back_s: 0.006 };
            asked.turns = by_turns.then_some(turns);
            let mut least = f64::INFINITY;
            for candidate in candidates(&asked) {
                for units in splits(&candidate.shares(asked.hall), asked.hall.units()) {
                    let cost = asked.cost(&candidate, &units);
                    prop_assert!(candidate.bound_s <= cost);
                    least = least.min(cost);
                }
            }
            match place(&asked) {
                None => prop_assert_eq!(least, f64::INFINITY),
                Some(found) => {
                    prop_assert_eq!(found.cost_s, least);
                    legal(&asked, &found)?;
                }
            }
        }
    }

    fn legal(asked: &Question<'_>, found: &Mapping) -> Result<(), TestCaseError> {
        let hall = asked.hall;
        for (f, degree) in found.factors.iter().zip(asked.degrees) {
            prop_assert_eq!(f.inside * f.x * f.y, degree);
        }
        let inside: u32 = found.factors.iter().map(|f| f.inside).product();
        prop_assert_eq!(inside, hall.mesh * hall.mesh);
        for axis in [Axis::X, Axis::Y] {
            let nodes: u32 =
                found.factors.iter().map(|f| if axis == Axis::X { f.x } else { f.y }).product();
            prop_assert!(nodes <= hall.ocs / 2);
            let groups = found.groups.iter().filter(|group| group.axis == axis);
            let rails: u32 = groups.map(|group| group.rails).sum();
            prop_assert!(rails <= hall.mesh * hall.ports);
        }
        for group in found.groups.iter().filter(|group| group.joined == Joined::AllToAll) {
            let experts = found.factors[Kind::Ep as usize];
            let nodes = if group.axis == Axis::X { experts.x } else { experts.y };
            prop_assert!(nodes <= group.rails + 1);
        }
        Ok(())
    }

    /// RailX, equation 9: one dimension 2 V / (2 n B / m), two alike half of that, for large p.
    #[test]
    fn sums_take_what_equation_9_says() {
        let sum = |axes: &[u32]| {
            let hall = hall(4, 2, 1 << 12);
            let dimensions: Vec<(u32, f64)> =
                axes.iter().map(|&nodes| (nodes, hall.chip_rate(hall.rails(2)))).collect();
            2.0 * gather_s(8e9, &dimensions)
        };
        let rate = 2.0 * 1e11 / 4.0; // n B / m
        assert!((sum(&[1024]) / (8e9 / rate) - 1.0).abs() < 1e-3);
        assert!((sum(&[1024, 1024]) / (8e9 / (2.0 * rate)) - 1.0).abs() < 1e-3);
    }

    /// The heaviest traffic finds its way to the mesh by itself.
    #[test]
    fn tensor_parallelism_goes_inside() {
        let degrees = [16, 2, 8, 4, 4];
        let phases = [phase(degrees, 8192)];
        let found = place(&question(hall(4, 4, 128), degrees, &phases)).unwrap();
        assert_eq!(found.factors[0], Factors { kind: Kind::Tp, inside: 16, x: 1, y: 1 });
        let asked = question(hall(4, 4, 128), [3, 1, 1, 1, 1], &phases);
        assert_eq!(place(&asked), None);
    }

    /// By turns each kind has all rails; what the switches take beyond the gap is added.
    #[test]
    fn turns_win_where_the_gap_hides_the_switch() {
        let degrees = [16, 8, 8, 1, 1];
        let phases = [phase(degrees, 65536)];
        let fixed = question(hall(4, 4, 128), degrees, &phases);
        let cost = |delay_s| {
            let turns = Some(Turns { delay_s, gap_s: 0.006, gap_back_s: 0.006 });
            place(&Question { turns, ..fixed }).unwrap().cost_s
        };
        assert_eq!(cost(0.0), cost(0.006));
        assert!((cost(0.025) - cost(0.0) - 256.0 * 2.0 * 0.019).abs() < 1e-9);
    }
}
