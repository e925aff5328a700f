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

mod lanes;
mod question;

pub use lanes::{Factors, Joined};
pub use question::{Hall, Phase, Question};

use self::lanes::{Candidate, Lane, candidates};
use super::bandwidth::least_split;
use super::volume::{Kind, Pattern, Traffic};
use lightloom_fabric::railx::Axis;
use serde::Serialize;

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
    /// The traffic that the row is of.
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
                let passes = if row.pattern == Pattern::Sum { 2.0 } else { 1.0 };
                let mut dimensions = vec![(inside, hall.mesh_rate())];
                let mut steps = 0;
                for (nodes, lane, rails) in outside {
                    dimensions.push((nodes, hall.chip_rate(lane.used_otherwise(rails))));
                    steps += nodes - 1;
                }
                passes * (gather_s(row.volume_bytes, &dimensions) + f64::from(steps) * hall.hop_s)
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
                    slowest = slowest.max(load / hall.chip_rate(lane.used(rails)));
                    hops += farthest;
                }
                slowest + f64::from(hops) * hall.hop_s
            }
            Pattern::Send => {
                // One way. Of a node's chips only the last stage's leave it, with all its rails.
                let leaving = outside.map(|(_, lane, rails)| {
                    let rate = hall.chip_rate(lane.used_otherwise(rails)) / 2.0 * f64::from(inside);
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
/// use lightloom_railx::placement::gather_s;
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

#[cfg(test)]
mod tests;
