//! The controller's end of its switches: when they are read, believed, and given up.

use super::io::{ControllerEvent, Output};
use super::machine::Controller;
use super::phase::{Found, Phase};
use super::site::Site;
use crate::alarm::Alarm;
use crate::driver::{Answer, Patch};
use crate::journal::{Doubt, Record};
use crate::message::PortId;
use crate::planted::Planted;
use lightloom_circuits::PortMap;
use lightloom_units::Time;
use std::collections::BTreeSet;

impl Controller {
    pub(super) fn switch_up(&mut self, now: Time, switch: usize, device: String, ports: u16) {
        let Some(site) = self.sites.get_mut(switch) else { return };
        let expected = self.region.switch_ports(switch);
        if ports != expected {
            self.note(format!("{device} has {ports} ports, and the region says {expected}"));
            self.raise(now, Alarm::SwitchUntrusted { switch: switch as u16 });
            self.outputs.push_back(Output::Reconnect { switch });
            return;
        }
        site.up = true;
        site.device = Some(device);
        site.forget();
        self.clear(&Alarm::SwitchUnreachable { switch: switch as u16 });
    }

    pub(super) fn switch_down(&mut self, now: Time, switch: usize, why: &str) {
        let Some(site) = self.sites.get_mut(switch) else { return };
        let was_up = site.up;
        site.leave();
        if std::mem::take(&mut site.changing) {
            site.quarantine = now + self.settings.lifetime;
        }
        if was_up {
            self.note(format!("the switch is gone: {why}"));
        }
        self.raise(now, Alarm::SwitchUnreachable { switch: switch as u16 });
        match &self.phase {
            Phase::Patching { plan, .. } | Phase::Verifying { plan, .. } => {
                if self.bug.is(Planted::GoesOnAfterABreak) {
                    self.phase = Phase::Idle;
                } else if plan.switches.contains(&switch) {
                    let why = format!("the switch went away during a change: {why}");
                    self.withdraw(now, &[switch], &why);
                }
            }
            // Nobody has touched it.
            Phase::Draining { plan } if !plan.switches.contains(&switch) => {}
            Phase::Reading { waits, .. } if waits.orders.iter().all(|&(at, _)| at != switch) => {}
            Phase::Reading { .. } => (self.phase, self.next_audit) = (Phase::Idle, now),
            _ => self.phase = Phase::Idle,
        }
        self.replan = true;
    }

    pub(super) fn answer(&mut self, now: Time, id: u64, answer: Answer) {
        // This process may have been stopped since, and the switch have changed.
        self.mind_deadlines(now);
        let answer = match answer {
            Answer::State(patches) => Answer::State(sorted(patches)),
            answer => answer,
        };
        let asked = self.asked(now, id);
        let reads = |site: &Site| site.reading.is_some_and(|(order, _)| order == id);
        if let Some(&switch) = self.switches(reads).first() {
            self.sites[switch].reading = None;
            if let Some(patches) = self.state(now, switch, answer) {
                self.found(now, switch, patches);
            }
            return;
        }
        let Some(switch) = self.phase.waits().and_then(|waits| waits.take(id)) else {
            return self.overtaken(now, asked, answer);
        };
        if matches!(self.phase, Phase::Patching { .. }) {
            match answer {
                Answer::State(_) => {
                    return self.distrust(now, switch, "it reads where it was to patch");
                }
                Answer::Fenced(why) => return self.fenced(now, &why),
                Answer::Refused(words) => self.refused(now, switch, &words),
                Answer::Done => {}
            }
        } else if let Some(patches) = self.state(now, switch, answer) {
            self.read(now, switch, patches);
        } else {
            return;
        }
        self.all_answered(now);
    }

    /// The switch that was to be read with this order, if it answers in time.
    fn asked(&mut self, now: Time, id: u64) -> Option<usize> {
        let mut by = self.sites.iter_mut().map(|site| site.asked.remove(&id));
        by.position(|by| by.is_some_and(|by| now < by))
    }

    /// A reading was given up, and is answered: until the switch is read anew, what is gone is not used.
    fn overtaken(&mut self, now: Time, asked: Option<usize>, answer: Answer) {
        let Some(switch) = asked else { return };
        let Some(patches) = self.state(now, switch, answer) else { return };
        if self.heed(now, switch, &patches) && self.are_gone(switch, &patches) {
            let left = self.among(&self.standing, switch, &patches);
            self.see_changes(now, now, (&self.standing.clone(), &left), &[switch]);
            (self.standing, self.next_audit) = (left, now);
        }
    }

    /// A switch of several was read, for a plan or an audit: circuits that are gone are not used while the others
    /// are waited for.
    fn read(&mut self, now: Time, switch: usize, patches: Vec<Patch>) {
        self.see_rival(now, switch, &patches);
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Verifying { mut plan, waits, mut found } => {
                if !waits.orders.is_empty() {
                    let kept = self.among(&plan.kept, switch, &patches);
                    self.see_changes(now, plan.log.began, (&plan.kept, &kept), &[switch]);
                    self.standing = self.among(&self.standing, switch, &patches);
                    plan.kept = kept;
                }
                found.push((switch, patches));
                self.phase = Phase::Verifying { plan, waits, found };
            }
            Phase::Reading { waits, mut found } => {
                if !waits.orders.is_empty() {
                    let standing = self.among(&self.standing, switch, &patches);
                    let began = waits.deadline - self.settings.patience;
                    self.see_changes(now, began, (&self.standing.clone(), &standing), &[switch]);
                    self.standing = standing;
                }
                found.push((switch, patches));
                self.phase = Phase::Reading { waits, found };
            }
            phase => self.phase = phase,
        }
    }

    /// Those circuits of a map that are on other switches than these, or that stood when these were read last.
    pub(super) fn observed(&self, map: &PortMap, switches: &[usize]) -> PortMap {
        let read = |at: usize| switches.contains(&at).then(|| self.sites[at].actual.as_slice());
        self.remaining(map, read)
    }

    /// Those circuits of a map that are on other switches than this, or stand if it holds these patches.
    fn among(&self, map: &PortMap, switch: usize, patches: &[Patch]) -> PortMap {
        self.remaining(map, |at| (at == switch).then_some(patches))
    }

    /// Those circuits of a map of which both patches are among those that their switch holds. `held`: by switch, in
    /// rising order; a switch of which that is not known leaves its circuits.
    fn remaining<'a>(&self, map: &PortMap, held: impl Fn(usize) -> Option<&'a [Patch]>) -> PortMap {
        let mut left = map.clone();
        let bug = self.bug.is(Planted::TakesHalfForWhole);
        // By switch that is known, and ingress: its egress, or none.
        let leaves = |switch: usize| {
            let held = held(switch)?;
            let mut leaves = vec![0; usize::from(self.region.switch_ports(switch)) + 1];
            held.iter().for_each(|it| leaves[usize::from(it.ingress)] = it.egress);
            Some(leaves)
        };
        let leaves: Vec<Option<Vec<u16>>> = (0..self.sites.len()).map(leaves).collect();
        for (a, b) in map.circuits() {
            let [at, to] = [a, b].map(|port| self.region.switch_port(port));
            let switch = usize::from(at.switch);
            let Some(leaves) = &leaves[switch] else { continue };
            let pair = Patch::pair(self.region.switch_ports(switch), at.port, to.port);
            let there = |it: &Patch| leaves.get(usize::from(it.ingress)) == Some(&it.egress);
            if !(pair.iter().all(there) || bug && pair.iter().any(there)) {
                left.disconnect(a);
            }
        }
        left
    }

    /// Whether circuits that agents may use are not among these patches.
    fn are_gone(&self, switch: usize, patches: &[Patch]) -> bool {
        self.among(&self.standing, switch, patches).circuits().ne(self.standing.circuits())
    }

    /// A switch was read that was out of sight. If a plan of others is under way, that goes on before, unless circuits
    /// are gone that agents may use.
    fn found(&mut self, now: Time, switch: usize, patches: Vec<Patch>) {
        if !self.heed(now, switch, &patches) {
            return;
        }
        match self.phase {
            Phase::Idle => self.seen(now, now, vec![(switch, patches)]),
            _ => self.sites[switch].found = Some(patches),
        }
    }

    /// Ends what is under way if circuits are gone that agents may use, or another controller was there. Says whether
    /// the switch is still to be believed.
    fn heed(&mut self, now: Time, switch: usize, patches: &[Patch]) -> bool {
        self.see_rival(now, switch, patches);
        let gone = self.are_gone(switch, patches);
        match self.phase {
            Phase::Patching { .. } | Phase::Verifying { .. } if gone => {
                self.withdraw(now, &[switch], "its circuits are gone");
                return false;
            }
            Phase::Reading { .. } if gone => (self.phase, self.next_audit) = (Phase::Idle, now),
            _ if gone => (self.phase, self.replan) = (Phase::Idle, true),
            _ => {}
        }
        true
    }

    /// Goes on if no order is to be answered any more.
    fn all_answered(&mut self, now: Time) {
        if self.phase.waits().is_none_or(|waits| !waits.orders.is_empty()) {
            return;
        }
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Patching { plan, .. } => self.patched(now, plan),
            Phase::Verifying { plan, found, .. } => self.verified(now, plan, found),
            Phase::Reading { waits, found } => {
                self.seen(now, waits.deadline - self.settings.patience, found);
            }
            phase => self.phase = phase,
        }
    }

    /// What a switch says that it holds; if it does not, or it cannot be, the switch is not trusted.
    fn state(&mut self, now: Time, switch: usize, answer: Answer) -> Option<Vec<Patch>> {
        match answer {
            Answer::State(patches) if self.possible(switch, &patches) => return Some(patches),
            Answer::State(_) => self.distrust(now, switch, "it says what cannot be"),
            _ => self.distrust(now, switch, "it refuses to be read"),
        }
        None
    }

    fn refused(&mut self, now: Time, switch: usize, words: &str) {
        self.raise(now, Alarm::SwitchRefuses { switch: switch as u16 });
        let generation = self.phase.plan().map_or(0, |plan| plan.generation);
        self.note(format!("the switch refuses plan {generation}: {words}"));
    }

    /// Gives up switches that have not answered in time.
    pub(super) fn mind_deadlines(&mut self, now: Time) {
        let mut late = self.phase.late(now);
        late.extend(self.switches(|site| site.reading.is_some_and(|(_, by)| now >= by)));
        for switch in late {
            self.distrust(now, switch, "it did not answer in time");
        }
    }

    /// Reads all switches that are known: from time to time.
    pub(super) fn audit(&mut self, now: Time) {
        let waits = self.read_all(now, &self.switches(Site::is_known));
        self.phase = Phase::Reading { waits, found: Vec::new() };
    }

    /// Reads switches that are not known: after they were out of sight.
    pub(super) fn read_unknown(&mut self, now: Time) {
        let due = |site: &Site| {
            let late = now < site.quarantine && !self.bug.is(Planted::SkipsQuarantine);
            site.up && site.must_read && site.reading.is_none() && !late
        };
        for switch in self.switches(due) {
            self.sites[switch].reading = Some(self.ask(now, switch));
        }
    }

    /// Whether a switch can be in this state: its own ports, none of them in two patches.
    fn possible(&self, switch: usize, patches: &[Patch]) -> bool {
        let n = self.region.switch_ports(switch);
        let mut taken = vec![false; 2 * usize::from(n) + 1];
        let mut free = |port: u16| !std::mem::replace(&mut taken[usize::from(port)], true);
        patches.iter().all(|patch| {
            let own = (1..=n).contains(&patch.ingress) && (n + 1..=2 * n).contains(&patch.egress);
            own && free(patch.ingress) && free(patch.egress)
        })
    }

    /// What stands, out of any plan, as was asked at `began`: it should be what was verified.
    pub(super) fn seen(&mut self, now: Time, began: Time, found: Vec<Found>) {
        self.counters.audits += 1;
        let switches: Vec<usize> = found.iter().map(|&(switch, _)| switch).collect();
        for (switch, patches) in found {
            let site = &mut self.sites[switch];
            // One that plans went on without is to be part of them.
            self.replan |= site.must_read && !site.awaited && self.region.switches() > 1;
            (site.actual, site.must_read, site.awaited) = (patches, false, false);
            site.changing = false;
            self.clear(&Alarm::SwitchUntrusted { switch: switch as u16 });
        }
        let first = self.unmute();
        self.see_foreign(now, &switches);
        if self.stopped {
            self.next_audit = now + self.settings.audit;
            return;
        }
        let blind = self.bug.is(Planted::TrustsItsMemory);
        let observed =
            if blind { self.standing.clone() } else { self.observed(&self.standing, &switches) };
        if !first && self.mute_until.is_none() {
            self.see_changes(now, began, (&self.standing.clone(), &observed), &switches);
        }
        self.standing = observed;
        let all = self.switches(Site::is_known).iter().all(|known| switches.contains(known));
        if self.mute_until.is_none() && (all || now < self.next_audit) {
            self.take_over(now, first, all);
        }
    }

    /// Takes over what was found, or tells agents that they may use what stands. `first`: nothing was known before.
    /// `all`: all switches were read.
    fn take_over(&mut self, now: Time, first: bool, all: bool) {
        let found = self.adoptable();
        if self.memory.doubt == Some(Doubt::New) && found.circuits().next().is_some() {
            self.lose(now, "there is none, and the switch holds circuits of this region".into());
            if !self.is_seeing() {
                return; // it is read once more when late orders have been carried out
            }
        }
        let noted = self.is_noted() && !self.memory.is_lost();
        let changed = !noted || found.circuits().ne(self.standing.circuits()) || self.untidy();
        // Before all agents are known no plan is begun: then it is read once more.
        let begins = changed && self.agents_known();
        if !begins && changed {
            self.next_audit = now;
        } else if all {
            self.next_audit = now + self.settings.audit;
        }
        if begins {
            self.replan = true;
            self.begin(now, found, self.no_rounds(), now);
        } else if first && !self.is_behind() {
            self.tell_all();
        }
    }

    /// Agents are answered from now on if every switch has been read, or given up. Says whether they were not before.
    fn unmute(&mut self) -> bool {
        let all = self.sites.iter().all(|site| !site.awaited);
        all && self.mute_until.take().is_some()
    }

    /// Raises the alarm that circuits of these switches do not stand any more, or ends it if it is older than `began`,
    /// when they were asked.
    pub(super) fn see_changes(
        &mut self,
        now: Time,
        began: Time,
        (before, after): (&PortMap, &PortMap),
        switches: &[usize],
    ) {
        for &switch in switches {
            let here = |(a, _): &(PortId, PortId)| self.switch_of(*a) == switch;
            let gone = before.circuits().filter(here).ne(after.circuits().filter(here));
            let alarm = Alarm::CircuitsChanged { switch: switch as u16 };
            let new = self.alarms.get(&alarm).is_some_and(|&since| since >= began);
            self.set_alarm(now, alarm, gone || new);
        }
    }

    /// The circuits that switches hold and the region may have; of those that are not known, what stands.
    fn adoptable(&self) -> PortMap {
        let known = self.switches(Site::is_known).into_iter();
        let circuits: Vec<_> =
            known.flat_map(|at| self.region.circuits(at, &self.sites[at].actual)).collect();
        let mut map = self.masked(&PortMap::dark(self.region.servers(), self.region.degree()));
        let free = |map: &PortMap, port: (u16, u16)| {
            !map.is_blocked(usize::from(port.0), usize::from(port.1))
        };
        for (a, b) in circuits {
            let tenants = (self.region.tenant(a.0), self.region.tenant(b.0));
            let one = tenants.0 == tenants.1 || self.bug.is(Planted::AdoptsAcrossTenants);
            if a.0 != b.0 && one && free(&map, a) && free(&map, b) {
                map.connect(a, b);
            }
        }
        let away = |(a, _): &(PortId, PortId)| !self.site_of(*a).is_known();
        for (a, b) in self.standing.circuits().filter(away) {
            map.unblock(usize::from(a.0), usize::from(a.1));
            map.unblock(usize::from(b.0), usize::from(b.1));
            map.connect(a, b);
        }
        map
    }

    /// Ports of these switches that are joined to some outside the region are no candidates. Says whether any is new.
    pub(super) fn see_foreign(&mut self, now: Time, switches: &[usize]) -> bool {
        let elsewhere = |port: &&PortId| !switches.contains(&self.switch_of(**port));
        let mut foreign: BTreeSet<PortId> =
            self.foreign.iter().filter(elsewhere).copied().collect();
        for &switch in switches {
            let ports = self.region.switch_ports(switch);
            for patch in &self.sites[switch].actual {
                let ends = [patch.ingress, patch.egress.saturating_sub(ports)];
                let ends = ends.map(|end| self.region.port_at(switch, end));
                if ends.iter().any(Option::is_none) {
                    foreign.extend(ends.into_iter().flatten());
                }
            }
        }
        let new = foreign.difference(&self.foreign).next().is_some();
        for &port in self.foreign.clone().difference(&foreign) {
            if !self.bug.is(Planted::KeepsAlarms) {
                self.clear(&Alarm::ForeignPatch { port });
            }
        }
        for &port in &foreign {
            self.raise(now, Alarm::ForeignPatch { port });
        }
        if foreign != self.foreign {
            self.foreign = foreign;
            self.mask(now);
        }
        new
    }

    /// Nothing that a switch says or holds is believed until it has been read anew.
    pub(super) fn distrust(&mut self, now: Time, switch: usize, why: &str) {
        self.raise(now, Alarm::SwitchUntrusted { switch: switch as u16 });
        self.outputs.push_back(Output::Reconnect { switch });
        self.sites[switch].leave();
        self.withdraw(now, &[switch], why);
    }

    /// Leaves what goes over these switches to packet switches.
    pub(super) fn withdraw(&mut self, now: Time, switches: &[usize], why: &str) {
        for &switch in switches {
            let site = &mut self.sites[switch];
            (site.awaited, site.quarantine) = (false, now + self.settings.lifetime);
            site.changing = false;
            if !self.stopped {
                self.raise(now, Alarm::SwitchUntrusted { switch: switch as u16 });
            }
        }
        if self.unmute() && self.is_seeing() {
            self.next_audit = now; // what others hold was not taken over yet
        }
        let plan = self.phase.plan();
        let concerned =
            plan.is_some_and(|plan| plan.switches.iter().any(|at| switches.contains(at)));
        let other = |at: &usize| !switches.contains(at);
        let others = !self.is_behind() && self.switches(Site::is_known).iter().any(other);
        if (plan.is_some() || others) && !concerned && !self.stands_on(switches) {
            // Nobody uses them. Others that are being read are not in doubt.
            if let Some(waits) = self.phase.waits() {
                waits.orders.retain(|(at, _)| !switches.contains(at));
                self.all_answered(now);
            }
            return;
        }
        self.abandon(switches);
        let generation = self.next_generation();
        let why = why.to_string();
        let circuits = self.standing.circuits().collect();
        self.journal(Record::Withdrawn { generation, why: why.clone(), circuits });
        let switches = switches.iter().map(|&switch| switch as u16).collect();
        let event = ControllerEvent::Withdrawn { switches, generation, why };
        self.outputs.push_back(Output::Event(event));
        self.counters.withdrawals += 1;
        self.unconfirmed = None;
        self.phase = Phase::Idle;
        self.replan = true;
        self.tell_all();
    }

    /// Ends what is under way, and what stands on these switches. Others that a plan has touched are read anew: what they
    /// were told is carried out before they answer.
    fn abandon(&mut self, switches: &[usize]) {
        let (plan, found) = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Patching { plan, waits } => {
                for (at, _) in waits.orders {
                    self.sites[at].changing = !switches.contains(&at);
                }
                (Some(plan), Vec::new())
            }
            Phase::Verifying { plan, found, .. } => (Some(plan), found),
            phase => {
                self.phase = phase;
                (None, Vec::new())
            }
        };
        if let Some(plan) = plan {
            let read: Vec<usize> = found.iter().map(|&(at, _)| at).collect();
            for (at, patches) in found {
                self.sites[at].actual = patches;
            }
            self.standing = self.observed(&plan.kept, &read);
            for at in plan.switches.into_iter().filter(|at| !switches.contains(at)) {
                self.sites[at].forget();
            }
        }
        if let Phase::Reading { .. } = &self.phase {
            self.next_audit = Time::ZERO;
        }
        let here = |(a, _): &(PortId, PortId)| switches.contains(&self.switch_of(*a));
        for (a, _) in self.standing.circuits().filter(here).collect::<Vec<_>>() {
            self.standing.disconnect(a);
        }
    }

    /// Whether agents may use circuits of these switches.
    pub(super) fn stands_on(&self, switches: &[usize]) -> bool {
        self.standing.circuits().any(|(a, _)| switches.contains(&self.switch_of(a)))
    }

    /// The number of a port's switch.
    pub(super) fn switch_of(&self, port: PortId) -> usize {
        usize::from(self.region.switch_port(port).switch)
    }

    /// The switch of a port.
    pub(super) fn site_of(&self, port: PortId) -> &Site {
        &self.sites[self.switch_of(port)]
    }

    /// Switches that are not known, for the journal.
    pub(super) fn unread(&self) -> Vec<u16> {
        let unread = self.switches(|site| !site.is_known());
        unread.into_iter().map(|switch| switch as u16).filter(|_| self.sites.len() > 1).collect()
    }
}

fn sorted(mut patches: Vec<Patch>) -> Vec<Patch> {
    patches.sort_unstable();
    patches.dedup();
    patches
}
