//! What a controller is at, and the plan that it carries out.

use super::view::Reconfiguration;
use lightloom_circuits::PortMap;
use lightloom_units::Time;

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
        order: u64,
        deadline: Time,
    },
    Verifying {
        plan: Plan,
        order: u64,
        deadline: Time,
    },
    Reading {
        order: u64,
        deadline: Time,
    },
}

impl Phase {
    /// Whether this order's answer comes too late to be believed: this process may have been stopped since, and the
    /// switch have changed.
    pub fn is_late(&self, now: Time, id: u64) -> bool {
        match self {
            Phase::Patching { order, deadline, .. }
            | Phase::Verifying { order, deadline, .. }
            | Phase::Reading { order, deadline } => *order == id && now >= *deadline,
            _ => false,
        }
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
