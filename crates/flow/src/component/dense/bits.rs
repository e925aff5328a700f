//! The steps of a dense component flow by flow, each a bit of its links' words.

use super::super::{ROUNDING_BYTES, time_for};
use super::{Dense, L, PLACES, bits};
use lightloom_units::Time;

/// Flows that are looked at together, so that how many there are is mostly guessed well.
const TOGETHER: usize = 4;

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

/// As [`share_of`](super::super::filling::share_of), without asking first.
#[inline(always)]
fn share_of(left: f64, wanted: f64, frozen: f64) -> f64 {
    let share = left / wanted.max(1.0) + [f64::INFINITY, 0.0][usize::from(wanted > 0.0)];
    if share > frozen { share } else { frozen }
}

impl Dense {
    pub(super) fn solve_by_bits(&mut self) {
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
        (self.served, self.right_below) = (frozen, f64::INFINITY);
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

    pub(super) fn step_by_bits(&mut self, now: Time, ends: &mut Vec<(u32, Time)>) {
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
                self.end(at, other);
            }
        }
        self.updated = now;
    }

    pub(super) fn next_done_by_bits(&self) -> Option<Time> {
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
