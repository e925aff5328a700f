//! What a dense component is made of: its links, by number, and which of its flows cross which.

use super::super::PAD;
use super::super::plan::Plan;
use lightloom_units::Time;

/// Links of such a component, at most: two a GPU.
pub(super) const L: usize = 16;
/// Places for them, and behind them one for what is done too often.
pub(super) const PLACES: usize = 32;

/// A component of at most [`L`] links: by their numbers, less one for the pad.
#[derive(Debug)]
pub(super) struct Links {
    /// By link: see [`super::super::Link`].
    pub capacity: [f64; L],
    pub level: [f64; L],
    pub sent: [f64; L],
    pub due: [f64; L],
    pub load: [f64; L],
    /// Links with which a link shares a flow that is not over, and those of them of which it serves it.
    pub alive: [u32; L],
    pub serves: [u32; L],
    /// By both links, either first: see [`super::super::Flow`].
    pub mark: [[f64; PLACES]; L],
    pub flow: [[u16; L]; L],
    /// The links that serve flows, by level.
    pub serving: List,
    pub live: usize,
    pub right_below: f64,
    pub updated: Time,
    /// The same as bits.
    pub served: u32,
    pub left: [f64; PLACES],
    pub wanted: [f64; PLACES],
    /// The bits of each share, which are in the same order, for none is below zero.
    pub share: [u64; PLACES],
}

/// Some links, in an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub links: [u8; L],
    pub len: usize,
}

impl List {
    pub fn as_slice(&self) -> &[u8] {
        &self.links[..self.len]
    }
    #[inline(always)]
    pub fn push(&mut self, link: usize) {
        self.links[self.len % L] = link as u8;
        self.len += 1;
    }
}

/// The numbers of bits that are set, rising.
#[inline(always)]
pub(super) fn set_bits(mut word: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (bit < 32).then_some(bit % L)
    })
}

impl Default for Links {
    fn default() -> Self {
        let none = [0.0; L];
        Links {
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
            left: [0.0; PLACES],
            wanted: [0.0; PLACES],
            share: [0; PLACES],
        }
    }
}

impl Links {
    /// Becomes what a plan begins with, if it fits.
    pub fn take_up(&mut self, plan: &Plan) -> bool {
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

    /// A link serves flows from now on, by the other link of each, that those served.
    #[inline(always)]
    pub fn take_over(&mut self, at: usize, moved: u32) {
        for other in set_bits(moved) {
            let mark = self.mark[at][other] + (self.sent[at] - self.sent[other]);
            (self.mark[at][other], self.mark[other][at]) = (mark, mark);
            self.serves[other] &= !(1 << at);
        }
    }

    /// A flow is over, which the first of its links served.
    #[inline(always)]
    pub fn end(&mut self, at: usize, other: usize) {
        self.alive[at] &= !(1 << other);
        self.alive[other] &= !(1 << at);
        self.serves[at] &= !(1 << other);
        self.load[at] -= 1.0;
        self.load[other] -= 1.0;
        self.live -= 1;
        self.right_below = self.right_below.min(self.level[at]);
    }

    /// What is left of flows: which, and how much.
    pub fn leave(&self, plan: &mut Plan) {
        for (flow, path) in plan.path.chunks_exact(2).enumerate() {
            let (one, other) = (path[0] as usize - 1, path[1] as usize - 1);
            if self.alive[one] >> other & 1 == 1 {
                let server = if self.serves[one] >> other & 1 == 1 { one } else { other };
                plan.left.push((flow as u32, self.mark[one][other] - self.sent[server]));
            }
        }
    }
}
