//! A plan: what a runtime and an optical controller execute (SWOT, Section 3.3).
//!
//! Two tracks. The controller's: when which circuits of a plane are set. The nodes': what each sends,
//! to whom, over which plane, not before when, and after what. Circuits are of one direction: node
//! `a`'s transmitter to node `b`'s receiver. Both a collective's [`Schedule`](super::Schedule) and an
//! all-to-all's become a plan; what executes plans needs to know nothing else.

use lightloom_units::{BitRate, Bytes, Time};
use serde::{Deserialize, Serialize};

/// No port: in a port map, a transmitter that is joined to nothing.
pub const NO_PORT: i64 = -1;

/// What is to be executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Nodes, each with one port a plane.
    pub nodes: u32,
    /// Planes.
    pub planes: u32,
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

/// Circuits of a plane set anew: the ports named are dark from `start_ps` to `ready_ps`, the others
/// carry on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconfiguration {
    /// The plane.
    pub plane: u32,
    /// When the ports go dark \[ps\].
    pub start_ps: Time,
    /// When they can carry data \[ps\].
    pub ready_ps: Time,
    /// (transmitter's node, receiver's node) of each new circuit. What either end was joined to
    /// before is torn down with it.
    pub circuits: Vec<(u32, u32)>,
}

/// A node sends to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transmission {
    /// Who sends.
    pub node: u32,
    /// Who receives.
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
    /// The step that must have ended on every plane; `None` if it waits for its circuit only.
    pub after_step: Option<u32>,
}
