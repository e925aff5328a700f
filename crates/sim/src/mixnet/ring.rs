//! Circuits that carry sums of gradients, as [`super::rings`] chooses them.

use crate::medium::form::Pair;
use lightloom_circuits::{CircuitCounts, ServerDemand};
use lightloom_units::Time;

/// By region: circuits for sums.
#[derive(Default)]
pub(super) struct Rings {
    pub regions: Vec<Option<Ring>>,
    /// Whether they are asked for.
    pub asked: bool,
    /// What sums have sent between servers that a circuit joined.
    pub sent_bytes: u64,
}

/// The circuits of a region for its sums.
pub(super) struct Ring {
    pub counts: CircuitCounts,
    pub demand: ServerDemand,
    /// Whether they stand.
    pub stands: bool,
    /// The circuits before; none if they never change.
    pub home: Option<CircuitCounts>,
    /// Sums of an iteration, and how many of this one have ended.
    pub sums: u32,
    pub ended: u32,
    /// For how long circuits are dark after an iteration, from when the next begins.
    pub left: Time,
}

impl Rings {
    /// What a reader must know.
    pub fn note(&self) -> Option<String> {
        let count = self.regions.iter().flatten().count();
        self.asked.then(|| match count {
            0 => "circuits for sums of gradients would not pay: none are set".into(),
            _ => format!(
                "sums of gradients: {:.3} GB between servers joined by circuits, in {count} of {} \
                 regions",
                self.sent_bytes as f64 / 1e9,
                self.regions.len()
            ),
        })
    }
}

/// Hops of rings, those between GPUs of odd index the other way around.
pub(super) fn both_ways(ring: &[Pair], per_server: u32) -> impl Iterator<Item = Pair> + '_ {
    ring.iter().map(move |&(from, to, bytes)| match from % per_server % 2 {
        0 => (from, to, bytes),
        _ => (to, from, bytes),
    })
}
