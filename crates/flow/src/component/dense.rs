//! Plans of small components, such as GPUs of a server make of their ports: each flow crosses two of few
//! links, and no other crosses the same two.
//!
//! Which flows a link has, serves and has left to serve are bits of a word each, and what flows are sent is
//! a matrix by both of their links. So no list is searched. The steps are those of
//! [`Component`](super::Component), and so are the bits of what comes out.
//! Checked: against plans step by step, on random components.

use super::plan::{Instant, Plan};
use super::{PAD, ROUNDING_BYTES, time_for};
use lightloom_units::Time;

/// Links of such a component, at most: two a GPU.
const L: usize = 16;
/// Places for them, and behind them one for what is done too often.
const PLACES: usize = 32;
/// Flows that are looked at together, so that how many there are is mostly guessed well.
const TOGETHER: usize = 4;

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

/// Calls `each` with these, some at a time; then with [`L`] for those that are missing.
#[inline(always)]
fn some_bits(mut word: u32, mut each: impl FnMut(usize)) {
    while word != 0 {
        for _ in 0..TOGETHER {
            each((word.trailing_zeros() as usize).min(L));
            word &= word.wrapping_sub(1);
        }
    }
}

/// The smallest of the shares of links, one by one: that was faster than in wide registers.
#[inline(always)]
fn smallest(share: &[u64; PLACES]) -> u64 {
    let mut least = [share[0], share[1], share[2], share[3]];
    for four in share[..L].chunks_exact(4) {
        for (least, &share) in least.iter_mut().zip(four) {
            *least = share.min(*least);
        }
    }
    least[0].min(least[1]).min(least[2].min(least[3]))
}

/// As [`share_of`](super::filling::share_of), without asking first.
#[inline(always)]
fn share_of(left: f64, wanted: f64, frozen: f64) -> f64 {
    let share = left / wanted.max(1.0) + [f64::INFINITY, 0.0][usize::from(wanted > 0.0)];
    if share > frozen { share } else { frozen }
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
        (self.serving.len, self.live) = (0, plan.marks.len());
        (self.right_below, self.updated) = (0.0, plan.began);
        true
    }

    /// As [`Component::solve`](super::Component::solve).
    fn solve(&mut self) {
        let right = self.serving.as_slice().iter();
        let right = right.take_while(|&&at| self.level[at as usize] < self.right_below).count();
        let before = self.serving;
        let before = &before.as_slice()[right..];
        self.serving.len = right;
        let (mut frozen, mut todo, mut level) = (0u32, self.live, 0.0);
        self.left[..L].copy_from_slice(&self.capacity);
        self.wanted[..L].copy_from_slice(&self.load);
        for &at in self.serving.as_slice() {
            let at = at as usize % L;
            level = self.level[at];
            frozen |= 1 << at;
            todo -= self.serves[at].count_ones() as usize;
            let (left, wanted) = (&mut self.left, &mut self.wanted);
            some_bits(self.serves[at], |other| {
                left[other] -= level;
                wanted[other] -= 1.0;
            });
        }
        for at in bits(frozen) {
            self.wanted[at] = 0.0;
        }
        for at in 0..L {
            self.share[at] = share_of(self.left[at], self.wanted[at], level).to_bits();
        }
        let mut next = 0;
        while todo > 0 {
            let fair = smallest(&self.share);
            while next < before.len() && self.wanted[before[next] as usize % L] == 0.0 {
                next += 1;
            }
            let fits = |at: &usize| self.share[*at] == fair;
            let guess = before[next..].iter().map(|&at| at as usize % L).find(fits);
            let at = guess.or_else(|| (0..L).find(fits)).unwrap_or(0);
            todo -= self.freeze(at, f64::from_bits(fair), frozen);
            frozen |= 1 << at;
            self.serving.push(at);
        }
        for &at in before.iter().filter(|&&at| frozen >> at & 1 == 0) {
            let at = at as usize % L;
            (self.level[at], self.due[at], self.serves[at]) = (f64::INFINITY, f64::INFINITY, 0);
        }
        self.right_below = f64::INFINITY;
    }

    /// Has link `at` serve those of its flows, at rate `fair`, that no link serves that is frozen; says how
    /// many these are.
    #[inline(always)]
    fn freeze(&mut self, at: usize, fair: f64, frozen: u32) -> usize {
        let mask = self.alive[at] & !frozen;
        for other in bits(mask & !self.serves[at]) {
            let mark = self.mark[at][other] + (self.sent[at] - self.sent[other]);
            (self.mark[at][other], self.mark[other][at]) = (mark, mark);
            self.serves[other] &= !(1 << at);
        }
        self.serves[at] = mask;
        let mut due = f64::INFINITY;
        let (left, wanted, share) = (&mut self.left, &mut self.wanted, &mut self.share);
        let marks = &self.mark[at];
        some_bits(mask, |other| {
            let mark = marks[other];
            due = if mark < due { mark } else { due };
            left[other] -= fair;
            wanted[other] -= 1.0;
            share[other] = share_of(left[other], wanted[other], fair).to_bits();
        });
        (self.level[at], self.due[at]) = (fair, due);
        (self.wanted[at], self.share[at]) = (0.0, f64::INFINITY.to_bits());
        mask.count_ones() as usize
    }

    /// As [`Component::step`](super::Component::step).
    fn step(&mut self, now: Time, ends: &mut Vec<(u32, Time)>) {
        let elapsed = now.saturating_sub(self.updated).ps() as f64;
        for turn in 0..self.serving.len {
            let at = self.serving.links[turn] as usize % L;
            let (level, sent) = (self.level[at], self.sent[at]);
            let after = sent + level * elapsed;
            self.sent[at] = after;
            if self.due[at] > after + ROUNDING_BYTES {
                continue;
            }
            for other in bits(self.serves[at]) {
                let mark = self.mark[at][other];
                if mark > after + ROUNDING_BYTES {
                    continue;
                }
                let drained = self.updated.saturating_add(time_for(mark - sent, level)).min(now);
                ends.push((self.flow[at][other].into(), drained));
                self.alive[at] &= !(1 << other);
                self.alive[other] &= !(1 << at);
                self.serves[at] &= !(1 << other);
                self.load[at] -= 1.0;
                self.load[other] -= 1.0;
                self.live -= 1;
                self.right_below = self.right_below.min(level);
            }
        }
        self.updated = now;
    }

    /// As [`Component::next_done`](super::Component::next_done), without a tolerance.
    fn next_done(&self) -> Option<Time> {
        let left = |at: usize| self.due[at] - self.sent[at];
        let (mut soonest, mut first) = (f64::INFINITY, 0);
        for &at in self.serving.as_slice() {
            let at = at as usize % L;
            let end = left(at) / self.level[at];
            let sooner = end < soonest;
            soonest = if sooner { end } else { soonest };
            first = if sooner { at } else { first };
        }
        let next = || self.updated.saturating_add(time_for(left(first), self.level[first]));
        (soonest < f64::INFINITY).then(next)
    }
}
