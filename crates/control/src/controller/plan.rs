//! One plan: decide, drain, patch, verify, resume.

use super::io::{ControllerEvent, Output};
use super::machine::Controller;
use super::phase::{Found, Phase, Plan, Waits};
use super::record::AgentRecord;
use super::share::SHARE;
use super::site::Site;
use super::view::Reconfiguration;
use crate::alarm::Alarm;
use crate::driver::{Order, Patch};
use crate::journal::Record;
use crate::message::{Mark, PortId, Stage};
use crate::planted::Planted;
use lightloom_circuits::{CircuitCounts, PortMap, assign_over};
use lightloom_units::Time;
use std::collections::BTreeSet;

/// So many plans may have been begun, at most, since an agent obeyed the last one.
const SKIPPED: u64 = 1 << 16;

impl Controller {
    /// Begins what there is to do next.
    pub(super) fn next(&mut self, now: Time) {
        let found = self.sites.iter_mut().enumerate();
        let found: Vec<_> = found.filter_map(|(at, site)| Some((at, site.found.take()?))).collect();
        if !found.is_empty() {
            self.seen(now, now, found);
            if !matches!(self.phase, Phase::Idle) {
                return;
            }
        }
        if self.is_looking() {
            return self.read_unknown(now);
        }
        if self.mute_until.is_none() {
            if self.is_behind() {
                self.reissue(now);
            }
            if !self.is_seeing() || !self.agents_known() || self.stopped {
                // Nothing can be changed: what waits for circuits shall not wait longer. They come
                // later.
                if let Some(asked) = self.due(now) {
                    self.answered(&asked);
                    self.replan = true;
                    self.tell_all();
                }
            }
        }
        self.read_unknown(now);
        if !self.is_seeing() || self.mute_until.is_some() {
            return;
        }
        if !self.agents_known() {
            return;
        }
        if now >= self.next_audit {
            return self.audit(now);
        }
        if self.stopped {
            return;
        }
        let (due, even) = (self.due(now), self.wants_even() && !self.began_even);
        if due.is_some() || self.replan || even {
            self.began_even |= even;
            self.replan = false;
            let masked = self.masked(&self.standing);
            self.last_question += 1;
            let number = self.last_question;
            let asked = due.unwrap_or_else(|| self.no_rounds());
            let question = self.question(number, &masked, &asked);
            self.counters.decisions += 1;
            self.outputs.push_back(Output::Decide(Box::new(question)));
            self.phase = Phase::Deciding { question: number, asked, masked, since: now };
        }
    }

    /// By server: none is answered.
    pub(super) fn no_rounds(&self) -> Vec<u64> {
        vec![0; self.agents.len()]
    }

    /// Agents have heard of a plan that is not finished, or of one that the journal has lost.
    pub(super) fn is_behind(&self) -> bool {
        self.memory.generation != self.memory.verified_generation
            || self.floor > self.memory.generation
    }

    /// The journal has the circuits that stand.
    pub(super) fn is_noted(&self) -> bool {
        self.standing.circuits().eq(self.memory.verified.iter().copied())
    }

    /// The number of the next plan. If the journal has lost plans, agents may have heard of some that
    /// none has obeyed yet: these numbers are not used again.
    pub(super) fn next_generation(&self) -> u64 {
        let known = self.memory.generation;
        let lost = self.floor > known || self.skips;
        let lost = lost && !self.bug.is(Planted::ReusesGenerations);
        if lost { self.floor.max(known) + SKIPPED } else { self.floor.max(known) + 1 }
    }

    pub(super) fn decided(&mut self, now: Time, question: u64, counts: &CircuitCounts) {
        if !matches!(&self.phase, Phase::Deciding { question: number, .. } if *number == question) {
            return;
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        let Phase::Deciding { asked, masked, since, .. } = phase else { return };
        if masked != self.masked(&self.standing) && !self.bug.is(Planted::IgnoresNewFaults) {
            self.replan = true; // candidates have changed meanwhile
            return;
        }
        let usable = masked.usable();
        let fits = counts.servers() == usable.len()
            && usable.iter().enumerate().all(|(server, &ports)| counts.degree(server) <= ports);
        let on = self.region.switch_of_port();
        let numa = self.region.numa_of_port();
        let target = fits.then(|| assign_over(counts, &masked, numa, &on));
        let lawless = self.bug.is(Planted::AllowsIllegalCircuits);
        let target = target.filter(|target| lawless || self.region.legal(target).is_ok());
        self.set_alarm(now, Alarm::DecisionRefused, target.is_none());
        let set = target.as_ref().map_or(0, |target| target.circuits().count() as u64);
        let wanted = target.as_ref().map_or(0, |_| u64::from(counts.total()));
        self.counters.left_out += wanted.saturating_sub(set);
        // Circuits of ports that are out of use go all the same.
        let target = target.unwrap_or(masked);
        if self.is_seeing() {
            self.begin(now, target, asked, since);
        } else {
            self.replan = true;
        }
    }

    /// Sets out for these circuits, which were asked for at `since`.
    pub(super) fn begin(&mut self, now: Time, target: PortMap, asked: Vec<u64>, since: Time) {
        let known = self.memory.generation > 0 && !self.memory.is_lost();
        let current = self.is_noted() && !self.is_behind() && known;
        let target = self.spare(target);
        let changes = self.changes(&target);
        if current && !changes.contains(&true) {
            self.accept(&self.switches(Site::is_known));
            self.answered(&asked);
            self.phase = Phase::Idle;
            return self.tell_all();
        }
        let decided = now.saturating_sub(since);
        let log = Reconfiguration { began: now, decided, ..Reconfiguration::default() };
        self.set_out(now, target, &changes, asked, log);
    }

    /// Sets out, though nothing may have to be changed. `log` says how often it has been tried.
    fn set_out(
        &mut self,
        now: Time,
        target: PortMap,
        changes: &[bool],
        asked: Vec<u64>,
        mut log: Reconfiguration,
    ) {
        let mut kept = self.standing.clone();
        let mut concerned: Vec<u16> = Vec::new();
        for (port, _) in self.region.ports().zip(changes).filter(|(_, changes)| **changes) {
            kept.disconnect(port);
            concerned.push(port.0);
        }
        concerned.dedup();
        let switches = self.concerned(changes);
        if switches.is_empty() {
            // None is known any more.
            (self.phase, self.replan) = (Phase::Idle, true);
            return;
        }
        let of_them =
            |port: PortId| concerned.binary_search(&port.0).is_ok() && peer(&kept, port).is_none();
        let quiet = self.region.ports().map(of_them).collect();
        let generation = self.next_generation();
        let circuits: Vec<_> = target.circuits().collect();
        let rounds = self.latest(&asked);
        (log.generation, log.rounds) = (generation, rounds.clone());
        log.changed_ports = changes.iter().filter(|&&changes| changes).count() as u32;
        log.circuits = circuits.len() as u32;
        self.journal(Record::Planned { generation, rounds, circuits });
        let lease = self.settings.lease;
        // Servers may let go no faster than this: each plan that is given up for it gives the next one more time.
        let share = Time::from_ps(lease.ps() / (SHARE >> self.given_up.min(SHARE.ilog2())));
        let (drain_by, share_by) = (now + lease, now + share);
        let overdue = false;
        let plan = Plan {
            generation,
            asked,
            target,
            kept,
            switches,
            concerned,
            quiet,
            drain_by,
            share_by,
            overdue,
            log,
        };
        self.phase = Phase::Draining { plan };
        self.tell_all();
        self.drain(now);
    }

    /// By port: its circuit changes, or a switch is to touch it for one that does. Agents may use
    /// circuits there that were withdrawn, if they have not heard of it.
    fn changes(&self, target: &PortMap) -> Vec<bool> {
        let differs = |port| peer(&self.standing, port) != peer(target, port);
        let mut changes: Vec<bool> = self.region.ports().map(differs).collect();
        for switch in self.switches(Site::is_known) {
            let (end, set) = self.to_do(switch, target);
            for (server, port) in self.ends(switch, end.iter().chain(&set)) {
                changes[usize::from(server) * self.region.degree() + usize::from(port)] = true;
            }
        }
        changes
    }

    /// Switches with ports that change, or all that are known if none does: then all is read.
    fn concerned(&self, changes: &[bool]) -> Vec<usize> {
        let changing = self.region.ports().zip(changes).filter(|(_, changes)| **changes);
        let mut switches: Vec<usize> = changing.map(|(port, _)| self.switch_of(port)).collect();
        switches.sort_unstable();
        switches.dedup();
        if switches.is_empty() { self.switches(Site::is_known) } else { switches }
    }

    /// Patches of a switch to end and to set.
    fn to_do(&self, switch: usize, target: &PortMap) -> (Vec<Patch>, Vec<Patch>) {
        let wanted = self.region.patches(switch, target);
        if wanted == self.sites[switch].actual {
            return (Vec::new(), Vec::new()); // as most often, when it is read back
        }
        (self.to_end(switch, &wanted), without(&wanted, &self.sites[switch].actual))
    }

    /// What there is to do for a plan, by switch, where there is something.
    fn all_to_do(&self, plan: &Plan) -> Vec<(usize, Vec<Patch>, Vec<Patch>)> {
        let to_do = plan.switches.iter().map(|&switch| {
            let (end, set) = self.to_do(switch, &plan.target);
            (switch, end, set)
        });
        to_do.filter(|(_, end, set)| !(end.is_empty() && set.is_empty())).collect()
    }

    /// The ports of the region that these patches of a switch join, some more than once.
    fn ends<'a>(
        &'a self,
        switch: usize,
        patches: impl Iterator<Item = &'a Patch>,
    ) -> impl Iterator<Item = PortId> {
        let far =
            move |patch: &Patch| patch.egress.saturating_sub(self.region.switch_ports(switch));
        let both = move |patch: &Patch| {
            [patch.ingress, far(patch)].map(|end| self.region.port_at(switch, end))
        };
        patches.flat_map(both).flatten()
    }

    /// Goes on to the switch once every agent concerned holds, or has stopped for want of a lease.
    pub(super) fn drain(&mut self, now: Time) {
        let Phase::Draining { plan } = &self.phase else { return };
        if self.floor > plan.generation {
            // An agent has obeyed what a lost journal said: the number of this plan says nothing.
            return self.give_up(now);
        }
        let hold = Mark { generation: plan.generation, stage: Stage::Hold };
        let using = |&&server: &&u16| {
            let agent = &self.agents[usize::from(server)];
            let gone = agent.gone && self.bug.is(Planted::TakesEndOfStreamForDeath);
            agent.present && agent.obeyed < hold && !gone
        };
        if !plan.concerned.iter().any(|server| using(&server))
            || self.bug.is(Planted::SkipsDraining)
        {
            let phase = std::mem::replace(&mut self.phase, Phase::Idle);
            let Phase::Draining { mut plan } = phase else { return };
            self.let_go(&plan.concerned);
            plan.log.drained = now.saturating_sub(plan.log.began);
            return self.patch(now, plan);
        }
        let by = plan.drain_by;
        if !plan.overdue && now < plan.share_by.min(by) {
            return; // as most often
        }
        let waiting: Vec<u16> = plan.concerned.iter().filter(using).copied().collect();
        if !self.defer(now, &waiting) && now >= by {
            self.exclude(now, &waiting);
        }
    }

    /// These agents have not let go in time. One that reports all the same is not spoken to, so that its
    /// lease ends; of one that says nothing the lease ends anyway, unless it speaks again.
    pub(super) fn exclude(&mut self, now: Time, waiting: &[u16]) {
        let half = Time::from_ps(self.settings.lease.ps() / 2);
        let mut quiet = false;
        for &server in waiting {
            let agent = &mut self.agents[usize::from(server)];
            let Some(heard) = agent.heard.filter(|_| agent.excluded_until.is_none()) else {
                continue;
            };
            if now >= heard + half {
                quiet = true;
                continue;
            }
            agent.excluded_until = Some(now + self.settings.retry);
            self.raise(now, Alarm::DrainStuck { server });
        }
        if let Phase::Draining { plan } = &mut self.phase {
            plan.drain_by = if quiet { now + half } else { Time::MAX };
        }
    }

    /// Tells switches what differs from what was read last.
    fn patch(&mut self, now: Time, mut plan: Plan) {
        let to_do = self.all_to_do(&plan);
        let quiet = |(server, port): PortId| {
            plan.quiet[usize::from(server) * self.region.degree() + usize::from(port)]
        };
        let is_loud = |(switch, end, set): &(usize, Vec<Patch>, Vec<Patch>)| {
            !self.ends(*switch, end.iter().chain(set)).all(quiet)
        };
        let deaf = self.bug.is(Planted::SkipsDraining) || self.bug.is(Planted::TouchesKeptCircuits);
        if to_do.iter().any(is_loud) && !deaf {
            // What was read since is another state than the one that the plan was made for, and ports may have failed.
            let target = self.spare(self.sound(plan.target));
            let changes = self.changes(&target);
            return self.set_out(now, target, &changes, plan.asked, plan.log);
        }
        plan.log.attempts += 1;
        if to_do.is_empty() {
            return self.verify(now, plan);
        }
        let switches = to_do.iter().map(|&(switch, ..)| switch as u16).collect();
        let switches = if self.sites.len() > 1 { switches } else { Vec::new() };
        self.journal(Record::Patching { generation: plan.generation, switches });
        let mut orders = Vec::new();
        for (switch, end, set) in to_do {
            plan.log.patches += (end.len() + set.len()) as u32;
            self.counters.patches += (end.len() + set.len()) as u64;
            if !self.bug.is(Planted::ForgetsWhatItMade) {
                self.sites[switch].ordered(&set);
            }
            orders.push((switch, self.order(switch, Order::Apply { end, set })));
        }
        if self.bug.is(Planted::OrdersBeforeItsRecord) {
            let last = self.outputs.len() - 1;
            self.outputs.swap(last - 1, last);
        }
        let waits = Waits { orders, deadline: now + self.settings.patience };
        self.phase = Phase::Patching { plan, waits };
    }

    /// Those circuits of which both ports are candidates.
    fn sound(&self, mut target: PortMap) -> PortMap {
        for (port, _) in self.region.ports().zip(&self.blocked).filter(|(_, blocked)| **blocked) {
            target.disconnect(port);
        }
        target
    }

    /// What stands on a switch between ports of this region, but for those that do not follow anyway, and is not wanted.
    fn to_end(&self, switch: usize, wanted: &[Patch]) -> Vec<Patch> {
        let ours = |switch_port: u16| {
            let port = self.region.port_at(switch, switch_port);
            port.is_some_and(|port| !self.stuck.contains(&port))
        };
        let far = |patch: &Patch| patch.egress.saturating_sub(self.region.switch_ports(switch));
        let careless = self.bug.is(Planted::EndsForeignPatches);
        let mut end = without(&self.sites[switch].actual, wanted);
        end.retain(|patch| match (ours(patch.ingress), ours(far(patch))) {
            (true, true) => true,
            (one, other) => careless && (one || other),
        });
        end
    }

    /// Whether patches stand that make none of the circuits that are known.
    pub(super) fn untidy(&self) -> bool {
        let untidy = |&switch: &usize| {
            let wanted = self.region.patches(switch, &self.standing);
            !self.to_end(switch, &wanted).is_empty()
        };
        self.switches(Site::is_known).iter().any(untidy)
    }

    fn verify(&mut self, now: Time, plan: Plan) {
        let waits = self.read_all(now, &plan.switches);
        self.phase = Phase::Verifying { plan, waits, found: Vec::new() };
    }

    /// Every switch says that it is done, or that it is not: either way it is read.
    pub(super) fn patched(&mut self, now: Time, mut plan: Plan) {
        plan.log.patched = now.saturating_sub(plan.log.began);
        if self.bug.is(Planted::SkipsVerification) {
            for &switch in &plan.switches {
                self.sites[switch].actual = self.region.patches(switch, &plan.target);
            }
            return self.resume(now, plan);
        }
        self.verify(now, plan);
    }

    /// What stands was read back.
    pub(super) fn verified(&mut self, now: Time, mut plan: Plan, found: Vec<Found>) {
        for (switch, patches) in found {
            self.sites[switch].actual = patches;
        }
        let kept = self.observed(&plan.kept, &plan.switches);
        self.see_changes(now, plan.log.began, (&plan.kept, &kept), &plan.switches);
        (self.standing, plan.kept) = (self.observed(&self.standing, &plan.switches), kept);
        let foreign = self.see_foreign(now, &plan.switches);
        self.foreign.iter().for_each(|&port| plan.target.disconnect(port));
        let to_do = self.all_to_do(&plan);
        if to_do.is_empty() {
            self.accept(&plan.switches);
            return self.resume(now, plan);
        }
        self.counters.retries += 1;
        if plan.log.attempts < self.settings.attempts || foreign {
            return self.patch(now, plan);
        }
        if self.stuck.is_empty() {
            self.retry_at = now + self.settings.retry;
        }
        for (switch, end, set) in to_do {
            // What cannot be ended may be why others cannot be set.
            let culprits = if end.is_empty() { set } else { end };
            let culprits: BTreeSet<PortId> = self.ends(switch, culprits.iter()).collect();
            for port in culprits {
                plan.target.disconnect(port);
                self.stuck.insert(port);
                self.raise(now, Alarm::PortStuck { port });
            }
        }
        self.journal_stuck();
        self.mask(now);
        self.patch(now, plan);
    }

    /// Of what these switches refused, nothing is left.
    fn accept(&mut self, switches: &[usize]) {
        for &switch in switches {
            self.clear(&Alarm::SwitchRefuses { switch: switch as u16 });
        }
    }

    /// These circuits stand: agents may use them.
    fn resume(&mut self, now: Time, mut plan: Plan) {
        let generation = plan.generation;
        self.standing = plan.target;
        self.given_up = 0;
        let rounds = self.latest(&plan.asked);
        self.answered(&plan.asked);
        let circuits: Vec<_> = self.standing.circuits().collect();
        plan.log.verified = now.saturating_sub(plan.log.began);
        plan.log.circuits = circuits.len() as u32;
        let unread = self.unread();
        self.journal(Record::Verified { generation, rounds, circuits, unread });
        let early = self.bug.is(Planted::ResumesBeforeItsRecord);
        let record = if early { self.outputs.pop_back() } else { None };
        self.counters.plans += 1;
        if let Some(log) = self.unconfirmed.replace(plan.log) {
            self.outputs.push_back(Output::Event(ControllerEvent::Reconfigured(log)));
        }
        // Other switches than the plan's were not read.
        if self.switches(Site::is_known).iter().all(|switch| plan.switches.contains(switch)) {
            self.next_audit = now + self.settings.audit;
        }
        self.phase = Phase::Idle;
        self.tell_all();
        self.outputs.extend(record);
        self.confirm(now);
    }

    /// Notes that every agent uses the circuits, once they do.
    pub(super) fn confirm(&mut self, now: Time) {
        let Some(log) = &self.unconfirmed else { return };
        let resume = Mark { generation: log.generation, stage: Stage::Resume };
        let missing = |agent: &AgentRecord| {
            agent.present
                && agent.heard.is_some()
                && agent.excluded_until.is_none()
                && agent.obeyed < resume
        };
        if self.agents.iter().any(missing) {
            return;
        }
        if let Some(mut log) = self.unconfirmed.take() {
            log.confirmed = Some(now.saturating_sub(log.began));
            self.journal(Record::Confirmed { generation: log.generation });
            self.outputs.push_back(Output::Event(ControllerEvent::Reconfigured(log)));
        }
    }

    /// Ends a plan that has not touched the switch. Agents that hold for it go on with what stands.
    pub(super) fn give_up(&mut self, now: Time) {
        self.phase = Phase::Idle;
        self.reissue(now);
    }

    /// The circuits that stand, once more under a number that is later than any that agents know.
    fn reissue(&mut self, now: Time) {
        self.replan = true;
        // Not to be noted as verified: what was sent to these switches may yet be carried out.
        let mut late = self.switches(|site| now < site.quarantine);
        if late.len() < self.sites.len() {
            late.retain(|&switch| self.stands_on(&[switch]));
        }
        if !late.is_empty() && !self.bug.is(Planted::NotesInQuarantine) {
            return self.withdraw(now, &late, "a change may still be under way");
        }
        let generation = self.next_generation();
        let circuits = self.standing.circuits().collect();
        self.unconfirmed = None;
        let (rounds, unread) = (self.rounds.clone(), self.unread());
        self.journal(Record::Verified { generation, rounds, circuits, unread });
        self.tell_all();
    }
}

fn peer(map: &PortMap, (server, port): PortId) -> Option<PortId> {
    map.peer(usize::from(server), usize::from(port))
}

/// Those of `patches`, in rising order, that are not among `others`, in rising order.
pub(super) fn without(patches: &[Patch], others: &[Patch]) -> Vec<Patch> {
    let (mut alone, mut at) = (Vec::new(), 0);
    for patch in patches {
        while at < others.len() && others[at] < *patch {
            at += 1;
        }
        if others.get(at) != Some(patch) {
            alone.push(*patch);
        }
    }
    alone
}
