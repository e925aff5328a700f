//! Faults stop, and all must come to rest in agreement.

use crate::event::Event;
use crate::plan::Network;
use crate::world::World;
use lightloom_circuits::{CircuitCounts, PortMap};
use lightloom_control::{Alarm, Mark, Patch, ServerPart, Stage};
use lightloom_units::Time;

impl World {
    pub(crate) fn faults_stop(&mut self) {
        self.note(|| "faults stop".into());
        self.calm = true;
        self.network = Network::FINE;
        self.lines.iter_mut().for_each(|line| line.mood = Default::default());
        (self.interrupt, self.ambush_telling) = (None, None);
        self.ambush.clear();
        self.goes_on();
        for server in 0..self.nodes.len() as u16 {
            let node = &mut self.nodes[usize::from(server)];
            (node.cut, node.slow) = (false, false);
            self.thaw(server);
            self.runtime_well(server);
            if !self.plan.forever {
                let agent = self.nodes[usize::from(server)].agent.as_ref();
                let faults: Vec<ServerPart> =
                    agent.map(|a| a.faults().collect()).unwrap_or_default();
                faults.into_iter().for_each(|part| self.part(server, part, true));
            }
        }
        for server in 0..self.nodes.len() as u16 {
            let later = self.settings.retry + self.settings.retry;
            self.at(self.now + later, Event::Restart(server));
        }
        (0..self.lines.len()).for_each(|switch| self.switch_well(switch));
        let s = &self.settings;
        let sum = 3 * (s.lease + s.grace).ps()
            + 3 * s.retry.ps()
            + 3 * s.audit.ps()
            + 6 * (s.patience + s.lifetime + s.reconnect).ps();
        let settle = self.chance.up_to(s.retry + s.audit);
        self.at(self.now + settle, Event::LastDemand);
        self.deadline = self.now + settle + Time::from_ps(sum) + Time::from_ms(10_000);
    }

    /// A switch works again, unless what is broken stays so.
    fn switch_well(&mut self, at: usize) {
        let n = self.region.switch_ports(at);
        if !self.plan.forever {
            let switch = self.lines[at].server.switch_mut();
            (1..=2 * n).for_each(|port| switch.stick(port, false));
        }
        // Those who joined ports of the region to their own take them apart again, or do not.
        let outside: Vec<Patch> = (self.lines[at].switch().patches())
            .filter(|patch| {
                let ends = [patch.ingress, patch.egress - n];
                ends.into_iter().any(|port| self.region.port_at(at, port).is_none())
            })
            .collect();
        let left = !outside.is_empty() && self.chance.hit(300);
        self.foreign_left |= left;
        if !left {
            self.tamper(at, |switch| switch.tamper(&outside, &[]));
        }
    }

    /// Whether circuits as they were decided on stand, but for those that no switch has ports for.
    fn stands(&self, decided: &CircuitCounts, standing: &PortMap) -> bool {
        let counts = standing.counts();
        let free = |server: usize, switch: u16| {
            (0..self.region.degree()).any(|port| {
                let at = self.region.switch_port((server as u16, port as u16)).switch;
                let works = !standing.is_blocked(server, port);
                at == switch && works && standing.peer(server, port).is_none()
            })
        };
        let switches = self.lines.len() as u16;
        let pair = |(a, b): (usize, usize)| {
            let none = |switch: u16| !(free(a, switch) && free(b, switch));
            counts.get(a, b) == decided.get(a, b)
                || switches > 1 && counts.get(a, b) < decided.get(a, b) && (0..switches).all(none)
        };
        let n = standing.servers();
        decided.servers() == n && (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).all(pair)
    }

    /// An operator starts an agent anew if the controller believes nothing of it: alone, or with less than half of all,
    /// it knows of a plan that no journal knows of, since rogues had led the numbers on.
    pub(crate) fn restart_refused(&mut self, server: u16) {
        let alarm = Alarm::ReportRefused { server };
        let refused =
            |(it, since): (&Alarm, Time)| *it == alarm && self.now > since + self.settings.lease;
        if self.controller.as_ref().is_some_and(|controller| controller.alarms().any(refused)) {
            self.note(|| format!("an operator starts agent {server} anew"));
            self.tally("agent started anew by an operator");
            let node = &mut self.nodes[usize::from(server)];
            node.agent = None;
            node.mail.clear();
            self.start_agent(server);
        }
    }

    /// What is left to be done: nothing, once all have come to agree.
    pub(crate) fn left(&self) -> Option<String> {
        let Some(controller) = &self.controller else { return Some("no controller".into()) };
        if controller.phase_name() != "idle" {
            return Some(format!("the controller is {}", controller.phase_name()));
        }
        let asks = (0..self.rounds.len() as u16).any(|tenant| self.is_honest(tenant));
        for (alarm, since) in controller.alarms() {
            let lasting = match alarm {
                Alarm::PortStuck { .. } | Alarm::PartFailed { .. } => self.plan.forever,
                Alarm::SwitchRefuses { .. } => self.plan.forever || self.foreign_left,
                Alarm::ForeignPatch { .. } => self.foreign_left,
                // Rogues have led every tenant's rounds on: nothing more is decided.
                Alarm::DecisionRefused => !asks,
                _ => false,
            };
            if !lasting {
                return Some(format!("{alarm} since {since}"));
            }
        }
        let memory = controller.memory();
        let standing = controller.standing();
        let resumed = Mark { generation: memory.verified_generation, stage: Stage::Resume };
        for (server, node) in self.nodes.iter().enumerate() {
            let Some(agent) = &node.agent else { return Some(format!("no agent {server}")) };
            let round = self.rounds[usize::from(self.region.tenant(server as u16))];
            if agent.round() < round {
                return Some(format!("server {server}: round {} of {round}", agent.round()));
            }
            if agent.obeyed() != resumed {
                return Some(format!("server {server}: {:?} for {resumed:?}", agent.obeyed()));
            }
            let shows = node.shows(self.now);
            for port in 0..self.region.degree() {
                let (has, should) =
                    (agent.circuit(shows, port as u16), standing.peer(server, port));
                if has != should {
                    return Some(format!("server {server} port {port}: {has:?} for {should:?}"));
                }
                let sends = node.plane.circuit(shows, port as u16);
                if sends != should {
                    return Some(format!("runtime {server} port {port}: {sends:?} for {should:?}"));
                }
                let failed = agent.faults().any(|part| match part {
                    ServerPart::Server => true,
                    ServerPart::Nic(at) | ServerPart::Link(at) | ServerPart::Gpu(at) => {
                        usize::from(at) == port
                    }
                });
                if failed && has.is_some() {
                    return Some(format!("server {server} port {port} has failed and is used"));
                }
            }
        }
        let circuits: Vec<_> = standing.circuits().collect();
        if memory.verified != circuits || memory.generation != memory.verified_generation {
            return Some(format!("{circuits:?} stand, and the journal has {memory:?}"));
        }
        let lasting = self.plan.forever || self.foreign_left;
        for (switch, line) in self.lines.iter().enumerate() {
            let patches = line.patches(&self.region);
            let wanted = self.region.patches(switch, standing);
            let missing = wanted.iter().any(|patch| patches.binary_search(patch).is_err());
            if missing || (patches != wanted && !lasting) {
                return Some(format!("switch {switch} has {patches:?} for {wanted:?}"));
            }
        }
        let Some(decided) = &self.decided else {
            // One that starts anew when all rounds are answered decides nothing.
            return (asks && !self.last_crash).then(|| "no decision".into());
        };
        if !lasting && asks && !self.stands(decided, standing) {
            return Some("circuits that were decided on do not stand".into());
        }
        None
    }
}
