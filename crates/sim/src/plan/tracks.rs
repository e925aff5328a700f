//! A plan as its file has it: for each plane what the controller does, for each node what it sends.

use super::error::{PlanningError, input};
use lightloom_swot::plan::{Circuits, Dimension, Plan, Reconfiguration, Transmission};
use lightloom_units::{BitRate, Bytes, Time};
use serde::{Deserialize, Serialize};

/// The two tracks, and the machine they are for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tracks {
    /// What the plan is for.
    pub machine: Machine,
    /// When the last byte has arrived \[ps\].
    pub completion_ps: Time,
    /// No plan completes before \[ps\].
    pub bound_ps: Time,
    /// One a plane, in order.
    pub planes: Vec<PlaneTrack>,
    /// One a node, in order.
    pub nodes: Vec<NodeTrack>,
}

/// Nodes joined by planes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// How many nodes there are.
    pub nodes: u32,
    /// How many planes there are.
    pub planes: u32,
    /// The dimensions of the grid that nodes form; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grid: Vec<Dimension>,
    /// Rate of one port \[bit/s\].
    pub rate_bps: BitRate,
    /// What a transmission takes beyond its bytes \[ps\].
    pub latency_ps: Time,
    /// How long a port is dark when it is set \[ps\].
    pub reconfiguration_ps: Time,
}

/// What the controller does to a plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaneTrack {
    /// Index of the plane, from 0.
    pub plane: u32,
    /// Whom each node's transmitter is joined to at the beginning; -1 is nobody.
    pub initial: Vec<i64>,
    /// By start.
    pub reconfigurations: Vec<Set>,
}

/// Circuits set anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// When the ports go dark \[ps\].
    pub start_ps: Time,
    /// When they can carry data \[ps\].
    pub ready_ps: Time,
    /// (transmitter's node, receiver's node).
    pub circuits: Circuits,
}

/// What a node sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeTrack {
    /// Index of the node, from 0.
    pub node: u32,
    /// By start.
    pub transmissions: Vec<Send>,
}

/// What a node sends to another over one plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The step it belongs to; 0 where there are none.
    pub step: u32,
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
    /// The step that must have ended everywhere.
    pub after_step: Option<u32>,
}

impl From<Plan> for Tracks {
    fn from(plan: Plan) -> Tracks {
        let mut planes: Vec<PlaneTrack> = (0..)
            .zip(plan.initial)
            .map(|(plane, initial)| PlaneTrack { plane, initial, reconfigurations: vec![] })
            .collect();
        for Reconfiguration { plane, start_ps, ready_ps, circuits } in plan.reconfigurations {
            let track = &mut planes[plane as usize].reconfigurations;
            track.push(Set { start_ps, ready_ps, circuits });
        }
        let mut nodes: Vec<NodeTrack> =
            (0..plan.nodes).map(|node| NodeTrack { node, transmissions: vec![] }).collect();
        for one in plan.transmissions {
            let Transmission { node, peer, plane, bytes, start_ps, end_ps, step, after_step } = one;
            let send = Send { step, peer, plane, bytes, start_ps, end_ps, after_step };
            nodes[node as usize].transmissions.push(send);
        }
        Tracks {
            machine: Machine {
                nodes: plan.nodes,
                planes: plan.planes,
                grid: plan.grid,
                rate_bps: plan.rate_bps,
                latency_ps: plan.latency_ps,
                reconfiguration_ps: plan.reconfiguration_ps,
            },
            completion_ps: plan.completion_ps,
            bound_ps: plan.bound_ps,
            planes,
            nodes,
        }
    }
}

impl Tracks {
    /// Parses JSON.
    ///
    /// # Errors
    /// A message that says where.
    pub fn from_json(text: &str) -> Result<Tracks, PlanningError> {
        serde_json::from_str(text).map_err(|error| input(format!("the plan: {error}")))
    }

    /// The tracks as the JSON of a plan file.
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// As one list of each kind.
    ///
    /// # Errors
    /// If tracks are missing, or not in order.
    pub fn into_plan(self) -> Result<Plan, PlanningError> {
        let machine = self.machine;
        in_order("planes", "plane", machine.planes, self.planes.iter().map(|track| track.plane))?;
        in_order("nodes", "node", machine.nodes, self.nodes.iter().map(|track| track.node))?;
        let mut initial = Vec::with_capacity(self.planes.len());
        let mut reconfigurations = vec![];
        for track in self.planes {
            initial.push(track.initial);
            reconfigurations.extend(track.reconfigurations.into_iter().map(|set| {
                Reconfiguration {
                    plane: track.plane,
                    start_ps: set.start_ps,
                    ready_ps: set.ready_ps,
                    circuits: set.circuits,
                }
            }));
        }
        reconfigurations.sort_by_key(|one| (one.start_ps, one.plane));
        let mut transmissions: Vec<Transmission> = self
            .nodes
            .iter()
            .flat_map(|track| {
                track.transmissions.iter().map(|send| Transmission {
                    node: track.node,
                    peer: send.peer,
                    plane: send.plane,
                    bytes: send.bytes,
                    start_ps: send.start_ps,
                    end_ps: send.end_ps,
                    step: send.step,
                    after_step: send.after_step,
                })
            })
            .collect();
        transmissions.sort_by_key(|one| (one.start_ps, one.step, one.plane, one.node));
        Ok(Plan {
            nodes: machine.nodes,
            planes: machine.planes,
            grid: machine.grid,
            rate_bps: machine.rate_bps,
            latency_ps: machine.latency_ps,
            reconfiguration_ps: machine.reconfiguration_ps,
            initial,
            reconfigurations,
            transmissions,
            completion_ps: self.completion_ps,
            bound_ps: self.bound_ps,
        })
    }
}

fn in_order(
    tracks: &str,
    key: &str,
    count: u32,
    named: impl ExactSizeIterator<Item = u32>,
) -> Result<(), PlanningError> {
    if named.len() != count as usize {
        let there = named.len();
        return Err(input(format!("{tracks}: {there} tracks; machine.{tracks} says {count}")));
    }
    match (0..).zip(named).find(|(at, name)| at != name) {
        None => Ok(()),
        Some((at, name)) => {
            Err(input(format!("{tracks}[{at}].{key} = {name}: must be {at}: tracks are in order")))
        }
    }
}

/// What is written to a file, or read by Python.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("numbers, text and lists are JSON")
}
