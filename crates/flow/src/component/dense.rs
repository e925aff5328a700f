//! Plans of small components, such as GPUs of a server make of their ports: each flow crosses two of few
//! links, and no other crosses the same two.
//!
//! Which flows a link has, serves and has left to serve are bits of a word each, and what flows are sent is
//! a matrix by both of their links. So no list is searched. The steps are those of
//! [`Component`](super::Component), and so are the bits of what comes out. They are written twice: flow by flow
//! (`dense/bits.rs`), and with all links at once, for processors that have registers for that (`dense/wide.rs`).
//! Checked: against plans step by step, and one against the other, on random components.

mod bits;
mod links;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(not(target_arch = "x86_64"))]
#[path = "dense/narrow.rs"]
mod wide;

use super::plan::{Instant, Plan};
use lightloom_units::Time;
use links::Links;
use wide::Wide;

/// Makes such plans.
#[derive(Debug)]
pub(super) struct Dense {
    links: Links,
    /// Whether all links go at once.
    wide: Option<Wide>,
}

impl Default for Dense {
    fn default() -> Self {
        Dense { links: Links::default(), wide: Wide::here() }
    }
}

impl Dense {
    /// Plans what the component of a plan that has begun does, as
    /// [`Component::plan`](super::Component::plan) does; says how often rates were computed, or nothing if it
    /// does not fit.
    pub fn plan(&mut self, plan: &mut Plan, instants: &mut Vec<Instant>) -> Option<u64> {
        if !self.links.take_up(plan) {
            return None;
        }
        let mut solves = 1;
        let mut since = self.links.updated;
        self.solve();
        instants.clear();
        plan.ends_at_all = false;
        while let Some(at) = self.next_done() {
            self.step(at, &mut plan.ends);
            let (count, ends) = (instants.len() as u32 + 1, plan.ends.len() as u32);
            instants.push(Instant { at, count, since, ends });
            if self.links.live == 0 {
                plan.ends_at_all = true;
                break;
            }
            self.solve();
            since = at;
            solves += 1;
        }
        self.links.leave(plan);
        Some(solves)
    }

    /// As [`Component::solve`](super::Component::solve).
    fn solve(&mut self) {
        match self.wide {
            Some(wide) => wide.solve(&mut self.links),
            None => bits::solve(&mut self.links),
        }
    }

    /// As [`Component::step`](super::Component::step).
    fn step(&mut self, now: Time, ends: &mut Vec<(u32, Time)>) {
        match self.wide {
            Some(wide) => wide.step(&mut self.links, now, ends),
            None => bits::step(&mut self.links, now, ends),
        }
    }

    /// As [`Component::next_done`](super::Component::next_done), without a tolerance.
    fn next_done(&self) -> Option<Time> {
        match self.wide {
            Some(wide) => wide.next_done(&self.links),
            None => bits::next_done(&self.links),
        }
    }

    /// Goes flow by flow whatever the processor can do.
    #[cfg(test)]
    pub fn by_bits() -> Self {
        Dense { wide: None, ..Dense::default() }
    }
}
