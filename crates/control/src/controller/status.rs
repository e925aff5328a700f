//! The status of a controller, as an operator sees it.

use super::machine::Controller;
use super::phase::Phase;
use super::view::{CircuitView, DemandView, ServerView, Status, SwitchView};
use lightloom_units::Time;

impl Controller {
    /// All there is to see.
    pub fn status(&self, now: Time) -> Status {
        let degree = self.region.degree();
        let n = self.region.servers();
        let server = |at: usize| {
            let agent = &self.agents[at];
            ServerView {
                server: at as u16,
                tenant: self.region.tenant(at as u16),
                present: agent.present && agent.heard.is_some(),
                heard: agent.heard,
                obeyed: agent.obeyed,
                faults: agent.faults.clone(),
                round: agent.demand.as_ref().map(|demand| demand.round),
                circuits: self.standing.ports(at).to_vec(),
                blocked: self.blocked[at * degree..(at + 1) * degree].to_vec(),
            }
        };
        let circuit = |(a, b)| {
            let [at, to] = [a, b].map(|port| self.region.switch_port(port));
            CircuitView { a, b, switch: at.switch, switch_ports: (at.port, to.port) }
        };
        let switch = |at: usize| SwitchView {
            switch: at as u16,
            up: self.sites[at].up,
            device: self.sites[at].device.clone(),
            ports: self.region.switch_ports(at),
            read: !self.sites[at].must_read,
        };
        let row = |at: usize| {
            let demand = self.agents[at].demand.as_ref();
            demand.map_or_else(|| vec![0; n], |demand| demand.bytes.clone())
        };
        Status {
            now,
            phase: self.phase_name(),
            generation: self.memory.generation,
            verified_generation: self.memory.verified_generation,
            confirmed_generation: self.memory.confirmed,
            switches: (0..self.sites.len()).map(switch).collect(),
            servers: (0..n).map(server).collect(),
            circuits: self.standing.circuits().map(circuit).collect(),
            demand: DemandView { rounds: self.rounds.clone(), bytes: (0..n).map(row).collect() },
            alarms: self.alarms().map(|(alarm, since)| (alarm.clone(), since)).collect(),
            counters: self.counters,
        }
    }

    /// As in [`Status::phase`].
    pub fn phase_name(&self) -> &'static str {
        match self.phase {
            _ if self.mute_until.is_some() => "starting",
            Phase::Idle => "idle",
            Phase::Deciding { .. } => "deciding",
            Phase::Draining { .. } => "draining",
            Phase::Patching { .. } => "patching",
            Phase::Verifying { .. } => "verifying",
            Phase::Reading { .. } => "reading",
        }
    }
}
