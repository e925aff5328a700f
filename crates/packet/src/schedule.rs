//! What is due when: by unit a list of packets on their way to it, by window a list of units that have
//! something to do in it.
//!
//! Packets that arrive at one picosecond go in an order that a hash of the time and of their links gives:
//! no link is always first, and the order does not depend on which of them was sent first. After them
//! comes what a unit planned itself, in the order in which it was planned.
//! Checked against what was put in, on random schedules.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Windows ahead that have lists; what is due later waits in a heap.
const AHEAD: u64 = 64;
/// Up to so many arrivals are sorted by insertion.
const FEW: usize = 32;
/// In no list.
const NOWHERE: u64 = u64::MAX;

/// A packet on its way to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub time: u64,
    /// The link that it comes over, which orders those of one time, and which packet it is: one word, for a
    /// processor waits if it reads at once what was written in parts just now.
    pub what: u64,
}

impl Arrival {
    #[inline]
    pub fn new(time: u64, link: u32, packet: u32) -> Self {
        Arrival { time, what: u64::from(link) << 32 | u64::from(packet) }
    }
    #[inline]
    pub fn packet(&self) -> u32 {
        self.what as u32
    }
    #[inline]
    fn link(&self) -> u32 {
        (self.what >> 32) as u32
    }
    /// The same one by another number.
    #[inline]
    pub fn renamed(&self, packet: u32) -> Self {
        Arrival::new(self.time, self.link(), packet)
    }
    /// Another number for each link, at one time.
    #[inline]
    fn tie(&self, seed: u64) -> u32 {
        let salt = ((self.time ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32;
        let mixed = (self.link() ^ salt).wrapping_mul(0x9E37_79B1);
        mixed ^ mixed >> 15
    }
    #[inline]
    fn is_after(&self, other: &Arrival, seed: u64) -> bool {
        self.time > other.time || (self.time == other.time && self.loses(other, seed))
    }
    /// Whether it is the second of two at one time. Never inlined, or all arrivals were hashed for the few that tie.
    #[cold]
    #[inline(never)]
    fn loses(&self, other: &Arrival, seed: u64) -> bool {
        self.tie(seed) > other.tie(seed)
    }
}

/// Sorts by time; what has been sorted before costs little. The seed decides ties.
#[inline]
pub(crate) fn sort(arrivals: &mut [Arrival], seed: u64) {
    if arrivals.len() > FEW {
        spread(arrivals, seed);
    }
    for i in 1..arrivals.len() {
        let arrival = arrivals[i];
        let mut j = i;
        while j > 0 && arrivals[j - 1].is_after(&arrival, seed) {
            arrivals[j] = arrivals[j - 1];
            j -= 1;
        }
        arrivals[j] = arrival;
    }
}

/// Brings many nearly into order: by equal parts of the time that they take. If too many come at once it
/// sorts them.
#[inline(never)]
fn spread(arrivals: &mut [Arrival], seed: u64) {
    const PARTS: usize = 128;
    let times = || arrivals.iter().map(|arrival| arrival.time);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let shift = u64::BITS - ((last - first) / PARTS as u64).leading_zeros();
    let part = |arrival: &Arrival| ((arrival.time - first) >> shift) as usize;
    let mut ends = [0u32; PARTS];
    arrivals.iter().for_each(|arrival| ends[part(arrival)] += 1);
    if ends.iter().any(|&count| count as usize > FEW) {
        arrivals.sort_by_key(|arrival| (arrival.time, arrival.tie(seed)));
        return;
    }
    let mut end = 0;
    for count in &mut ends {
        end += *count;
        *count = end;
    }
    let mut sorted = arrivals.to_vec();
    for arrival in arrivals.iter().rev() {
        let end = &mut ends[part(arrival)];
        *end -= 1;
        sorted[*end as usize] = *arrival;
    }
    arrivals.copy_from_slice(&sorted);
}

/// How long a part of a window of a length is, as a power of two \[ps\], if there are at most so many, a power
/// of two.
#[inline]
pub(crate) fn part(length: u64, parts: usize) -> u32 {
    (length.next_power_of_two() / parts as u64).max(1).trailing_zeros()
}

/// When a unit is due, and where it is listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// The next thing that happens in it \[ps\].
    pub next: u64,
    /// The window of the list that it is in.
    listed: u64,
}

impl Due {
    pub const NEVER: Due = Due { next: u64::MAX, listed: NOWHERE };
}

/// By window: the units that have something to do.
#[derive(Debug)]
pub(crate) struct Calendar {
    lists: Vec<Vec<u32>>,
    /// Lists that hold something, one bit each.
    filled: u64,
    later: BinaryHeap<Reverse<(u64, u32)>>,
    /// The window that is worked off, or the last one that was.
    window: u64,
    /// When that one starts \[ps\].
    starts: u64,
    /// How long a window is \[ps\].
    length: u64,
}

impl Calendar {
    pub fn new(length: u64) -> Self {
        let lists = vec![Vec::new(); AHEAD as usize];
        Calendar { lists, filled: 0, later: BinaryHeap::new(), window: 0, starts: 0, length }
    }

    /// A unit has something to do at a time.
    #[inline]
    pub fn list(&mut self, unit: u32, due: &mut Due, time: u64) {
        due.next = time;
        // Most are due in one of the next two windows.
        let window = match time.checked_sub(self.starts) {
            Some(ahead) if ahead < self.length => self.window,
            Some(ahead) if ahead < 2 * self.length => self.window + 1,
            Some(_) => time / self.length,
            None => self.window,
        };
        if window == due.listed {
            return;
        }
        due.listed = window;
        if window < self.window + AHEAD {
            let at = window % AHEAD;
            self.lists[at as usize].push(unit);
            self.filled |= 1 << at;
        } else {
            self.later.push(Reverse((window, unit)));
        }
    }

    /// The first window with anything to do.
    pub fn first(&self) -> Option<u64> {
        let later = self.later.peek().map(|Reverse((window, _))| *window);
        if self.filled == 0 {
            return later;
        }
        let ahead = self.filled.rotate_right((self.window % AHEAD) as u32).trailing_zeros();
        let near = self.window + u64::from(ahead);
        Some(later.map_or(near, |later| near.min(later)))
    }

    /// Takes the list of a window, which is not before the last one; it may name a unit that is not due.
    pub fn open(&mut self, window: u64) -> Vec<u32> {
        (self.window, self.starts) = (window, window * self.length);
        while let Some(&Reverse((later, unit))) = self.later.peek() {
            if later >= window + AHEAD {
                break;
            }
            self.later.pop();
            self.lists[(later % AHEAD) as usize].push(unit);
            self.filled |= 1 << (later % AHEAD);
        }
        self.filled &= !(1 << (window % AHEAD));
        std::mem::take(&mut self.lists[(window % AHEAD) as usize])
    }

    /// Whether a unit of the list of this window is due in it; it is in no list then.
    #[inline]
    pub fn strike(&self, due: &mut Due) -> bool {
        due.listed == self.window && {
            due.listed = NOWHERE;
            true
        }
    }

    /// Gives the memory of a list back.
    pub fn close(&mut self, mut list: Vec<u32>) {
        let place = &mut self.lists[(self.window % AHEAD) as usize];
        if place.is_empty() && place.capacity() < list.capacity() {
            list.clear();
            *place = list;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each unit's times come out once, window by window, and none before its window or after it.
        #[test]
        fn a_calendar_forgets_nothing(
            gaps in prop::collection::vec((0u64..200_000, 0u64..40), 1..200), length in 1u64..3_000,
        ) {
            let mut calendar = Calendar::new(length);
            // By unit: its times, of which the calendar knows the first.
            let mut times: Vec<Vec<u64>> = vec![Vec::new(); 5];
            for (at, &(far, near)) in gaps.iter().enumerate() {
                times[at % 5].push(if far % 3 == 0 { near } else { far });
            }
            times.iter_mut().for_each(|times| times.sort_unstable());
            let mut dues = [Due::NEVER; 5];
            for (unit, times) in times.iter().enumerate().filter(|(_, times)| !times.is_empty()) {
                calendar.list(unit as u32, &mut dues[unit], times[0]);
            }
            let mut last = None;
            while let Some(window) = calendar.first() {
                prop_assert!(last.is_none_or(|last| last < window));
                last = Some(window);
                let list = calendar.open(window);
                for &unit in &list {
                    let (due, times) = (&mut dues[unit as usize], &mut times[unit as usize]);
                    if !calendar.strike(due) {
                        continue;
                    }
                    while times.first().is_some_and(|&time| time < (window + 1) * length) {
                        prop_assert_eq!(times.remove(0) / length, window);
                    }
                    if let Some(&time) = times.first() {
                        calendar.list(unit, due, time);
                    }
                }
                calendar.close(list);
            }
            prop_assert!(times.iter().all(Vec::is_empty));
        }

        /// Few or many: by time, ties by a hash that knows each link.
        #[test]
        fn arrivals_are_sorted(
            times in prop::collection::vec(0u64..2_000, 1..300), scale in 1u64..100, seed in 0u64..100,
        ) {
            let mut all: Vec<Arrival> =
                times.iter().zip(0..).map(|(&time, link)| Arrival::new(time / scale, link, 0)).collect();
            let mut turned: Vec<Arrival> = all.iter().rev().copied().collect();
            sort(&mut all, seed);
            sort(&mut turned, seed);
            prop_assert_eq!(&all, &turned, "in whatever order they were sent");
            prop_assert!(all.windows(2).all(|two| two[0].time <= two[1].time));
        }
    }

    /// Two that always come together take turns in being first.
    #[test]
    fn ties_are_fair() {
        let mut first = 0;
        for round in 1..=1_000 {
            let arrival = |link| Arrival::new(round * 332_800, link, 0);
            let mut two = [arrival(17), arrival(23)];
            sort(&mut two, 1);
            first += u32::from(two[0].link() == 17);
        }
        assert!(first.abs_diff(500) < 100, "{first}"); // six standard deviations
    }
}
