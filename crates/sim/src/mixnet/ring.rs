//! Circuits that carry sums of gradients, as [`super::rings`] chooses them.

use crate::medium::form::Pair;
use lightloom_circuits::{CircuitCounts, ServerDemand};
use lightloom_units::Time;

/// Circuits for sums.
#[derive(Default)]
pub(super) struct Rings {
    /// By region, if they are asked for.
    pub regions: Vec<Option<Ring>>,
    /// What sums have sent between servers that a circuit joined.
    pub sent_bytes: u64,
}

/// The circuits of a region for its sums.
pub(super) enum Ring {
    /// They stand from the beginning to the end.
    Stays,
    /// They take turns with those of all-to-alls.
    Turns(Turns),
}

/// Circuits that stand while an iteration's last sums are under way.
pub(super) struct Turns {
    pub counts: CircuitCounts,
    pub demand: ServerDemand,
    /// The circuits before, while these stand.
    pub home: Option<CircuitCounts>,
    /// Sums of an iteration, and how many of this one have ended.
    pub sums: u32,
    pub ended: u32,
    /// Until when circuits are dark that changed back before the job began.
    pub dark_until: Time,
}

impl Ring {
    /// Whether they stand now.
    pub fn stands(&self) -> bool {
        match self {
            Ring::Stays => true,
            Ring::Turns(turns) => turns.home.is_some(),
        }
    }
}

impl Rings {
    /// What a reader must know.
    pub fn note(&self) -> Option<String> {
        let count = self.regions.iter().flatten().count();
        let asked = !self.regions.is_empty();
        asked.then(|| match count {
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
