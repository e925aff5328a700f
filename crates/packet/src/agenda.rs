//! What a unit with more than a port is about to do, in order of time; of one time, what was planned first.
//!
//! Most is planned a fixed time ahead: a packet's time on a link, and that and the link's delay. So what is
//! planned equally far ahead is in order by itself. Plans stand in lanes, each in order of time, and join
//! the lane in which they come next; the next one is the first of one of them. That is a merge of sorted
//! runs, found as in patience sorting. What fits nowhere waits in a heap.
//! Checked against a sorted list, on random plans.

use crate::ahead::fetch;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Lanes at most: more are looked through for longer than they save.
const LANES: usize = 8;
/// A lane forgets what is done, so many plans at a time.
const MANY: usize = if cfg!(test) { 8 } else { 1 << 9 };

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

/// Plans in order of time.
#[derive(Debug)]
struct Lane {
    /// The first and the last of them; an empty lane has them at the end and at the start of time.
    first: (u64, u32),
    last: u64,
    /// Those before this place are done.
    done: usize,
    plans: Vec<Planned>,
}

impl Lane {
    const EMPTY: Lane = Lane { first: NEVER, last: 0, done: 0, plans: Vec::new() };

    #[inline]
    fn push(&mut self, planned: Planned) {
        if self.first == NEVER {
            self.first = (planned.time, planned.order);
        }
        self.last = planned.time;
        self.plans.push(planned);
    }

    #[inline]
    fn pop(&mut self) -> Option<Planned> {
        let next = self.plans.get(self.done).copied();
        self.done += 1;
        match self.plans.get(self.done) {
            Some(first) => self.first = (first.time, first.order),
            None => {
                (self.first, self.last, self.done) = (NEVER, 0, 0);
                self.plans.clear();
            }
        }
        if self.done == MANY {
            self.plans.drain(..MANY);
            self.done = 0;
        }
        next
    }
}

const NEVER: (u64, u32) = (u64::MAX, u32::MAX);

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// The next plan, and the lane in which it is.
    next: (u64, u32),
    lane: u32,
    planned: u32,
    lanes: Vec<Lane>,
    rest: BinaryHeap<Reverse<Planned>>,
}

impl Agenda {
    pub const EMPTY: Agenda =
        Agenda { next: NEVER, lane: 0, planned: 0, lanes: Vec::new(), rest: BinaryHeap::new() };

    #[inline]
    pub fn plan(&mut self, thing: u32, time: u64) {
        if self.next == NEVER {
            (self.next, self.lane, self.planned) = ((time, 0), 0, 0);
            if self.lanes.is_empty() {
                self.lanes.push(Lane::EMPTY);
            }
            self.lanes[0].push(Planned { time, order: 0, thing });
            return;
        }
        self.planned = self.planned.checked_add(1).expect("fewer than 2^32 plans without a rest");
        let planned = Planned { time, order: self.planned, thing };
        // That whose last plan is closest before this one.
        let (mut at, mut closest) = (usize::MAX, 0);
        for (other, lane) in self.lanes.iter().enumerate() {
            if lane.last <= time && lane.last >= closest {
                (at, closest) = (other, lane.last);
            }
        }
        if at == usize::MAX && self.lanes.len() < LANES {
            at = self.lanes.len();
            self.lanes.push(Lane::EMPTY);
        }
        match self.lanes.get_mut(at) {
            Some(lane) => lane.push(planned),
            None => self.rest.push(Reverse(planned)),
        }
        if time < self.next.0 {
            (self.next, self.lane) = ((time, self.planned), at as u32);
        }
    }

    /// Has its lanes fetched, of which a few are in use.
    #[inline]
    pub fn fetch_lanes(&self) {
        (0..3).for_each(|lane| fetch(&self.lanes, lane));
    }

    /// Has the first plans of its lanes fetched.
    #[inline]
    pub fn fetch_firsts(&self) {
        self.lanes.iter().for_each(|lane| fetch(&lane.plans, lane.done));
    }

    /// What is planned first in each lane.
    #[inline]
    pub fn firsts(&self) -> impl Iterator<Item = u32> {
        self.lanes.iter().filter_map(|lane| lane.plans.get(lane.done)).map(|plan| plan.thing)
    }

    /// When the next thing is due, or the end of time.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next.0
    }

    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        let next = match self.lanes.get_mut(self.lane as usize) {
            Some(lane) => lane.pop()?,
            None => self.rest.pop()?.0,
        };
        if let [lane] = &self.lanes[..] {
            self.next = lane.first; // and nothing waits elsewhere
            return Some(next.thing);
        }
        let rest = self.rest.peek().map_or(NEVER, |Reverse(rest)| (rest.time, rest.order));
        (self.next, self.lane) = (rest, u32::MAX);
        for (at, lane) in (0..).zip(&self.lanes) {
            if lane.first < self.next {
                (self.next, self.lane) = (lane.first, at);
            }
        }
        Some(next.thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is planned between what happens: by time, then as it was planned.
        #[test]
        fn an_agenda_is_in_order(steps in prop::collection::vec((0u64..50, 0u32..4), 1..300)) {
            let (mut agenda, mut sorted) = (Agenda::EMPTY, Vec::new());
            for (thing, (ahead, pops)) in (0..).zip(steps) {
                let now = sorted.first().map_or(0, |&(time, _)| time);
                agenda.plan(thing, now + ahead);
                sorted.push((now + ahead, thing));
                sorted.sort_by_key(|&(time, _)| time);
                for _ in 0..pops.min(sorted.len() as u32) {
                    let (time, thing) = sorted.remove(0);
                    prop_assert_eq!((agenda.next(), agenda.pop()), (time, Some(thing)));
                }
            }
            for (time, thing) in sorted {
                prop_assert_eq!((agenda.next(), agenda.pop()), (time, Some(thing)));
            }
            prop_assert_eq!((agenda.next(), agenda.pop()), (u64::MAX, None));
        }
    }
}
