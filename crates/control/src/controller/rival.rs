//! Another controller at the same switch: its hand is seen, and this one stops.
//!
//! A switch that speaks TL1 cannot refuse the orders of a controller that has been replaced. But what it holds says
//! who was there: a circuit between ports of this region that this controller did not make. Then it leaves the region
//! on packet switches and orders nothing more until an operator says that it is alone, so that two controllers never
//! undo each other's circuits in turn: of two, the one that first sees the other's hand stops.
//!
//! Not seen: patches that were ended, or that make no whole circuit: those may be anybody's, and are planned anew.

use super::machine::Controller;
use crate::alarm::Alarm;
use crate::driver::Patch;
use crate::planted::Planted;
use lightloom_units::Time;

impl Controller {
    /// A switch was read. Says whether another controller has been there: then all is withdrawn.
    pub(super) fn see_rival(&mut self, now: Time, switch: usize, found: &[Patch]) -> bool {
        let region = &self.region;
        let before = self.sites[switch].made.replace(found.iter().copied().collect());
        let Some(before) = before.filter(|_| !self.bug.is(Planted::IgnoresRivals)) else {
            return self.stopped;
        };
        let strange = |&&(a, b): &&_| {
            let ends = [a, b].map(|port| region.switch_port(port).port);
            let pair = Patch::pair(region.switch_ports(switch), ends[0], ends[1]);
            pair.iter().all(|patch| !before.contains(patch))
        };
        let circuits = region.circuits(switch, found);
        let strange: Vec<_> = circuits.iter().filter(strange).collect();
        if strange.is_empty() {
            return self.stopped;
        }
        let text = format!("another controller is at the switch: {strange:?} is none of ours");
        self.note(&text);
        self.raise(now, Alarm::SecondController);
        if !std::mem::replace(&mut self.stopped, true) {
            let all = self.switches(|_| true);
            self.withdraw(now, &all, &text);
        }
        true
    }

    /// An operator says that this is the only controller: what switches hold is taken over.
    pub(super) fn alone(&mut self) {
        let stopped = std::mem::take(&mut self.stopped);
        for site in &mut self.sites {
            site.made = None;
            if stopped {
                site.forget();
            }
        }
        if stopped {
            self.clear(&Alarm::SecondController);
            self.replan = true;
        }
    }

    /// The process did not run for a while, and what was known of the switch may not be so any more.
    pub(super) fn woken(&mut self, now: Time) {
        self.next_audit = now;
        let draining = matches!(self.phase, super::phase::Phase::Draining { .. });
        if draining && !self.bug.is(Planted::GoesOnWhenWoken) {
            self.give_up(now);
        }
    }
}
