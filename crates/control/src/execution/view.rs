//! What nodes and an execution tell each other: always the whole of what they know, so that a message
//! that is lost, late or doubled does no harm.
//!
//! A port's circuits are counted from 1, in the order in which it transmits over them. An execution says
//! which of them stands, verified; a node says how many it has done with. A circuit that stands carries
//! on until its node has done with it, whatever is lost between the two.

use lightloom_units::Time;
use serde::{Deserialize, Serialize};

/// How far an execution is, to its nodes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Nothing may be sent yet.
    #[default]
    Loading,
    /// Nodes send.
    Running,
    /// It cannot go on: nothing more of the plan is sent. What stands can be used for anything else.
    FellBack,
    /// All is set and sent.
    Complete,
}

/// What a node is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// The number of the node's last report that had come. The node's lease counts from when it sent it.
    pub beat: u64,
    /// What the node is told holds for so long after it sent that report.
    pub lease: Time,
    /// How far the execution is.
    pub stage: Stage,
    /// How long it has been running.
    pub running: Option<Time>,
    /// Why it fell back.
    pub why: String,
    /// The node's ports, rising.
    pub ports: Vec<PortView>,
}

/// A port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortView {
    /// As the node counts its ports.
    pub port: u32,
    /// Which of its circuits stands, from 1; 0 while none does.
    pub holds: u32,
    /// The node that the circuit leads to, and its port there.
    pub to: Option<(u32, u32)>,
    /// The node whose circuit leads here, and its port there, while that stands.
    pub from: Option<(u32, u32)>,
}

/// What a node says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Which one.
    pub node: u32,
    /// Numbers its reports, from 1.
    pub beat: u64,
    /// By port: with how many of its circuits it has done.
    pub done: Vec<(u32, u32)>,
    /// It has sent and received all, or has heard that the execution fell back and sends no more.
    pub ended: bool,
}
