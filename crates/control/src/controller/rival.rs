//! Another controller at the same switch: its hand is seen, and this one stops.
//!
//! A switch that fences refuses the orders of a controller that has been replaced: it has issued a later term.
//! One that speaks TL1 cannot. But what it holds says
//! who was there: a circuit between ports of this region that this controller did not make. Then it leaves the region
//! on packet switches and orders nothing more until an operator says that it is alone, so that two controllers never
//! undo each other's circuits in turn: of two, the one that first sees the other's hand stops.
//!
//! Not seen: patches that were ended, or that make no whole circuit: those may be anybody's, and are planned anew. Nor a
//! circuit that this controller has ordered and another one made, if it does not know whether its order was sent.

use super::io::Output;
use super::machine::Controller;
use super::phase::Phase;
use super::plan::without;
use crate::alarm::Alarm;
use crate::driver::Patch;
use crate::journal::Record;
use crate::planted::Planted;
use lightloom_units::Time;

impl Controller {
    /// A switch was read. If another controller has been there, all is withdrawn.
    pub(super) fn see_rival(&mut self, now: Time, switch: usize, found: &[Patch]) {
        let before = self.sites[switch].made.replace(found.to_vec());
        let Some(before) = before.filter(|_| !self.bug.is(Planted::IgnoresRivals)) else {
            return;
        };
        let unknown = without(found, &before);
        if unknown.is_empty() {
            return; // as most often
        }
        let strange = self.region.circuits(switch, &unknown);
        if strange.is_empty() {
            return;
        }
        let text = format!("another controller is at the switch: {strange:?} is none of ours");
        self.stop(now, &text);
    }

    /// The switch has issued a term: it is known again after a restart, and before anything is ordered with it.
    pub(super) fn issued(&mut self, switch: usize, term: u64) {
        self.journal(Record::Term { switch: switch as u16, term: Some(term) });
    }

    /// The switch refuses what this controller orders, since another one has claimed it.
    pub(super) fn fenced(&mut self, now: Time, why: &str) {
        self.stop(now, &format!("another controller has claimed the switch: {why}"));
    }

    fn stop(&mut self, now: Time, text: &str) {
        self.note(text);
        self.raise(now, Alarm::SecondController);
        if !std::mem::replace(&mut self.stopped, true) {
            let all = self.switches(|_| true);
            self.withdraw(now, &all, text);
        }
    }

    /// An operator says that this is the only controller: it claims the switch, and takes over what it holds.
    pub(super) fn alone(&mut self) {
        let stopped = std::mem::take(&mut self.stopped);
        for site in &mut self.sites {
            (site.made, site.found) = (None, None);
            if stopped {
                site.forget();
            }
        }
        if stopped {
            self.clear(&Alarm::SecondController);
            for switch in 0..self.sites.len() {
                // First, so that one that crashes now does not come back with the old term.
                if self.memory.terms.contains_key(&(switch as u16)) {
                    self.journal(Record::Term { switch: switch as u16, term: None });
                }
                self.outputs.push_back(Output::Claim { switch });
            }
            self.replan = true;
        }
    }

    /// The process did not run for a while, and what was known of the switch may not be so any more.
    pub(super) fn woken(&mut self, now: Time) {
        self.next_audit = now;
        for (at, site) in self.sites.iter_mut().enumerate().filter(|(_, site)| site.must_read) {
            // What was read before is old.
            site.found = None;
            if self.memory.touches(at) {
                // The stream that was given up may have been closed only now.
                site.quarantine = site.quarantine.max(now + self.settings.lifetime);
            }
        }
        match &mut self.phase {
            _ if self.bug.is(Planted::GoesOnWhenWoken) => {}
            Phase::Reading { found, .. } => found.clear(),
            Phase::Draining { .. } => self.give_up(now),
            // What is decided would go to the switch before it is read.
            Phase::Deciding { .. } => (self.phase, self.replan) = (Phase::Idle, true),
            _ => {}
        }
    }
}
