//! The optical switch, its controller and the agents, as far as endpoints feel them: circuits are drained, go
//! dark, others are verified and told; leases are renewed late or not at all. A circuit ends only when both of
//! its endpoints have drained it, are gone, or have no lease any more.

use super::chance::Chance;
use lightloom_control::PortId;
use lightloom_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What an agent has told its endpoint.
#[derive(Clone)]
pub struct Agent {
    pub circuits: Vec<Option<PortId>>,
    pub number: u64,
    pub until: Time,
    /// Its messages keep their order.
    pub last: Time,
}

/// A change under way.
pub struct Plan {
    pub next: BTreeMap<PortId, PortId>,
    pub changes: BTreeSet<PortId>,
    /// By endpoint: what it drains, and when its lease ends.
    pub waits: BTreeMap<usize, (u64, Time)>,
    pub dark: bool,
}

/// The switch and all who speak for it.
pub struct Optics {
    pub stands: BTreeMap<PortId, PortId>,
    pub agents: Vec<Agent>,
    pub plan: Option<Plan>,
    pub token: u64,
    pub generation: u64,
}

impl Optics {
    pub fn new(ports: &[u16]) -> Self {
        let agent = |&ports: &u16| Agent {
            circuits: vec![None; usize::from(ports)],
            number: 0,
            until: Time::ZERO,
            last: Time::ZERO,
        };
        let agents = ports.iter().map(agent).collect();
        Optics { stands: BTreeMap::new(), agents, plan: None, token: 0, generation: 0 }
    }

    pub fn stands(&self, one: PortId, other: PortId) -> bool {
        self.stands.get(&one) == Some(&other)
    }

    /// An endpoint has drained, or is gone.
    pub fn released(&mut self, at: usize, token: u64) {
        if let Some(plan) = &mut self.plan
            && plan.waits.get(&at).is_some_and(|wait| wait.0 == token)
        {
            plan.waits.remove(&at);
        }
    }

    /// An endpoint is gone with all that it had in flight.
    pub fn gone(&mut self, at: usize) {
        if let Some(plan) = &mut self.plan {
            plan.waits.remove(&at);
        }
    }

    pub fn draw(&self, chance: &mut Chance) -> BTreeMap<PortId, PortId> {
        let mut free: Vec<PortId> = Vec::new();
        for (server, agent) in (0..).zip(&self.agents) {
            free.extend((0..agent.circuits.len() as u16).map(|port| (server, port)));
        }
        let mut next = BTreeMap::new();
        while free.len() > 1 {
            let one = free.swap_remove(chance.below(free.len() as u64) as usize);
            let at = chance.below(free.len() as u64) as usize;
            if free[at].0 != one.0 && chance.hit(900) {
                let other = free.swap_remove(at);
                next.insert(one, other);
                next.insert(other, one);
            }
        }
        next
    }
}
