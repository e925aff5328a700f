//! One plan: decide, drain, patch, verify, resume.

use super::{Controller, Event, Output, Phase, Question, Reconfiguration};
use crate::alarm::Alarm;
use crate::driver::{Answer, Order, Patch};
use crate::journal::Record;
use crate::message::{Mark, PortId, Stage};
use crate::planted::Planted;
use lightloom_schedule::mixnet::{CircuitCounts, PortMap, assign};
use lightloom_units::Time;
use std::collections::BTreeSet;

/// Circuits on their way.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub generation: u64,
    pub rounds: Vec<u64>,
    pub target: PortMap,
    /// Servers of which a port changes, in rising order.
    pub concerned: Vec<u16>,
    /// Agents that have not let go by then are shunned.
    pub drain_by: Time,
    pub attempts: u32,
    pub log: Reconfiguration,
}

impl Controller {
    /// Begins what there is to do next.
    pub(super) fn next(&mut self, now: Time) {
        if self.mute_until.is_none() && !(self.up && !self.must_read) {
            // Nothing can be changed: what waits for circuits shall not wait longer.
            let unfinished = self.memory.generation != self.memory.verified_generation;
            if unfinished || self.floor > self.memory.generation {
                self.reissue();
            }
            if let Some(rounds) = self.due(now) {
                self.rounds = rounds;
                self.tell_all();
            }
        }
        if !self.up {
            return;
        }
        if self.must_read {
            if now >= self.quarantine {
                self.read(now);
            }
            return;
        }
        let (due, even) = (self.due(now), self.wants_even());
        let behind = self.floor > self.memory.generation
            || self.memory.generation != self.memory.verified_generation;
        if due.is_some() || self.replan || behind || (even && !self.counters.began_even) {
            self.counters.began_even |= even;
            self.replan = false;
            let rounds = due.unwrap_or_else(|| self.rounds.clone());
            let masked = self.masked(&self.standing);
            self.last_question += 1;
            let (number, demand) = (self.last_question, self.demand());
            let question = Question { number, demand, standing: masked.clone() };
            self.counters.decisions += 1;
            self.outputs.push_back(Output::Decide(question));
            self.phase = Phase::Deciding { question: number, rounds, masked };
        } else if now >= self.next_audit {
            self.read(now);
        }
    }

    pub(super) fn decided(&mut self, now: Time, question: u64, counts: &CircuitCounts) {
        let Phase::Deciding { question: asked, rounds, masked } = &self.phase else { return };
        if *asked != question {
            return;
        }
        let (rounds, masked) = (rounds.clone(), masked.clone());
        self.phase = Phase::Idle;
        if masked != self.masked(&self.standing) {
            self.replan = true; // candidates have changed meanwhile
            return;
        }
        let usable = masked.usable();
        let fits = counts.servers() == usable.len()
            && usable.iter().enumerate().all(|(server, &ports)| counts.degree(server) <= ports);
        let target = fits.then(|| assign(counts, &masked, self.region.numa_of_port()));
        let target = target.filter(|target| self.region.legal(target).is_ok());
        self.mends(now, Alarm::DecisionRefused, target.is_none());
        // Circuits of ports that are out of use go all the same.
        let target = target.unwrap_or(masked);
        if self.up && !self.must_read {
            self.begin(now, target, rounds);
        }
    }

    /// Sets out for these circuits.
    pub(super) fn begin(&mut self, now: Time, target: PortMap, rounds: Vec<u64>) {
        let changed: Vec<PortId> =
            self.region.ports().filter(|&port| self.differ(port, &target)).collect();
        let current = self.memory.generation == self.memory.verified_generation
            && self.floor <= self.memory.generation;
        if changed.is_empty() && current && !self.untidy() && self.memory.generation > 0 {
            self.rounds = later(&self.rounds, &rounds);
            self.phase = Phase::Idle;
            return self.tell_all();
        }
        let generation = self.memory.generation.max(self.floor) + 1;
        let circuits: Vec<_> = target.circuits().collect();
        let concerned: BTreeSet<u16> = changed.iter().map(|port| port.0).collect();
        let log = Reconfiguration {
            generation,
            rounds: rounds.clone(),
            began: now,
            changed_ports: changed.len() as u32,
            circuits: circuits.len() as u32,
            ..Reconfiguration::default()
        };
        self.journal(Record::Planned { generation, rounds: rounds.clone(), circuits });
        let plan = Plan {
            generation,
            rounds,
            target,
            concerned: concerned.into_iter().collect(),
            drain_by: now + self.settings.lease,
            attempts: 0,
            log,
        };
        self.phase = Phase::Draining { plan };
        self.tell_all();
        self.drain(now);
    }

    fn differ(&self, (server, port): PortId, target: &PortMap) -> bool {
        let (server, port) = (usize::from(server), usize::from(port));
        self.standing.peer(server, port) != target.peer(server, port)
    }

    /// Goes on to the switch once every agent concerned holds, or has stopped for want of a lease.
    pub(super) fn drain(&mut self, now: Time) {
        let Phase::Draining { plan } = &self.phase else { return };
        let hold = Mark { generation: plan.generation, stage: Stage::Hold };
        let using = |&&server: &&u16| {
            let seat = &self.seats[usize::from(server)];
            seat.present && seat.obeyed < hold
        };
        let waiting: Vec<u16> = plan.concerned.iter().filter(using).copied().collect();
        if waiting.is_empty() || self.planted == Some(Planted::SkipsDraining) {
            let mut plan = plan.clone();
            plan.log.drained = now.saturating_sub(plan.log.began);
            return self.patch(now, plan);
        }
        if now >= plan.drain_by {
            for server in waiting {
                let until = now + self.settings.retry;
                let seat = &mut self.seats[usize::from(server)];
                if seat.shunned.is_none() && seat.heard.is_some() {
                    seat.shunned = Some(until);
                    self.raise(now, Alarm::DrainStuck { server });
                }
            }
            if let Phase::Draining { plan } = &mut self.phase {
                plan.drain_by = Time::MAX;
            }
        }
    }

    /// Tells the switch what differs from what was read last.
    fn patch(&mut self, now: Time, mut plan: Plan) {
        let wanted = self.region.patches(&plan.target);
        let end = without(&self.endable(), &wanted);
        let set = without(&wanted, &self.actual);
        plan.attempts += 1;
        if end.is_empty() && set.is_empty() {
            return self.verify(now, plan);
        }
        plan.log.patches += (end.len() + set.len()) as u32;
        self.journal(Record::Patching { generation: plan.generation });
        self.counters.patches += (end.len() + set.len()) as u64;
        let order = self.order(Order::Apply { end, set });
        self.phase = Phase::Patching { plan, order, deadline: now + self.settings.patience };
    }

    /// What stands between ports of this region, but for those that do not follow anyway.
    fn endable(&self) -> Vec<Patch> {
        let ours = |switch_port: u16| {
            let port = self.region.port_at(switch_port);
            port.is_some_and(|port| !self.stuck.contains_key(&port))
        };
        let far = |patch: &Patch| patch.egress.saturating_sub(self.region.switch_ports());
        let both = |patch: &&Patch| ours(patch.ingress) && ours(far(patch));
        self.actual.iter().filter(both).copied().collect()
    }

    /// Whether patches stand that make none of the circuits that are known.
    pub(super) fn untidy(&self) -> bool {
        !without(&self.endable(), &self.region.patches(&self.standing)).is_empty()
    }

    fn verify(&mut self, now: Time, plan: Plan) {
        let order = self.order(Order::Read);
        self.phase = Phase::Verifying { plan, order, deadline: now + self.settings.patience };
    }

    /// The switch says that it is done, or that it is not: either way it is read.
    pub(super) fn patched(&mut self, now: Time, mut plan: Plan, answer: Answer) {
        plan.log.patched = now.saturating_sub(plan.log.began);
        self.mends(now, Alarm::SwitchRefuses, matches!(answer, Answer::Refused(_)));
        if let Answer::Refused(words) = answer {
            self.note(format!("the switch refuses plan {}: {words}", plan.generation));
        }
        if self.planted == Some(Planted::SkipsVerification) {
            self.actual = self.region.patches(&plan.target);
            let target = plan.target.clone();
            return self.resume(now, plan, target);
        }
        self.verify(now, plan);
    }

    /// What stands was read back.
    pub(super) fn verified(&mut self, now: Time, plan: Plan, patches: Vec<Patch>) {
        self.actual = patches;
        let foreign = self.see_foreign(now);
        let wanted = self.region.patches(&plan.target);
        let endable = self.endable();
        let mut wrong: BTreeSet<PortId> = BTreeSet::new();
        for patch in without(&endable, &wanted).into_iter().chain(without(&wanted, &self.actual)) {
            let far = patch.egress - self.region.switch_ports();
            wrong.extend(self.region.port_at(patch.ingress));
            wrong.extend(self.region.port_at(far));
        }
        if wrong.is_empty() {
            let target = plan.target.clone();
            return self.resume(now, plan, target);
        }
        if plan.attempts < self.settings.attempts && !foreign {
            self.counters.retries += 1;
            return self.patch(now, plan);
        }
        let mut target = plan.target.clone();
        for &port in &wrong {
            target.disconnect(port);
            if !self.foreign.contains(&port) {
                self.stuck.insert(port, now + self.settings.retry);
                self.raise(now, Alarm::PortStuck { port });
            }
        }
        self.journal_stuck();
        self.mask(now);
        self.resume(now, plan, target);
    }

    /// These circuits stand: agents may use them.
    fn resume(&mut self, now: Time, mut plan: Plan, circuits: PortMap) {
        let generation = plan.generation;
        self.standing = circuits;
        self.rounds = later(&self.rounds, &plan.rounds);
        let circuits: Vec<_> = self.standing.circuits().collect();
        plan.log.verified = now.saturating_sub(plan.log.began);
        plan.log.circuits = circuits.len() as u32;
        plan.log.attempts = plan.attempts;
        let rounds = self.rounds.clone();
        self.journal(Record::Verified { generation, rounds, circuits });
        self.counters.plans += 1;
        if let Some(log) = self.unconfirmed.replace(plan.log) {
            self.outputs.push_back(Output::Event(Event::Reconfigured(log)));
        }
        self.next_audit = now + self.settings.audit;
        self.phase = Phase::Idle;
        self.tell_all();
        self.confirm(now);
    }

    /// Notes that every agent uses the circuits, once they do.
    pub(super) fn confirm(&mut self, now: Time) {
        let Some(log) = &self.unconfirmed else { return };
        let resume = Mark { generation: log.generation, stage: Stage::Resume };
        let missing = |seat: &super::Seat| {
            seat.present && seat.heard.is_some() && seat.shunned.is_none() && seat.obeyed < resume
        };
        if self.seats.iter().any(missing) {
            return;
        }
        if let Some(mut log) = self.unconfirmed.take() {
            log.confirmed = Some(now.saturating_sub(log.began));
            self.journal(Record::Confirmed { generation: log.generation });
            self.outputs.push_back(Output::Event(Event::Reconfigured(log)));
        }
    }

    /// The circuits that stand, once more under a number that is later than any that agents know.
    fn reissue(&mut self) {
        let generation = self.memory.generation.max(self.floor) + 1;
        let circuits = self.standing.circuits().collect();
        self.unconfirmed = None;
        let touched = self.memory.touched;
        self.journal(Record::Verified { generation, rounds: self.rounds.clone(), circuits });
        if touched {
            self.journal(Record::Patching { generation }); // as before: nothing was read
        }
        self.tell_all();
    }
}

/// Those of `patches`, in rising order, that are not among `others`, in rising order.
fn without(patches: &[Patch], others: &[Patch]) -> Vec<Patch> {
    patches.iter().filter(|patch| others.binary_search(patch).is_err()).copied().collect()
}

fn later(a: &[u64], b: &[u64]) -> Vec<u64> {
    a.iter().zip(b).map(|(&a, &b)| a.max(b)).collect()
}
