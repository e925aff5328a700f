//! The steps of a dense component flow by flow, each a bit of its links' words.

use super::super::{ROUNDING_BYTES, time_for};
use super::links::{L, Links, PLACES, set_bits};
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

pub(super) fn solve(of: &mut Links) {
    let right = of.serving.as_slice().iter();
    let right = right.take_while(|&&at| of.level[at as usize] < of.right_below).count();
    let before = of.serving;
    let before = &before.as_slice()[right..];
    of.serving.len = right;
    let (mut frozen, mut todo, mut level) = (0u32, of.live, 0.0);
    of.left[..L].copy_from_slice(&of.capacity);
    of.wanted[..L].copy_from_slice(&of.load);
    for &at in of.serving.as_slice() {
        let at = at as usize % L;
        level = of.level[at];
        frozen |= 1 << at;
        todo -= of.serves[at].count_ones() as usize;
        let (left, wanted) = (&mut of.left, &mut of.wanted);
        some_bits(of.serves[at], |other| {
            left[other] -= level;
            wanted[other] -= 1.0;
        });
    }
    for at in set_bits(frozen) {
        of.wanted[at] = 0.0;
    }
    for at in 0..L {
        of.share[at] = share_of(of.left[at], of.wanted[at], level).to_bits();
    }
    let mut next = 0;
    while todo > 0 {
        let fair = smallest(&of.share);
        while next < before.len() && of.wanted[before[next] as usize % L] == 0.0 {
            next += 1;
        }
        let fits = |at: &usize| of.share[*at] == fair;
        let guess = before[next..].iter().map(|&at| at as usize % L).find(fits);
        let at = guess.or_else(|| (0..L).find(fits)).unwrap_or(0);
        todo -= freeze(of, at, f64::from_bits(fair), frozen);
        frozen |= 1 << at;
        of.serving.push(at);
    }
    for &at in before.iter().filter(|&&at| frozen >> at & 1 == 0) {
        let at = at as usize % L;
        (of.level[at], of.due[at], of.serves[at]) = (f64::INFINITY, f64::INFINITY, 0);
    }
    (of.served, of.right_below) = (frozen, f64::INFINITY);
}

/// Has link `at` serve those of its flows, at rate `fair`, that no link serves that is frozen; says how
/// many these are.
#[inline(always)]
fn freeze(of: &mut Links, at: usize, fair: f64, frozen: u32) -> usize {
    let mask = of.alive[at] & !frozen;
    of.take_over(at, mask & !of.serves[at]);
    of.serves[at] = mask;
    let mut due = f64::INFINITY;
    let (left, wanted, share) = (&mut of.left, &mut of.wanted, &mut of.share);
    let marks = &of.mark[at];
    some_bits(mask, |other| {
        let mark = marks[other];
        due = if mark < due { mark } else { due };
        left[other] -= fair;
        wanted[other] -= 1.0;
        share[other] = share_of(left[other], wanted[other], fair).to_bits();
    });
    (of.level[at], of.due[at]) = (fair, due);
    (of.wanted[at], of.share[at]) = (0.0, f64::INFINITY.to_bits());
    mask.count_ones() as usize
}

pub(super) fn step(of: &mut Links, now: Time, ends: &mut Vec<(u32, Time)>) {
    let elapsed = now.saturating_sub(of.updated).ps() as f64;
    for turn in 0..of.serving.len {
        let at = of.serving.links[turn] as usize % L;
        let (level, sent) = (of.level[at], of.sent[at]);
        let after = sent + level * elapsed;
        of.sent[at] = after;
        if of.due[at] > after + ROUNDING_BYTES {
            continue;
        }
        for other in set_bits(of.serves[at]) {
            let mark = of.mark[at][other];
            if mark > after + ROUNDING_BYTES {
                continue;
            }
            let drained = of.updated.saturating_add(time_for(mark - sent, level)).min(now);
            ends.push((of.flow[at][other].into(), drained));
            of.end(at, other);
        }
    }
    of.updated = now;
}

pub(super) fn next_done(of: &Links) -> Option<Time> {
    let left = |at: usize| of.due[at] - of.sent[at];
    let (mut soonest, mut first) = (f64::INFINITY, 0);
    for &at in of.serving.as_slice() {
        let at = at as usize % L;
        let end = left(at) / of.level[at];
        let sooner = end < soonest;
        soonest = if sooner { end } else { soonest };
        first = if sooner { at } else { first };
    }
    let next = || of.updated.saturating_add(time_for(left(first), of.level[first]));
    (soonest < f64::INFINITY).then(next)
}
