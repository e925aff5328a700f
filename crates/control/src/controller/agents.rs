//! What a controller knows of its agents, and what it tells them.

use super::io::Output;
use super::machine::Controller;
use super::phase::Phase;
use super::record::AgentRecord;
use crate::alarm::Alarm;
use crate::message::{Directive, Mark, PortId, Report, ServerPart, Stage};
use crate::planted::Planted;
use lightloom_circuits::{PortMap, ServerDemand};
use lightloom_decide::{Basis, Question};
use lightloom_units::Time;

/// An agent that does all that it shall is answered once in this part of a lease.
const MOMENT: u64 = 12;

impl Controller {
    pub(super) fn report(&mut self, now: Time, report: Report) {
        let server = report.server;
        let Some(agent) = self.agents.get(usize::from(server)) else { return };
        let again = report.incarnation == agent.incarnation;
        // Beats begin anew when nobody has spoken for a while, even if the number of the life is the same.
        let old = again && report.beat <= agent.beat && !self.is_vacant(now, agent);
        let old = old && !self.bug.is(Planted::BelievesOldBeats);
        if old || !self.listens_to(now, server, report.incarnation) {
            return;
        }
        if let Err(why) = self.believe(now, &report) {
            self.claim(now, server, &why);
            return self.refuse(now, server, &why.to_string());
        }
        self.believed(now, server);
        self.leap(now, &report);
        let tenant = usize::from(self.region.tenant(server));
        let waits = self.is_gathered(tenant, &self.agents[usize::from(server)]);
        let faults = self.faults(now, server, report.faults);
        let agent = &mut self.agents[usize::from(server)];
        if !again {
            agent.new_life(report.incarnation, self.rounds[tenant]);
        }
        if !agent.present {
            self.presence_by = Time::ZERO;
        }
        (agent.beat, agent.gone) = (report.beat, false);
        agent.obeyed = agent.obeyed.max(report.obeyed);
        agent.heard = Some(now);
        if let Some(demand) = report.demand {
            agent.ask(demand, waits);
        }
        agent.traffic = report.traffic;
        let changed = agent.faults != faults;
        let old = std::mem::replace(&mut agent.faults, faults);
        if report.round > agent.answered {
            agent.answered = report.round;
            if report.round > self.rounds[tenant] {
                self.settle(tenant);
            }
        }
        if changed {
            for part in old {
                self.clear(&Alarm::PartFailed { server, part });
            }
            for part in self.agents[usize::from(server)].faults.clone() {
                self.raise(now, Alarm::PartFailed { server, part });
            }
        }
        let agent = &mut self.agents[usize::from(server)];
        let ever = self.bug.is(Planted::ExcludesForEver);
        if agent.excluded_until.is_some_and(|until| now >= until) && !ever {
            agent.excluded_until = None;
            self.clear(&Alarm::DrainStuck { server });
        }
        let agent = &mut self.agents[usize::from(server)];
        let excluded = agent.excluded_until.is_some();
        if excluded && self.alarms.contains_key(&Alarm::ServerSilent { server }) {
            self.clear(&Alarm::ServerSilent { server });
            self.raise(now, Alarm::DrainStuck { server });
        }
        let agent = &mut self.agents[usize::from(server)];
        let back = !agent.present && !excluded;
        if back {
            agent.present = true;
            self.clear(&Alarm::ServerSilent { server });
        }
        if changed || back {
            self.mask(now);
        }
        self.reply(server, report.round);
        self.confirm(now);
    }

    /// Whether every agent has been heard since the controller started, or has stopped for want of a
    /// lease. Until then there may be one that goes by a later plan than the journal knows of, if that
    /// was lost.
    pub(super) fn agents_known(&self) -> bool {
        self.agents.iter().all(|agent| agent.heard.is_some() || !agent.present)
    }

    /// Notices agents whose lease has ended, and ports that are to be tried again.
    pub(super) fn presence(&mut self, now: Time) {
        // This is called for every message, and most often no lease has ended.
        let gone = now >= self.presence_by && self.end_leases(now);
        let retry = !self.stuck.is_empty() && now >= self.retry_at;
        if retry && self.bug.is(Planted::RetriesOneByOne) {
            self.stuck.pop_first();
            self.retry_at = now + self.settings.retry;
        } else if retry {
            self.stuck.clear();
        }
        if retry {
            self.journal_stuck();
            self.clear_ports();
        }
        if gone || retry {
            self.mask(now);
        }
    }

    /// Notices agents whose lease has ended, and those that have said nothing since for as long as one. Says whether a
    /// lease has ended.
    fn end_leases(&mut self, now: Time) -> bool {
        let mut gone = false;
        self.presence_by = Time::MAX;
        for server in 0..self.agents.len() {
            let agent = &mut self.agents[server];
            if agent.present && now >= agent.lease_end {
                (agent.present, gone) = (false, true);
            }
            if now >= self.silent_by(server as u16) {
                self.clear(&Alarm::DrainStuck { server: server as u16 });
                self.raise(now, Alarm::ServerSilent { server: server as u16 });
            }
            let agent = &self.agents[server];
            let lease_end = if agent.present { agent.lease_end } else { Time::MAX };
            let by = lease_end.min(self.silent_by(server as u16));
            self.presence_by = self.presence_by.min(by);
        }
        gone
    }

    /// When an agent without a lease has said nothing for as long as one; never, if that is known.
    pub(super) fn silent_by(&self, server: u16) -> Time {
        let agent = &self.agents[usize::from(server)];
        if agent.present || self.alarms.contains_key(&Alarm::ServerSilent { server }) {
            return Time::MAX;
        }
        let lease = self.settings.lease + self.settings.grace;
        agent.heard.map_or(agent.lease_end, |heard| heard + lease)
    }

    pub(super) fn unblock(&mut self, now: Time, ports: &[PortId]) {
        let before = self.stuck.len();
        self.stuck.retain(|port| !ports.is_empty() && !ports.contains(port));
        if self.stuck.len() < before {
            self.journal_stuck();
        }
        self.foreign.retain(|port| !ports.is_empty() && !ports.contains(port));
        if ports.is_empty() {
            if self.forgives().is_some() {
                self.clear(&Alarm::JournalLost);
            }
            self.alone();
        }
        self.clear_ports();
        self.next_audit = now;
        self.mask(now);
    }

    /// Ends the alarms of ports that are in order again.
    fn clear_ports(&mut self) {
        let over: Vec<Alarm> = self
            .alarms
            .keys()
            .filter(|alarm| match alarm {
                Alarm::PortStuck { port } => !self.stuck.contains(port),
                Alarm::ForeignPatch { port } => !self.foreign.contains(port),
                _ => false,
            })
            .cloned()
            .collect();
        over.iter().for_each(|alarm| self.clear(alarm));
    }

    pub(super) fn journal_stuck(&mut self) {
        let ports = self.stuck.iter().copied().collect();
        self.journal(crate::journal::Record::Stuck { ports });
    }

    /// Looks anew which ports are candidates, and has the region planned anew if others are.
    pub(super) fn mask(&mut self, now: Time) {
        let degree = self.region.degree();
        let blocked: Vec<bool> = (self.region.ports())
            .map(|(server, port)| {
                let agent = &self.agents[usize::from(server)];
                let fails = |part: &ServerPart| (*part).port().is_none_or(|at| at == port);
                let faulty = agent.faults.iter().any(fails);
                let at = (server, port);
                !agent.present || faulty || self.stuck.contains(&at) || self.foreign.contains(&at)
            })
            .collect();
        if blocked == self.blocked {
            return;
        }
        self.blocked = blocked;
        self.replan = true;
        // A plan that has not touched the switch is given up if it wants what is out of use now.
        if let Phase::Draining { plan } = &self.phase {
            let target = &plan.target;
            let wants = |&(server, port): &PortId| {
                let at = usize::from(server) * degree + usize::from(port);
                self.blocked[at] && target.peer(usize::from(server), usize::from(port)).is_some()
            };
            if self.region.ports().any(|port| wants(&port)) {
                self.give_up(now);
            }
        }
    }

    /// A map with those ports blocked that are no candidates, and no others.
    pub(super) fn masked(&self, map: &PortMap) -> PortMap {
        let mut masked = map.clone();
        for ((server, port), &blocked) in self.region.ports().zip(&self.blocked) {
            // What stands on a switch that is away is not touched: see `spare`.
            match blocked || !self.site_of((server, port)).is_known() {
                true => masked.block(usize::from(server), usize::from(port)),
                false => masked.unblock(usize::from(server), usize::from(port)),
            }
        }
        masked
    }

    /// By server: the round that it asks for, if it is time to decide for its tenant; else 0.
    pub(super) fn due(&mut self, now: Time) -> Option<Vec<u64>> {
        let mut due = None;
        for tenant in 0..self.rounds.len() {
            let of = |at: usize| usize::from(self.region.tenant(at as u16)) == tenant;
            let agents =
                || self.agents.iter().enumerate().filter(|(at, agent)| of(*at) && agent.present);
            let asked = |agent: &AgentRecord| agent.demand.as_ref().map_or(0, |d| d.round);
            // Asked for every message, and most often of agents of which none asks.
            let open = |(at, agent)| self.is_open(tenant, agent) && of(at);
            if !self.agents.iter().enumerate().any(open) {
                self.gather_by[tenant] = None;
                continue;
            }
            let mut rounds = agents().map(|(_, agent)| asked(agent));
            let first = rounds.next();
            let alike = rounds.all(|round| Some(round) == first);
            let by = *self.gather_by[tenant].get_or_insert(now + self.settings.gather);
            if alike || now >= by {
                let due = due.get_or_insert_with(|| vec![0; self.agents.len()]);
                agents().for_each(|(at, agent)| due[at] = asked(agent));
                self.gather_by[tenant] = None;
                for (at, agent) in self.agents.iter_mut().enumerate() {
                    let own = usize::from(self.region.tenant(at as u16)) == tenant;
                    agent.counted |= own && agent.present;
                }
            }
        }
        due
    }

    /// What servers ask for in rounds that are due, or were, or as much from everyone to everyone of its tenant if
    /// nobody asks for anything.
    pub(super) fn demand(&self) -> ServerDemand {
        let n = self.region.servers();
        let mut demand = ServerDemand::zero(n);
        let present = |server: usize| self.agents[server].present;
        for from in (0..n).filter(|&from| present(from)) {
            if let Some(asked) = self.counted(from) {
                let row = &mut demand.bytes[from * n..(from + 1) * n];
                row.copy_from_slice(&asked.bytes);
                row[from] = 0;
            }
        }
        for to in (0..n).filter(|&to| !present(to)) {
            (0..n).for_each(|from| demand.bytes[from * n + to] = 0);
        }
        if self.agents.iter().all(|agent| agent.demand.is_none()) {
            let tenant = |server: usize| self.region.tenant(server as u16);
            for from in (0..n).filter(|&from| present(from)) {
                for to in (0..n).filter(|&to| to != from && present(to)) {
                    if tenant(from) == tenant(to) {
                        demand.add(from as u32, to as u32, 1);
                    }
                }
            }
        }
        demand
    }

    /// What is asked of whoever decides, over the ports that are candidates. `asked`: by server, the round
    /// that is to be answered; if none is, ports have failed or work again, or circuits were lost.
    pub(super) fn question(&self, number: u64, masked: &PortMap, asked: &[u64]) -> Question {
        let present = |at: &usize| self.agents[*at].present;
        let tenants = self.rounds.len() as u16;
        let bases: Vec<Basis> = (0..tenants).map(|at| self.basis(at, masked, asked)).collect();
        let basis_of = |server: usize| bases[usize::from(self.region.tenant(server as u16))];
        let of = |at: usize| self.counted(at).and_then(|demand| demand.ahead);
        let one = tenants == 1;
        Question {
            basis: bases[0],
            basis_of: (0..self.agents.len()).filter(|_| !one).map(basis_of).collect(),
            ahead: (0..self.agents.len()).map(|at| Some(at).filter(present).and_then(of)).collect(),
            traffic: self.agents.iter().map(|agent| agent.traffic.clone()).collect(),
            number,
            ..Question::new(self.demand(), masked.clone())
        }
    }

    /// Where a tenant's demand comes from. What other tenants' servers say and lose has no part in it.
    fn basis(&self, tenant: u16, masked: &PortMap, asked: &[u64]) -> Basis {
        let own = |server: u16| self.region.tenant(server) == tenant;
        let members = || (0..self.agents.len()).filter(|&at| own(at as u16));
        let demands = || members().filter_map(|at| self.counted(at));
        let kept = |(from, to): &(PortId, PortId)| {
            masked.peer(usize::from(from.0), usize::from(from.1)) == Some(*to)
        };
        let due = members().any(|at| asked[at] > 0);
        match demands().next() {
            None if !self.standing.circuits().any(|(a, _)| own(a.0)) => Basis::Start,
            None => Basis::Predicted,
            _ if !due && !self.memory.verified.iter().filter(|ends| own(ends.0.0)).all(kept) => {
                Basis::Repair
            }
            _ if demands().any(|demand| demand.predicted) => Basis::Predicted,
            _ => Basis::Known,
        }
    }

    /// Whether nobody has asked for circuits and none stand, so that even ones are in place.
    pub(super) fn wants_even(&self) -> bool {
        self.settings.start_even
            && self.standing.circuits().next().is_none()
            && self.agents.iter().all(|agent| agent.demand.is_none() && agent.heard.is_some())
    }

    /// Tells an agent what it shall do.
    pub(super) fn tell(&mut self, server: u16) {
        if let Some((heard, directive)) = self.directive(server) {
            self.say(server, heard, directive);
        }
    }

    /// Answers a report, unless the agent goes by all that it would be told, and a report of a moment ago was answered:
    /// its lease is long yet. `round`: the last one of which it knows that it was answered.
    fn reply(&mut self, server: u16, round: u64) {
        let Some((heard, directive)) = self.directive(server) else { return };
        let agent = &self.agents[usize::from(server)];
        let moment = Time::from_ps(self.settings.lease.ps() / MOMENT);
        let known = agent.told.as_ref().is_some_and(|(at, told)| {
            let same = (told.mark, told.round) == (directive.mark, directive.round)
                && (agent.obeyed, round) == (directive.mark, directive.round)
                && told.circuits == directive.circuits;
            same && (heard < *at + moment || self.bug.is(Planted::AnswersOnlyNews))
        });
        if !known {
            self.say(server, heard, directive);
        }
    }

    /// What an agent shall do, if it may be spoken to, and when it was heard.
    fn directive(&self, server: u16) -> Option<(Time, Directive)> {
        let agent = &self.agents[usize::from(server)];
        let heard = agent.heard?;
        let mute = self.mute_until.is_some() && !self.bug.is(Planted::SpeaksBeforeItReads);
        if mute || agent.excluded_until.is_some() || !agent.present {
            return None;
        }
        let (incarnation, beat) = (agent.incarnation, agent.beat);
        let ports = 0..self.region.degree();
        let peer = |map: &PortMap, port| map.peer(usize::from(server), port);
        let (mark, circuits) = match &self.phase {
            Phase::Draining { plan }
            | Phase::Patching { plan, .. }
            | Phase::Verifying { plan, .. } => {
                let mark = Mark { generation: plan.generation, stage: Stage::Hold };
                let stale = self.bug.is(Planted::HoldsNothing);
                let map = if stale { &self.standing } else { &plan.kept };
                (mark, ports.map(|port| peer(map, port)).collect())
            }
            _ => {
                let generation = self.memory.verified_generation;
                let mark = Mark { generation, stage: Stage::Resume };
                (mark, ports.map(|port| peer(&self.standing, port)).collect())
            }
        };
        let mixed = self.bug.is(Planted::MixesRounds);
        let tenant = if mixed { 0 } else { usize::from(self.region.tenant(server)) };
        let round = self.rounds[tenant].max(agent.answered);
        Some((heard, Directive { incarnation, beat, mark, round, circuits }))
    }

    fn say(&mut self, server: u16, heard: Time, directive: Directive) {
        self.counters.directives += 1;
        let hasty = self.bug.is(Planted::SkipsGrace);
        let grace = if hasty { Time::ZERO } else { self.settings.grace };
        let lease_end = heard + self.settings.lease + grace;
        let agent = &mut self.agents[usize::from(server)];
        agent.lease_end = agent.lease_end.max(lease_end);
        agent.told = Some((heard, directive.clone()));
        self.outputs.push_back(Output::Send { server, directive });
    }

    /// Tells every agent.
    pub(super) fn tell_all(&mut self) {
        (0..self.region.servers() as u16).for_each(|server| self.tell(server));
    }
}
