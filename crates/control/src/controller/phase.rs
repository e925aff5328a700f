//! What a controller is at, and the plan that it carries out.

use super::view::Reconfiguration;
use crate::driver::Patch;
use lightloom_circuits::PortMap;
use lightloom_units::Time;

/// A switch, and what it says that it holds.
pub(super) type Found = (usize, Vec<Patch>);

/// What the controller is at.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    Idle,
    /// `asked` as in [`Plan`].
    Deciding {
        question: u64,
        asked: Vec<u64>,
        masked: PortMap,
        since: Time,
    },
    Draining {
        plan: Plan,
    },
    Patching {
        plan: Plan,
        waits: Waits,
    },
    Verifying {
        plan: Plan,
        waits: Waits,
        found: Vec<Found>,
    },
    /// Switches of which all is known are read again.
    Reading {
        waits: Waits,
        found: Vec<Found>,
    },
}

/// Orders that are to be answered.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    /// By switch: the order.
    pub orders: Vec<(usize, u64)>,
    pub deadline: Time,
}

impl Waits {
    /// An order is answered. Gives its switch if it is one of these.
    pub fn take(&mut self, id: u64) -> Option<usize> {
        let at = self.orders.iter().position(|&(_, order)| order == id)?;
        Some(self.orders.swap_remove(at).0)
    }
}

impl Phase {
    /// The plan that is carried out.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Phase::Draining { plan }
            | Phase::Patching { plan, .. }
            | Phase::Verifying { plan, .. } => Some(plan),
            _ => None,
        }
    }

    /// The orders that are to be answered.
    pub fn waits(&mut self) -> Option<&mut Waits> {
        match self {
            Phase::Patching { waits, .. }
            | Phase::Verifying { waits, .. }
            | Phase::Reading { waits, .. } => Some(waits),
            _ => None,
        }
    }

    /// The switches whose answers have not come by their deadline.
    pub fn late(&mut self, now: Time) -> Vec<usize> {
        let waits = self.waits().filter(|waits| now >= waits.deadline);
        waits.map_or_else(Vec::new, |waits| waits.orders.iter().map(|&(at, _)| at).collect())
    }
}

/// Circuits on their way.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub generation: u64,
    /// By server: the round that is answered.
    pub asked: Vec<u64>,
    pub target: PortMap,
    /// Circuits that agents use throughout.
    pub kept: PortMap,
    /// Switches that are to change, or all that are known if none is: these are read back.
    pub switches: Vec<usize>,
    /// Servers of which a port changes, in rising order.
    pub concerned: Vec<u16>,
    /// By port: nobody sends over it once these servers hold, so the switch may change it.
    pub quiet: Vec<bool>,
    /// Agents that have not let go by then are excluded.
    pub drain_by: Time,
    /// From then on other tenants do not wait for them; whether that is over.
    pub share_by: Time,
    pub overdue: bool,
    pub log: Reconfiguration,
}
