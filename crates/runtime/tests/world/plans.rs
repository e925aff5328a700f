//! Circuits change: they are drained, go dark, come elsewhere, and are told; leases are renewed.

use super::event::Event;
use super::optics::Plan;
use super::scenario::World;
use lightloom_control::{Mark, PortId, Stage, Use};
use lightloom_units::Time;
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// The controller has decided on other circuits.
    pub fn plan_circuits(&mut self) {
        if self.optics.plan.is_none() {
            let next = self.optics.draw(&mut self.chance);
            let stands = &self.optics.stands;
            let changes = stands.keys().chain(next.keys());
            let changes = changes.filter(|&port| stands.get(port) != next.get(port));
            let changes: BTreeSet<PortId> = changes.copied().collect();
            let mut waits = BTreeMap::new();
            for at in 0..self.nodes.len() {
                if let Some(wait) = self.drain(at, &changes) {
                    waits.insert(at, wait);
                }
            }
            self.note(|| format!("plan: {next:?} changes {changes:?}, waits {waits:?}"));
            self.optics.generation += 1;
            self.optics.plan = Some(Plan { next, changes, waits, dark: false });
            self.tally("plans");
        }
        let soon = self.now + self.chance.ms(1, 10);
        self.at(soon, Event::PlanGoesOn);
    }

    /// Has an endpoint drain what changes of its ports.
    fn drain(&mut self, at: usize, changes: &BTreeSet<PortId>) -> Option<(u64, Time)> {
        let agent = &mut self.optics.agents[at];
        let used = (0..agent.circuits.len() as u16).filter(|&port| {
            changes.contains(&(at as u16, port)) && agent.circuits[usize::from(port)].is_some()
        });
        let ports: Vec<u16> = used.collect();
        if ports.is_empty() {
            return None;
        }
        ports.iter().for_each(|&port| agent.circuits[usize::from(port)] = None);
        let until = agent.until;
        self.optics.token += 1;
        let token = self.optics.token;
        let (when, life) = (self.in_order(at), self.nodes[at].life);
        self.at(when, Event::Drain { node: at, life, token, ports });
        self.tell(at, until);
        self.nodes[at].exchange.as_ref().map(|_| (token, until))
    }

    /// The change that is under way goes on if it may.
    pub fn plan_goes_on(&mut self) {
        let now = self.now;
        let Some(plan) = &mut self.optics.plan else { return };
        plan.waits.retain(|_, wait| now < wait.1);
        let dark_for = self.chance.ms(1, 25);
        if !plan.waits.is_empty() {
            return self.at(now + Time::from_ms(5), Event::PlanGoesOn);
        }
        if !plan.dark {
            plan.dark = true;
            let changes = plan.changes.clone();
            self.optics.stands.retain(|port, _| !changes.contains(port));
            for wire in &mut self.wires {
                // An idle connection outlives the dark; one with bytes on their way waits in vain.
                let on_it = wire.pipes.iter().any(|pipe| pipe.held > 0);
                let changes = wire.ports.is_some_and(|ports| changes.contains(&ports[0]));
                if changes && on_it && !wire.dead {
                    wire.dead = true;
                    wire.pipes.iter_mut().for_each(super::wire::Pipe::clear);
                }
            }
            return self.at(now + dark_for, Event::PlanGoesOn);
        }
        let Some(plan) = self.optics.plan.take() else { return };
        self.note(|| format!("circuits stand: {:?}", plan.next));
        for (at, agent) in (0..).zip(&mut self.optics.agents) {
            for (port, circuit) in (0..).zip(&mut agent.circuits) {
                *circuit = plan.next.get(&(at, port)).copied();
            }
        }
        self.optics.stands = plan.next;
        for at in 0..self.nodes.len() {
            self.renew(at);
        }
    }

    /// A lease is renewed.
    pub fn renew(&mut self, at: usize) {
        let until = self.now + self.shape.lease;
        self.optics.agents[at].until = until;
        self.tell(at, until);
    }

    fn tell(&mut self, at: usize, until: Time) {
        let agent = &mut self.optics.agents[at];
        agent.number += 1;
        let mark = Mark { generation: self.optics.generation, stage: Stage::Resume };
        let circuits = agent.circuits.clone();
        let told = Use { number: agent.number, mark, round: 0, circuits, until };
        let (when, life) = (self.in_order(at), self.nodes[at].life);
        self.at(when, Event::Told { node: at, life, told });
    }

    /// When an agent's next message comes.
    fn in_order(&mut self, at: usize) -> Time {
        let when = self.now + self.chance.us(10, 8_000);
        let agent = &mut self.optics.agents[at];
        agent.last = agent.last.max(when);
        agent.last
    }

    /// An endpoint hears its agent.
    pub fn hears_use(&mut self, at: usize, told: Use) {
        let (now, node) = (self.now, &mut self.nodes[at]);
        for (port, circuit) in told.circuits.iter().enumerate() {
            if let Some(circuit) = circuit {
                node.granted[port] = Some((*circuit, told.until));
                node.draining[port] = false;
            }
        }
        if let Some(exchange) = &mut node.exchange {
            exchange.told(now, told);
        }
        self.dirty.insert(at);
    }

    pub fn hears_drain(&mut self, at: usize, token: u64, ports: Vec<u16>) {
        let (now, node) = (self.now, &mut self.nodes[at]);
        ports.iter().for_each(|&port| node.draining[usize::from(port)] = true);
        node.drains.insert(token, ports.clone());
        if let Some(exchange) = &mut node.exchange {
            exchange.drain(now, token, &ports);
        }
        self.dirty.insert(at);
    }
}
