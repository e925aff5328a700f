//! What a unit with more than a port is about to do, in order of time; of one time, what was planned first.
//!
//! What is due in the window that is worked off turns on a wheel of short parts of that window (a calendar
//! queue: R. Brown, CACM 31(10), 1988), of which there is one, for units are worked off one after the other.
//! What is due later waits in its unit's agenda, in no order, until its window comes; what is due far later,
//! in a heap.
//! Checked against a sorted list, on random plans and windows.

use crate::ahead::fetch;
use crate::packet::NONE;
use crate::places::keep;
use crate::schedule;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Parts of a window, at most: a power of two.
const PARTS: usize = 1 << 10;
const WORD: usize = u64::BITS as usize;
/// Plans are numbered anew from here on.
const MANY: u32 = if cfg!(test) { 20 } else { 1 << 31 };

/// What a unit planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Planned {
    time: u64,
    order: u32,
    thing: u32,
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time, self.order).cmp(&(other.time, other.order))
    }
}
impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What one unit has planned.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// When the next thing is due that is not on the wheel.
    next: u64,
    /// From here on it is far later \[ps\].
    far: u64,
    planned: u32,
    later: Vec<Planned>,
    rest: BinaryHeap<Reverse<Planned>>,
}

impl Agenda {
    pub const EMPTY: Agenda =
        Agenda { next: u64::MAX, far: 0, planned: 0, later: Vec::new(), rest: BinaryHeap::new() };

    /// When the next thing is due, or the end of time. While the unit is worked off, of what the wheel has not.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Plans a thing; if it is due while the wheel turns, there.
    #[inline]
    pub fn plan(&mut self, thing: u32, time: u64, wheel: Option<&mut Wheel>) {
        self.planned += 1;
        let planned = Planned { time, order: self.planned, thing };
        match wheel {
            Some(wheel) if time < wheel.end => wheel.put(planned),
            _ => self.wait(planned),
        }
    }

    #[inline]
    fn wait(&mut self, planned: Planned) {
        self.next = self.next.min(planned.time);
        match planned.time < self.far {
            true => self.later.push(planned),
            false => self.rest.push(Reverse(planned)),
        }
    }

    /// Puts what is due before the wheel stops there; what is due a window later is not far.
    #[inline]
    pub fn open(&mut self, wheel: &mut Wheel) {
        if self.planned >= MANY {
            self.number_anew();
        }
        self.far = wheel.end + wheel.length;
        if self.next >= wheel.end {
            return;
        }
        let mut next = u64::MAX;
        self.later.retain(|&planned| {
            let waits = planned.time >= wheel.end;
            match waits {
                true => next = next.min(planned.time),
                false => wheel.put(planned),
            }
            waits
        });
        while let Some(&Reverse(planned)) = self.rest.peek() {
            if planned.time >= wheel.end {
                next = next.min(planned.time);
                break;
            }
            self.rest.pop();
            wheel.put(planned);
        }
        self.next = next;
    }

    /// Numbers what waits from one on, in the same order.
    #[cold]
    fn number_anew(&mut self) {
        let rest = std::mem::take(&mut self.rest).into_iter().map(|Reverse(planned)| planned);
        let mut all: Vec<Planned> = self.later.drain(..).chain(rest).collect();
        all.sort_unstable_by_key(|planned| planned.order);
        self.planned = all.len() as u32;
        for (order, planned) in (1..).zip(all) {
            self.wait(Planned { order, ..planned });
        }
    }

    /// Has what waits fetched, of which little is due far later.
    #[inline]
    pub fn fetch_later(&self) {
        fetch(&self.later, 0);
        fetch(&self.later, 4);
    }

    /// Some of what waits.
    #[inline]
    pub fn waiting(&self) -> impl Iterator<Item = u32> {
        self.later.iter().take(4).map(|planned| planned.thing)
    }
}

/// What the unit that is worked off does in a window. Few things wait at once: they stand in one small room, those
/// of a part in order, each naming the next one, which keeps them in the cache nearest to a core.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// When the next thing is due, or the end of time.
    next: u64,
    /// When the window starts, how long it is, how long a part is as a power of two, and when the wheel stops,
    /// which may be sooner than the window ends \[ps\].
    starts: u64,
    length: u64,
    shift: u32,
    end: u64,
    /// The part in which the next thing is.
    at: usize,
    /// Parts with plans, one bit each; and words of those, one bit each.
    filled: [u64; PARTS / WORD],
    words: u64,
    /// By part, if it has any: the places of its first plan and of its last one.
    ends: Vec<[u32; 2]>,
    /// Plans, and the place of the next one of the same part.
    plans: Vec<(Planned, u32)>,
    /// Places that are free.
    free: Vec<u32>,
}

impl Wheel {
    /// One for windows of a length \[ps\].
    pub fn new(length: u64) -> Self {
        Wheel {
            next: u64::MAX,
            starts: 0,
            length,
            shift: schedule::part(length, PARTS),
            end: 0,
            at: 0,
            filled: [0; PARTS / WORD],
            words: 0,
            ends: vec![[NONE; 2]; PARTS],
            plans: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Another unit's turn, or another window, of which what is before `end` is worked off. It is empty.
    #[inline]
    pub fn turn(&mut self, window: u64, end: u64) {
        (self.starts, self.end) = (window * self.length, end);
    }

    /// When the next thing is due, or the end of time.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    #[inline]
    fn put(&mut self, planned: Planned) {
        debug_assert!((self.starts..self.end).contains(&planned.time));
        let at = ((planned.time - self.starts) >> self.shift) as usize % PARTS;
        let place = keep(&mut self.plans, &mut self.free, (planned, NONE));
        let bit = 1 << (at % WORD);
        if self.filled[at / WORD] & bit == 0 {
            self.filled[at / WORD] |= bit;
            self.words |= 1 << (at / WORD);
            self.ends[at] = [place; 2];
        } else {
            self.put_among(at, place);
        }
        if planned.time < self.next {
            (self.next, self.at) = (planned.time, at);
        }
    }

    /// Puts a plan into a part with others. What was planned before is done before, if it is due at one time.
    fn put_among(&mut self, at: usize, place: u32) {
        let (planned, [first, last]) = (self.plans[place as usize].0, self.ends[at]);
        if planned > self.plans[last as usize].0 {
            self.plans[last as usize].1 = place;
            self.ends[at][1] = place;
            return;
        }
        let (mut before, mut behind) = (NONE, first);
        while self.plans[behind as usize].0 < planned {
            (before, behind) = (behind, self.plans[behind as usize].1);
        }
        self.plans[place as usize].1 = behind;
        match before {
            NONE => self.ends[at][0] = place,
            _ => self.plans[before as usize].1 = place,
        }
    }

    /// The next thing.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        if self.next == u64::MAX {
            return None;
        }
        let place = self.ends[self.at][0];
        let (Planned { thing, .. }, behind) = self.plans[place as usize];
        self.free.push(place);
        if behind != NONE {
            self.ends[self.at][0] = behind;
            self.next = self.plans[behind as usize].0.time;
            return Some(thing);
        }
        let word = self.at / WORD;
        self.filled[word] &= !(1 << (self.at % WORD));
        if self.filled[word] == 0 {
            self.words &= !(1 << word);
        }
        if self.words == 0 {
            (self.next, self.at) = (u64::MAX, 0);
            return Some(thing);
        }
        let word = self.words.trailing_zeros() as usize;
        self.at = word * WORD + self.filled[word].trailing_zeros() as usize;
        self.next = self.plans[self.ends[self.at][0] as usize].0.time;
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is planned while a window lasts and between windows, and wherever windows are cut: by time,
        /// then as it was planned.
        #[test]
        fn an_agenda_is_in_order(
            // Short windows, too, for much is due at one time then.
            length in prop_oneof![1u64..12, 1u64..5_000], cuts in prop::collection::vec(0u64..5_000, 1..8),
            steps in prop::collection::vec((0u64..4, 0u64..6_000, prop::bool::ANY), 1..300),
        ) {
            let (mut agenda, mut wheel) = (Agenda::EMPTY, Wheel::new(length));
            let (mut sorted, mut steps) = (Vec::new(), (0..).zip(steps));
            let mut plan = |now: u64, agenda: &mut Agenda, wheel: Option<&mut Wheel>, sorted: &mut Vec<_>| {
                let Some((thing, (far, ahead, more))) = steps.next() else { return false };
                let ahead = ahead % (4 * length);
                let time = now + [0, ahead % 8, ahead, ahead * 9][far as usize];
                agenda.plan(thing, time, wheel);
                sorted.push((time, thing));
                sorted.sort_by_key(|&(time, _)| time);
                more
            };
            let (mut until, mut turn) = (0, 0);
            while plan(until, &mut agenda, None, &mut sorted) || !sorted.is_empty() {
                let window = sorted[0].0.max(until) / length;
                let cut = until + cuts[turn % cuts.len()];
                let end = match until < cut && cut < (window + 1) * length {
                    true => cut,
                    false => (window + 1) * length,
                };
                turn += 1;
                wheel.turn(window, end);
                agenda.open(&mut wheel);
                while wheel.next() != u64::MAX {
                    let (time, thing) = sorted.remove(0);
                    prop_assert_eq!((wheel.next(), wheel.pop()), (time, Some(thing)));
                    prop_assert!(time < end);
                    while plan(time, &mut agenda, Some(&mut wheel), &mut sorted) {}
                }
                let next = sorted.first().map_or(u64::MAX, |&(time, _)| time);
                prop_assert!(next >= end);
                prop_assert_eq!(agenda.next(), next);
                until = end;
            }
            prop_assert_eq!(wheel.pop(), None);
        }
    }
}
