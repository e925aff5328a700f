//! Plans of small components, such as GPUs of a server make of their ports: each flow crosses two of few
//! links, and no other crosses the same two.
//!
//! Which flows a link has, serves and has left to serve are bits of a word each, and what flows are sent is
//! a matrix by both of their links. So no list is searched. The steps are those of
//! [`Component`](super::Component), and so are the bits of what comes out. They are written twice: flow by flow
//! (`dense/bits.rs`), and with all links at once, for processors that have registers for that (`dense/wide.rs`).
//! Checked: against plans step by step, and one against the other, on random components.

mod bits;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(not(target_arch = "x86_64"))]
#[path = "dense/narrow.rs"]
mod wide;

use super::PAD;
use super::plan::{Instant, Plan};
use lightloom_units::Time;
use wide::Wide;

/// Links of such a component, at most: two a GPU.
const L: usize = 16;
/// Places for them, and behind them one for what is done too often.
const PLACES: usize = 32;

/// A component of at most [`L`] links: by their numbers, less one for the pad.
#[derive(Debug)]
pub(super) struct Dense {
    /// By link: see [`super::Link`].
    capacity: [f64; L],
    level: [f64; L],
    sent: [f64; L],
    due: [f64; L],
    load: [f64; L],
    /// Links with which a link shares a flow that is not over, and those of them of which it serves it.
    alive: [u32; L],
    serves: [u32; L],
    /// By both links, either first: see [`super::Flow`].
    mark: [[f64; PLACES]; L],
    flow: [[u16; L]; L],
    /// The links that serve flows, by level.
    serving: List,
    live: usize,
    right_below: f64,
    updated: Time,
    /// The same as bits.
    served: u32,
    /// Whether all links go at once.
    wide: Option<Wide>,
    left: [f64; PLACES],
    wanted: [f64; PLACES],
    /// The bits of each share, which are in the same order, for none is below zero.
    share: [u64; PLACES],
}

/// Some links, in an order.
#[derive(Clone, Copy, Debug)]
struct List {
    links: [u8; L],
    len: usize,
}

impl List {
    fn as_slice(&self) -> &[u8] {
        &self.links[..self.len]
    }
    #[inline(always)]
    fn push(&mut self, link: usize) {
        self.links[self.len % L] = link as u8;
        self.len += 1;
    }
}

/// The numbers of bits that are set, rising.
#[inline(always)]
fn bits(mut word: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (bit < 32).then_some(bit % L)
    })
}

impl Default for Dense {
    fn default() -> Self {
        let none = [0.0; L];
        Dense {
            capacity: none,
            level: none,
            sent: none,
            due: none,
            load: none,
            alive: [0; L],
            serves: [0; L],
            mark: [[f64::INFINITY; PLACES]; L],
            flow: [[0; L]; L],
            serving: List { links: [0; L], len: 0 },
            live: 0,
            right_below: 0.0,
            updated: Time::ZERO,
            served: 0,
            wide: Wide::here(),
            left: [0.0; PLACES],
            wanted: [0.0; PLACES],
            share: [0; PLACES],
        }
    }
}

impl Dense {
    /// Plans what the component of a plan that has begun does, as
    /// [`Component::plan`](super::Component::plan) does; says how often rates were computed, or nothing if it
    /// does not fit.
    pub fn plan(&mut self, plan: &mut Plan, instants: &mut Vec<Instant>) -> Option<u64> {
        if !self.take_up(plan) {
            return None;
        }
        let mut solves = 1;
        let mut since = self.updated;
        self.solve();
        instants.clear();
        plan.ends_at_all = false;
        while let Some(at) = self.next_done() {
            self.step(at, &mut plan.ends);
            let (count, ends) = (instants.len() as u32 + 1, plan.ends.len() as u32);
            instants.push(Instant { at, count, since, ends });
            if self.live == 0 {
                plan.ends_at_all = true;
                break;
            }
            self.solve();
            since = at;
            solves += 1;
        }
        for (flow, path) in plan.path.chunks_exact(2).enumerate() {
            let (one, other) = (path[0] as usize - 1, path[1] as usize - 1);
            if self.alive[one] >> other & 1 == 1 {
                let server = if self.serves[one] >> other & 1 == 1 { one } else { other };
                plan.left.push((flow as u32, self.mark[one][other] - self.sent[server]));
            }
        }
        Some(solves)
    }

    /// Becomes what a plan begins with, if it fits.
    fn take_up(&mut self, plan: &Plan) -> bool {
        let links = plan.capacity.len();
        if plan.stride != 2 || links > L {
            return false;
        }
        self.capacity[..links].copy_from_slice(&plan.capacity);
        self.capacity[links..].fill(f64::INFINITY);
        (self.sent, self.load) = ([0.0; L], [0.0; L]);
        (self.alive, self.serves) = ([0; L], [0; L]);
        for (flow, (path, &mark)) in (0..).zip(plan.path.chunks_exact(2).zip(&plan.marks)) {
            if path[0] == PAD || path[1] == PAD || path[0] == path[1] {
                return false;
            }
            let (one, other) = (path[0] as usize - 1, path[1] as usize - 1);
            if self.alive[one] >> other & 1 == 1 {
                return false;
            }
            for (one, other) in [(one, other), (other, one)] {
                self.alive[one] |= 1 << other;
                self.load[one] += 1.0;
                self.mark[one][other] = mark;
                self.flow[one][other] = flow;
            }
        }
        (self.serving.len, self.served, self.live) = (0, 0, plan.marks.len());
        (self.right_below, self.updated) = (0.0, plan.began);
        true
    }

    /// As [`Component::solve`](super::Component::solve).
    fn solve(&mut self) {
        match self.wide {
            Some(wide) => wide.solve(self),
            None => self.solve_by_bits(),
        }
    }

    /// As [`Component::step`](super::Component::step).
    fn step(&mut self, now: Time, ends: &mut Vec<(u32, Time)>) {
        match self.wide {
            Some(wide) => wide.step(self, now, ends),
            None => self.step_by_bits(now, ends),
        }
    }

    /// As [`Component::next_done`](super::Component::next_done), without a tolerance.
    fn next_done(&self) -> Option<Time> {
        match self.wide {
            Some(wide) => wide.next_done(self),
            None => self.next_done_by_bits(),
        }
    }

    /// A flow is over, which the first of its links served.
    #[inline(always)]
    fn end(&mut self, at: usize, other: usize) {
        self.alive[at] &= !(1 << other);
        self.alive[other] &= !(1 << at);
        self.serves[at] &= !(1 << other);
        self.load[at] -= 1.0;
        self.load[other] -= 1.0;
        self.live -= 1;
        self.right_below = self.right_below.min(self.level[at]);
    }

    /// Goes flow by flow whatever the processor can do.
    #[cfg(test)]
    pub fn by_bits() -> Self {
        Dense { wide: None, ..Dense::default() }
    }
}
