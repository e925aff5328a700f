//! What a node says of a plan when it is over: when it sent what, and when it had which circuit.

use super::super::nodes::Sent;
use serde::Serialize;
use std::collections::BTreeMap;

/// A circuit over which a node sends. Times are CLOCK_BOOTTIME \[ns\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Circuit {
    /// The node's port.
    pub port: u32,
    /// Which of the port's circuits, from 1.
    pub number: u32,
    /// When it was told that it stands.
    pub told_ns: Option<u64>,
    /// When its connection was up.
    pub up_ns: Option<u64>,
    /// When it said that it had done with it.
    pub done_ns: Option<u64>,
}

/// What became of a node's part of a plan.
#[derive(Debug, Default, Serialize)]
pub struct Record {
    /// Which one.
    pub node: u32,
    /// The latest that the run can have begun \[ns\].
    pub began_ns: Option<u64>,
    /// When all was sent, acknowledged and received \[ns\].
    pub over_ns: u64,
    /// Why it went on without circuits, if it did.
    pub without: Option<String>,
    /// What it sent, by part of a message.
    pub sent: Vec<Sent>,
    /// What went over packet NICs that the plan has on circuits, as chunks were sent \[B\].
    pub detoured_bytes: u64,
    /// Chunks that were sent again.
    pub resent: u64,
    /// Why connections broke, each one.
    pub breaks: Vec<String>,
    /// By port, then by number.
    pub circuits: Vec<Circuit>,
}

/// The circuits of a node, while they come and go.
#[derive(Debug, Default)]
pub struct Circuits(BTreeMap<(u32, u32), Circuit>);

impl Circuits {
    /// A circuit, as far as it is known.
    pub fn of(&mut self, port: u32, number: u32) -> &mut Circuit {
        let new = Circuit { port, number, ..Circuit::default() };
        self.0.entry((port, number)).or_insert(new)
    }

    /// All of them.
    pub fn all(self) -> Vec<Circuit> {
        self.0.into_values().collect()
    }
}
