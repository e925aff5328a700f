//! Another controller at the same switch: its hand is seen, and this one stops.
//!
//! A switch that speaks TL1 cannot refuse the orders of a controller that has been replaced. But what it holds says
//! who was there: a circuit between ports of this region that this controller did not make. Then it leaves the region
//! on packet switches and orders nothing more until an operator says that it is alone, so that two controllers never
//! undo each other's circuits in turn: of two, the one that first sees the other's hand stops.
//!
//! Not seen: patches that were ended, or that make no whole circuit: those may be anybody's, and are planned anew.

use super::machine::Controller;
use super::phase::Phase;
use crate::alarm::Alarm;
use crate::driver::Patch;
use crate::planted::Planted;
use lightloom_units::Time;

impl Controller {
    /// The switch was read. Says whether another controller has been there: then all is withdrawn.
    pub(super) fn see_rival(&mut self, now: Time, found: &[Patch]) -> bool {
        let region = &self.region;
        let before = self.made.patches.replace(found.iter().copied().collect());
        let Some(before) = before.filter(|_| !self.bug.is(Planted::IgnoresRivals)) else {
            return self.made.stopped;
        };
        let strange = |&&(a, b): &&_| {
            let ends = [a, b].map(|port| region.switch_port(port));
            let pair = Patch::pair(region.switch_ports(), ends[0], ends[1]);
            pair.iter().all(|patch| !before.contains(patch))
        };
        let circuits = region.circuits(found);
        let strange: Vec<_> = circuits.iter().filter(strange).collect();
        if strange.is_empty() {
            return self.made.stopped;
        }
        let text = format!("another controller is at the switch: {strange:?} is none of ours");
        self.note(&text);
        self.raise(now, Alarm::SecondController);
        if !std::mem::replace(&mut self.made.stopped, true) {
            self.withdraw(now, &text);
        }
        true
    }

    /// An operator says that this is the only controller: what the switch holds is taken over.
    pub(super) fn alone(&mut self) {
        if std::mem::take(&mut self.made).stopped {
            self.clear(&Alarm::SecondController);
            self.must_read = true;
            self.replan = true;
        }
    }

    /// The process did not run for a while, and what was known of the switch may not be so any more.
    pub(super) fn woken(&mut self, now: Time) {
        self.next_audit = now;
        if self.must_read && self.memory.touched {
            // The stream that was given up may have been closed only now.
            self.quarantine = self.quarantine.max(now + self.settings.lifetime);
        }
        match self.phase {
            _ if self.bug.is(Planted::GoesOnWhenWoken) => {}
            Phase::Draining { .. } => self.give_up(now),
            // What is decided would go to the switch before it is read.
            Phase::Deciding { .. } => (self.phase, self.replan) = (Phase::Idle, true),
            _ => {}
        }
    }
}
