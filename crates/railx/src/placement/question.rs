//! What is asked of a placement: the hall, the degrees of parallelism, and what is sent.

use crate::bandwidth::{Objective, Turns};
use crate::volume::Traffic;
use serde::Deserialize;

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

/// A part of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Iterations that it lasts.
    pub weight: f64,
    /// What is sent in one.
    pub traffic: Vec<Traffic>,
    /// Changes from context to expert traffic in one, and as many back; read by turns.
    pub turns: f64,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Size and rates of the grid.
    pub hall: Hall,
    /// Degree of each kind, in the order of [`Kind::ALL`](crate::volume::Kind::ALL).
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

impl Hall {
    /// What is dealt of an axis: ports of a chip edge, or single rails.
    pub(super) fn units(self) -> u32 {
        if self.uneven { self.ports * self.mesh } else { self.ports }
    }

    pub(super) fn rails(self, units: u32) -> u32 {
        if self.uneven { units } else { units * self.mesh }
    }

    /// What a chip has of `rails` rails both ways \[B/s\]: m rows of m chips share them.
    pub(super) fn chip_rate(self, rails: u32) -> f64 {
        2.0 * f64::from(rails) / f64::from(self.mesh * self.mesh) * self.port_bytes_per_s
    }

    /// What a chip has in a ring inside its node \[B/s\].
    pub(super) fn mesh_rate(self) -> f64 {
        2.0 * self.inside * f64::from(self.ports) * self.port_bytes_per_s
    }
}
