//! Processes start and die, and servers have something to send.

use crate::event::Event;
use crate::invariants::{self, Broken};
use crate::node::Mail;
use crate::plan::{Lives, Loss};
use crate::plane::Says;
use crate::world::World;
use lightloom_control::{Agent, Controller, Demand, Doubt, Memory, Record, Runtime, RuntimeOutput};
use lightloom_units::Time;

impl World {
    pub(crate) fn start_controller(&mut self) {
        self.life += 1;
        let replayed = Memory::replay(self.disk.iter().cloned());
        if replayed != self.memory {
            let what = format!("{replayed:?}, and it was {:?}", self.memory);
            self.hold(Err(Broken { invariant: invariants::REPLAY, what }));
        }
        if self.memory.touched {
            self.tally("recovered from a change under way");
        }
        self.note(|| format!("controller starts with {replayed:?}"));
        let (region, settings) = (self.region.clone(), self.settings.clone());
        #[allow(unused_mut)]
        let mut controller = Controller::new(region, settings, replayed, self.now);
        #[cfg(feature = "testing")]
        controller.plant(self.planted);
        self.controller = Some(controller);
        self.decided = None;
        self.checks.started();
        for switch in 0..self.lines.len() {
            self.lines[switch].renew();
            self.at(self.now, Event::Connect { switch, life: self.life });
            self.lines[switch].connecting = true;
        }
        for server in 0..self.nodes.len() as u16 {
            self.deliver(server, Mail::Connected);
        }
    }

    /// Some of the journal is gone. What is left says so, or only that it is not where it was.
    fn lose(&mut self, loss: Loss) {
        let all = self.disk.len() as u64;
        let (kept, other) = match loss {
            Loss::Nothing => return,
            Loss::Whole => (0, Doubt::New),
            Loss::Tail => (all.saturating_sub(self.chance.between(1, 4)), Doubt::Moved),
            Loss::SinceBackup => (self.chance.below(all + 1), Doubt::Moved),
        };
        self.note(|| format!("and its journal has {kept} records of {all}"));
        let marked = self.chance.hit(500);
        let doubt = if marked { Doubt::Lost(format!("{kept} of {all}")) } else { other };
        self.checks.journal_lost(&self.nodes, &self.memory);
        self.disk.truncate(kept as usize);
        self.disk.push(Record::Doubtful { doubt });
        self.memory = Memory::replay(self.disk.iter().cloned());
        self.checks.journal_kept(&self.memory);
    }

    pub(crate) fn crash(&mut self, loss: Loss) {
        self.note(|| "the controller crashes".into());
        (self.controller, self.pause) = (None, None);
        for switch in 0..self.lines.len() {
            self.cut(switch);
            self.checks.closed(switch);
            self.lines[switch].stream = None;
        }
        self.lose(loss);
        let most = Time::from_ps(self.settings.lease.ps() * 3 / 2);
        let down = match self.chance.below(3) {
            0 => self.chance.ms(0, 5),
            1 => self.chance.ms(5, 200),
            _ => self.chance.up_to(most),
        };
        self.at(self.now + down, Event::ControllerStarts);
    }

    pub(crate) fn start_agent(&mut self, server: u16) {
        let node = &mut self.nodes[usize::from(server)];
        if node.agent.is_some() {
            return;
        }
        node.lands(self.now, &self.settings);
        node.lives += 1;
        node.incarnation = match self.plan.lives {
            Lives::Rise => node.lives,
            Lives::Fall => (1 << 32) - node.lives,
            Lives::Drawn => 1 + (self.chance.below(1 << 40) << 8) + node.lives,
        };
        let shows = node.shows(self.now);
        #[allow(unused_mut)]
        let mut agent = Agent::new(node.settings.clone(), node.incarnation, shows);
        #[cfg(feature = "testing")]
        agent.plant(self.planted);
        node.agent = Some(agent);
        if node.plane.runtime.is_none() {
            #[allow(unused_mut)]
            let mut runtime = Runtime::new(node.settings.ports);
            #[cfg(feature = "testing")]
            runtime.plant(self.planted);
            node.plane.runtime = Some(runtime);
        }
        self.say(server, Says::Hello);
        self.note(|| format!("agent {server} starts"));
        let tenant = usize::from(self.region.tenant(server));
        if self.rounds[tenant] > 0 {
            self.ask(server);
        }
    }

    pub(crate) fn thaw(&mut self, server: u16) {
        self.nodes[usize::from(server)].frozen = false;
        while let Some(mail) = self.nodes[usize::from(server)].mail.pop_front() {
            self.deliver(server, mail);
        }
    }

    /// A data plane runs, reads, and is near its agent again.
    pub(crate) fn runtime_well(&mut self, server: u16) {
        let plane = &mut self.nodes[usize::from(server)].plane;
        (plane.frozen, plane.deaf, plane.lag) = (false, false, self.plan.lag);
        for word in std::mem::take(&mut plane.unread) {
            self.hear(server, word);
        }
    }

    pub(crate) fn deliver(&mut self, server: u16, mail: Mail) {
        let now = self.now;
        let node = &mut self.nodes[usize::from(server)];
        node.lands(now, &self.settings);
        if node.frozen {
            return node.mail.push_back(mail);
        }
        let shows = node.shows(now);
        let ports = self.region.degree() as u16;
        let Some(agent) = &mut node.agent else { return };
        match mail {
            Mail::Connected => agent.connected(shows),
            Mail::Said(RuntimeOutput::Drained { token }) => agent.drained(shows, token),
            Mail::Said(RuntimeOutput::Using { number }) => agent.using(shows, number),
            Mail::Directive(directive) => {
                let uses = |agent: &Agent| -> Vec<_> {
                    (0..ports).map(|port| agent.circuit(shows, port)).collect()
                };
                let (obeyed, before) = (agent.obeyed(), uses(agent));
                agent.directive(shows, directive.clone());
                let after = uses(agent);
                let ours = directive.incarnation == node.incarnation;
                if ours {
                    self.hold(invariants::stale(server, &directive, obeyed, &before, &after));
                }
                self.note(|| {
                    format!(
                        "agent {server} had obeyed {obeyed:?}, hears {directive:?}: uses {after:?}"
                    )
                });
            }
        }
    }

    /// A tenant is about to send.
    pub(crate) fn demand(&mut self, tenant: u16) {
        self.rounds[usize::from(tenant)] += 1;
        for server in 0..self.nodes.len() as u16 {
            if self.region.tenant(server) == tenant {
                self.ask(server);
            }
        }
    }

    pub(crate) fn ask(&mut self, server: u16) {
        let tenant = self.region.tenant(server);
        let round = self.rounds[usize::from(tenant)];
        let servers = self.nodes.len() as u16;
        let mut row = |to: u16| {
            let theirs = to != server && self.region.tenant(to) == tenant;
            if theirs && self.chance.hit(600) { self.chance.below(1_000_000) } else { 0 }
        };
        let bytes = (0..servers).map(&mut row).collect();
        let node = &mut self.nodes[usize::from(server)];
        let shows = node.shows(self.now);
        if let Some(agent) = &mut node.agent {
            agent.demand(shows, Demand::new(round, bytes));
        }
    }
}
