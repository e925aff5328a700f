//! The controller's end of the switch: when it is read, believed, and given up.

use super::io::{ControllerEvent, Output};
use super::machine::Controller;
use super::phase::Phase;
use crate::alarm::Alarm;
use crate::driver::{Answer, Order, Patch};
use crate::journal::{Doubt, Record};
use lightloom_circuits::PortMap;
use lightloom_units::Time;
use std::collections::BTreeSet;

impl Controller {
    pub(super) fn switch_up(&mut self, now: Time, device: String, ports: u16) {
        let expected = self.region.switch_ports();
        if ports != expected {
            self.note(format!("{device} has {ports} ports, and the region says {expected}"));
            self.raise(now, Alarm::SwitchUntrusted);
            self.outputs.push_back(Output::Reconnect);
            return;
        }
        self.up = true;
        self.device = Some((device, ports));
        self.must_read = true;
        self.clear(&Alarm::SwitchUnreachable);
    }

    pub(super) fn switch_down(&mut self, now: Time, why: &str) {
        if self.up {
            self.note(format!("the switch is gone: {why}"));
        }
        self.up = false;
        self.must_read = true;
        self.raise(now, Alarm::SwitchUnreachable);
        match self.phase {
            Phase::Patching { .. } | Phase::Verifying { .. } => {
                self.withdraw(now, &format!("the switch went away during a change: {why}"));
            }
            // Nobody has touched it.
            _ => self.phase = Phase::Idle,
        }
        self.replan = true;
    }

    pub(super) fn answer(&mut self, now: Time, id: u64, answer: Answer) {
        if self.phase.is_late(now, id) {
            return self.distrust(now, "it did not answer in time");
        }
        let answer = match answer {
            Answer::State(patches) => Answer::State(sorted(patches)),
            answer => answer,
        };
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        match (phase, answer) {
            (Phase::Patching { plan, order, .. }, answer) if order == id => match answer {
                Answer::State(_) => self.distrust(now, "it reads where it was to patch"),
                Answer::Fenced(why) => self.fenced(now, &why),
                answer => self.patched(now, plan, answer),
            },
            (
                Phase::Verifying { order, .. } | Phase::Reading { order, .. },
                Answer::State(patches),
            ) if order == id && !self.possible(&patches) => {
                self.distrust(now, "it says what cannot be");
            }
            (Phase::Verifying { plan, order, .. }, Answer::State(patches)) if order == id => {
                self.verified(now, plan, patches);
            }
            (Phase::Reading { order, .. }, Answer::State(patches)) if order == id => {
                self.seen(now, patches);
            }
            (Phase::Verifying { order, .. } | Phase::Reading { order, .. }, _) if order == id => {
                self.distrust(now, "it refuses to be read");
            }
            (phase, _) => self.phase = phase,
        }
    }

    /// Reads the switch: after it was out of sight, and from time to time.
    pub(super) fn read(&mut self, now: Time) {
        let order = self.order(Order::Read);
        self.phase = Phase::Reading { order, deadline: now + self.settings.patience };
    }

    /// Whether a switch can be in this state: its own ports, none of them in two patches.
    fn possible(&self, patches: &[Patch]) -> bool {
        let n = self.region.switch_ports();
        let mut taken = vec![false; 2 * usize::from(n) + 1];
        let mut free = |port: u16| !std::mem::replace(&mut taken[usize::from(port)], true);
        patches.iter().all(|patch| {
            let own = (1..=n).contains(&patch.ingress) && (n + 1..=2 * n).contains(&patch.egress);
            own && free(patch.ingress) && free(patch.egress)
        })
    }

    /// What stands, out of any plan: it should be what was verified.
    fn seen(&mut self, now: Time, patches: Vec<Patch>) {
        self.counters.audits += 1;
        let rival = self.see_rival(now, &patches);
        self.actual = patches;
        self.must_read = false;
        let mute = self.mute_until.take().is_some();
        self.clear(&Alarm::SwitchUntrusted);
        self.see_foreign(now);
        if rival {
            self.next_audit = now + self.settings.audit;
            return;
        }
        let observed = self.observed(&self.standing);
        let gone = observed.circuits().ne(self.standing.circuits());
        self.standing = observed;
        self.set_alarm(now, Alarm::CircuitsChanged, gone && !mute);
        let found = self.adoptable();
        if self.memory.doubt == Some(Doubt::New) && found.circuits().next().is_some() {
            self.lose(now, "there is none, and the switch holds circuits of this region".into());
        }
        let noted = self.is_noted() && !self.memory.is_lost();
        let changed = !noted || found.circuits().ne(self.standing.circuits()) || self.untidy();
        // Before all agents are known no plan is begun: then it is read once more.
        let begins = changed && self.agents_known();
        self.next_audit = if begins || !changed { now + self.settings.audit } else { now };
        if begins {
            self.replan = true;
            self.begin(now, found, self.no_rounds(), now);
        } else if mute && !self.is_behind() {
            self.tell_all();
        }
    }

    /// The circuits that the switch holds and the region may have.
    fn adoptable(&self) -> PortMap {
        let circuits = self.region.circuits(&self.actual);
        let mut map = self.masked(&PortMap::dark(self.region.servers(), self.region.degree()));
        let free = |map: &PortMap, port: (u16, u16)| {
            !map.is_blocked(usize::from(port.0), usize::from(port.1))
        };
        for (a, b) in circuits {
            let tenants = (self.region.tenant(a.0), self.region.tenant(b.0));
            if a.0 != b.0 && tenants.0 == tenants.1 && free(&map, a) && free(&map, b) {
                map.connect(a, b);
            }
        }
        map
    }

    /// Ports that are joined to some outside the region are no candidates. Says whether any is new.
    pub(super) fn see_foreign(&mut self, now: Time) -> bool {
        let ports = self.region.switch_ports();
        let mut foreign = BTreeSet::new();
        for patch in &self.actual {
            let ends = [patch.ingress, patch.egress.saturating_sub(ports)];
            let ends = ends.map(|end| self.region.port_at(end));
            if ends.iter().any(Option::is_none) {
                foreign.extend(ends.into_iter().flatten());
            }
        }
        let new = foreign.difference(&self.foreign).next().is_some();
        for &port in self.foreign.clone().difference(&foreign) {
            self.clear(&Alarm::ForeignPatch { port });
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

    /// Nothing that the switch says or holds is believed until it has been read anew.
    pub(super) fn distrust(&mut self, now: Time, why: &str) {
        self.raise(now, Alarm::SwitchUntrusted);
        self.outputs.push_back(Output::Reconnect);
        self.up = false;
        self.must_read = true;
        self.withdraw(now, why);
    }

    /// Leaves the region on packet switches.
    pub(super) fn withdraw(&mut self, now: Time, why: &str) {
        let generation = self.next_generation();
        let why = why.to_string();
        if !self.made.stopped {
            self.raise(now, Alarm::SwitchUntrusted);
        }
        self.journal(Record::Withdrawn { generation, why: why.clone() });
        self.outputs.push_back(Output::Event(ControllerEvent::Withdrawn { generation, why }));
        self.counters.withdrawals += 1;
        self.standing = PortMap::dark(self.region.servers(), self.region.degree());
        self.unconfirmed = None;
        self.mute_until = None;
        self.quarantine = now + self.settings.lifetime;
        self.phase = Phase::Idle;
        self.replan = true;
        self.tell_all();
    }
}

fn sorted(mut patches: Vec<Patch>) -> Vec<Patch> {
    patches.sort_unstable();
    patches.dedup();
    patches
}
