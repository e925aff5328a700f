//! A plan: the track of the controller and the track of the nodes.

use crate::problem::{Problem, Schedule, waits};
use lightloom_units::{BitRate, Bytes, Time};
use serde::{Deserialize, Serialize};

/// Who is joined to whom: (transmitter's node, receiver's node), no node twice on either side.
pub type Circuits = Vec<(u32, u32)>;

/// No port: in a port map, a transmitter that is joined to nothing.
pub const NO_PORT: i64 = -1;

/// What is to be executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Nodes, each with one port a plane.
    pub nodes: u32,
    /// Optical planes, each of which joins all nodes, or those of each line of its dimension.
    pub planes: u32,
    /// The dimensions of the grid that nodes form; empty without one.
    pub grid: Vec<Dimension>,
    /// Rate of one port \[bit/s\].
    pub rate_bps: BitRate,
    /// What a transmission takes beyond its bytes \[ps\].
    pub latency_ps: Time,
    /// How long a port is dark when it is set anew \[ps\].
    pub reconfiguration_ps: Time,
    /// Circuits at the beginning: `initial[plane][node]` is whom the node's transmitter is joined
    /// to, or [`NO_PORT`].
    pub initial: Vec<Vec<i64>>,
    /// The controller's track, by start.
    pub reconfigurations: Vec<Reconfiguration>,
    /// The nodes' track, by start.
    pub transmissions: Vec<Transmission>,
    /// When the last byte has arrived \[ps\].
    pub completion_ps: Time,
    /// No plan for the same demand completes before, under the model the scheduler states \[ps\].
    pub bound_ps: Time,
}

/// A dimension of a grid of nodes, with planes of its own: the first dimension has the first ones.
///
/// Node `i` is at `i mod d` in the first dimension, of `d` nodes, and so on. A plane of a dimension joins
/// nodes of one line only, so a switch of `nodes` ports a line will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    /// Nodes of a line.
    pub nodes: u32,
    /// Its planes.
    pub planes: u32,
}

/// Whether two nodes are in a line of the dimension that a plane is of; without a grid all are.
pub fn in_line(grid: &[Dimension], plane: u32, a: u32, b: u32) -> bool {
    let (mut planes, mut stride) = (0, 1);
    for one in grid {
        planes += one.planes;
        if plane < planes {
            let line = |node: u32| (node / stride / one.nodes, node % stride);
            return line(a) == line(b);
        }
        stride *= one.nodes;
    }
    true
}

/// Circuits of a plane set anew: the ports named are dark from `start_ps` to `ready_ps`, the others
/// carry on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconfiguration {
    /// Index of the plane, from 0.
    pub plane: u32,
    /// When the ports go dark \[ps\].
    pub start_ps: Time,
    /// When they can carry data \[ps\].
    pub ready_ps: Time,
    /// (transmitter's node, receiver's node) of each new circuit. What either end was joined to
    /// before is torn down with it.
    pub circuits: Circuits,
}

/// A node sends to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transmission {
    /// The node that sends, from 0.
    pub node: u32,
    /// The node that receives, from 0.
    pub peer: u32,
    /// Over which plane.
    pub plane: u32,
    /// How much \[B\].
    pub bytes: Bytes,
    /// Not before \[ps\].
    pub start_ps: Time,
    /// When the last byte has arrived \[ps\].
    pub end_ps: Time,
    /// The step of the collective it belongs to; 0 where there are none.
    pub step: u32,
    /// The step that must have ended on every plane, without a grid with all before it; `None` if it
    /// waits for its circuit only.
    pub after_step: Option<u32>,
}

impl Plan {
    /// The plan of a collective's schedule: `configurations[c]` is what a plane joins where it holds
    /// `c`. Switching sets every circuit of a configuration anew.
    ///
    /// ```
    /// use lightloom_swot::plan::{Plan, Wanted};
    /// use lightloom_swot::{Held, Planes, Problem, Step, lockstep};
    /// use lightloom_units::{BitRate, Bytes, Time};
    /// let planes = Planes {
    ///     planes: 1,
    ///     rate_bps: BitRate::from_gbps(400),
    ///     reconfiguration_ps: Time::from_us(10),
    ///     latency_ps: Time::from_us(1),
    /// };
    /// let steps = [0, 1].map(|configuration| Step::new(configuration, Bytes::new(50_000) ));
    /// let problem = Problem::new(planes, vec![Held::Configuration(0)], steps.to_vec())?;
    /// let shifts = [1, 2].map(|by| (0..3).map(|node| (node, (node + by) % 3)).collect());
    /// let plan = Plan::of_schedule(3, &shifts, &problem, &lockstep(&problem), Time::ZERO);
    /// assert_eq!((plan.reconfigurations.len(), plan.transmissions.len()), (1, 6));
    /// let wanted = Wanted::Steps { configurations: &shifts, steps: problem.steps() };
    /// assert_eq!(plan.check(&wanted), Ok(Time::from_us(14)));
    /// # Ok::<(), lightloom_swot::ProblemError>(())
    /// ```
    ///
    /// # Panics
    /// If the schedule is not one of the problem, or a configuration names a node beyond `nodes`.
    pub fn of_schedule(
        nodes: u32,
        configurations: &[Circuits],
        problem: &Problem,
        schedule: &Schedule,
        bound_ps: Time,
    ) -> Plan {
        let planes = problem.planes();
        let initial = schedule.initial.iter().map(|held| {
            let circuits = held.map_or(&[][..], |c| &configurations[c as usize]);
            port_map(nodes, circuits)
        });
        let mut reconfigurations: Vec<Reconfiguration> = schedule
            .switches
            .iter()
            .map(|switch| Reconfiguration {
                plane: switch.plane,
                start_ps: switch.start_ps,
                ready_ps: switch.ready_ps,
                circuits: configurations[switch.configuration as usize].clone(),
            })
            .collect();
        reconfigurations.sort_by_key(|one| (one.start_ps, one.plane));
        let waits = waits(problem.steps());
        let mut transmissions: Vec<Transmission> = schedule
            .uses
            .iter()
            .flat_map(|part| {
                let step = problem.steps()[part.step as usize];
                configurations[step.configuration as usize].iter().map(|&(node, peer)| {
                    Transmission {
                        node,
                        peer,
                        plane: part.plane,
                        bytes: part.bytes,
                        start_ps: part.start_ps,
                        end_ps: part.end_ps,
                        step: part.step,
                        after_step: waits[part.step as usize],
                    }
                })
            })
            .collect();
        transmissions.sort_by_key(|one| (one.start_ps, one.step, one.plane, one.node));
        Plan {
            nodes,
            planes: planes.planes,
            grid: Vec::new(),
            rate_bps: planes.rate_bps,
            latency_ps: planes.latency_ps,
            reconfiguration_ps: planes.reconfiguration_ps,
            initial: initial.collect(),
            reconfigurations,
            transmissions,
            completion_ps: schedule.completion_ps,
            bound_ps,
        }
    }
}

/// Whom each node's transmitter is joined to, or [`NO_PORT`].
fn port_map(nodes: u32, circuits: &[(u32, u32)]) -> Vec<i64> {
    let mut map = vec![NO_PORT; nodes as usize];
    for &(from, to) in circuits {
        map[from as usize] = i64::from(to);
    }
    map
}
