//! A rogue that speaks for a server: with a life of its own, or with that of the server's agent.

use crate::event::Event;
use crate::invariants::{Broken, ROUNDS};
use crate::world::World;
use lightloom_control::{Demand, Directive, Input, Mark, Report, ServerPart, Stage};
use lightloom_units::Time;

impl World {
    /// The rogue says something, and again until then. What it says is not lost: it is near the controller.
    pub(crate) fn lie(&mut self, server: u16, until: Time) {
        if self.calm || self.now >= until || self.controller.is_none() || self.pause.is_some() {
            return;
        }
        self.liars.insert(server);
        let report = self.a_lie(server);
        self.note(|| format!("a rogue speaks for server {server}"));
        self.input(Input::Report(report));
        let again = self.chance.ms(1, 30);
        self.at(self.now + again, Event::Lie(server, until));
    }

    fn a_lie(&mut self, server: u16) -> Report {
        let own = self.nodes[usize::from(server)].incarnation;
        let lives = [own, u64::MAX, own.saturating_sub(1), own + 1, 1 << 40];
        let incarnation = self.chance.pick(&lives);
        self.lies += 1;
        let mut report = Report {
            server,
            incarnation,
            beat: self.lies,
            obeyed: Mark::default(),
            round: 0,
            faults: Vec::new(),
            demand: None,
            traffic: Vec::new(),
        };
        // The agent itself, if it lies, says nothing that can be true: else it would harm its own server for
        // as long as it lives.
        let own = incarnation == own;
        let issued = self.memory.generation;
        match self.chance.below(if own { 5 } else { 9 }) {
            0 => report.obeyed.generation = self.chance.pick(&[u64::MAX, u64::MAX / 2]),
            1 => report.beat = u64::MAX,
            2 => report.round = u64::MAX,
            3 => report.faults = vec![ServerPart::Nic(9)],
            4 => report.demand = Some(self.any_demand(u64::MAX, u64::MAX)),
            5 => report.demand = Some(self.any_demand(1 << 61, 1)),
            6 => report.round = 1 << 61,
            7 => {
                let generation = issued + self.chance.pick(&[0, 1, 1000, 1 << 31]);
                report.obeyed = Mark { generation, stage: Stage::Resume };
            }
            _ => {
                let degree = self.region.degree() as u64;
                let port = self.chance.below(degree) as u16;
                report.faults = vec![ServerPart::Nic(port)];
            }
        }
        report
    }

    fn any_demand(&mut self, round: u64, bytes: u64) -> Demand {
        Demand::new(round, vec![bytes; self.nodes.len()])
    }

    /// Whether a tenant's rounds are its own: rogues have spoken for half of its servers at most.
    pub(crate) fn is_honest(&self, tenant: u16) -> bool {
        let of = |server: &u16| self.region.tenant(*server) == tenant;
        let lie = |server: &u16| self.liars.contains(server);
        let (liars, honest): (Vec<u16>, Vec<u16>) =
            (0..self.nodes.len() as u16).filter(of).partition(lie);
        honest.len() >= liars.len()
    }

    /// Nobody is told that a round is answered which its tenant has not asked for, unless half of its servers lie.
    pub(crate) fn told(&mut self, server: u16, directive: &Directive) {
        let tenant = self.region.tenant(server);
        let asked = self.rounds[usize::from(tenant)];
        if self.is_honest(tenant) && !self.liars.contains(&server) && directive.round > asked {
            let round = directive.round;
            let what = format!("server {server} is told that round {round} of {asked} is answered");
            self.hold(Err(Broken { invariant: ROUNDS, what }));
        }
    }
}
