//! What is on its way to the units of a group, by the window in which it arrives; and what arrives in one,
//! brought to where it is read: side by side by unit, and within a unit nearly in order of time.
//!
//! Order comes from counting (Knuth, The Art of Computer Programming, vol. 3, 5.2, distribution counting): memory
//! is read from one end to the other, and few comparisons are left to be guessed.
//! Checked against what was posted, on random times, groups and windows (`transit.rs`).

use crate::ahead::fetch_end;
use crate::schedule::{Arrival, part};
use std::ops::Range;

/// Windows after the one that is worked off that have lists. What arrives later is rare.
pub(crate) const NEAR: u64 = 2;
/// Lists: that of the window that is worked off, too, and a power of two.
const LISTS: usize = 4;
/// Parts of a window, at most, by which the letters of a unit are put into order: a power of two.
const PARTS: usize = 8;
/// Letters for a smaller share of the units than one of so many are not worth counting.
const SPARSE: usize = 4;
/// Letters that may come before memory is there that is asked for.
const SOON: usize = 7;

/// A packet that is on its way to a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    /// How long after its window began it arrives \[ps\]: a window is shorter than 2^32.
    after: u32,
    pub unit: u32,
    what: u64,
}

impl Letter {
    /// What arrives, in a window that starts at a time.
    #[inline]
    pub fn arrival(&self, starts: u64) -> Arrival {
        Arrival { time: starts + u64::from(self.after), what: self.what }
    }
}

/// An empty list takes the memory that another had last, for that is what a cache holds.
#[cold]
fn make_room(list: &mut Vec<Letter>, rooms: &mut Vec<Vec<Letter>>) {
    if list.is_empty()
        && let Some(room) = rooms.pop()
    {
        *list = room;
    }
}

/// What is on its way to the units of a group.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    lists: [Vec<Letter>; LISTS],
}

impl Mail {
    /// Something arrives at a unit in a window, which is among the next [`NEAR`] ones, so long after it starts.
    #[inline(always)]
    pub fn put(
        &mut self,
        window: u64,
        after: u64,
        (unit, arrival): (u32, Arrival),
        rooms: &mut Vec<Vec<Letter>>,
    ) {
        let list = &mut self.lists[window as usize % LISTS];
        if list.len() == list.capacity() {
            make_room(list, rooms);
        }
        list.push(Letter { after: after as u32, unit, what: arrival.what });
        fetch_end(list, SOON);
    }

    /// What arrives in a window.
    pub fn of(&self, window: u64) -> &[Letter] {
        &self.lists[window as usize % LISTS]
    }

    /// Takes what arrives in a window.
    pub fn take(&mut self, window: u64) -> Vec<Letter> {
        std::mem::take(&mut self.lists[window as usize % LISTS])
    }

    /// The first window after `current` with a letter.
    pub fn first(&self, current: u64) -> Option<u64> {
        (current + 1..=current + NEAR).find(|&window| !self.of(window).is_empty())
    }

    pub fn len(&self) -> usize {
        self.lists.iter().map(Vec::len).sum()
    }
}

/// What arrives in a window at the units of a group.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    pub arrivals: Vec<Arrival>,
    /// By unit and part of the window: where its arrivals end.
    ends: Vec<u32>,
    /// The first unit.
    first: u32,
}

impl Sorted {
    /// Whether so many letters are worth sorting, for all units of the group are looked at then.
    pub fn is_worth(letters: &[Letter], units: &Range<u32>) -> bool {
        letters.len() * SPARSE >= units.len()
    }

    /// Sorts letters of a window, which starts at a time and has a length \[ps\], to these units; adds to a list
    /// those that have any, in order.
    pub fn fill(
        &mut self,
        letters: &[Letter],
        (starts, length): (u64, u64),
        units: Range<u32>,
        list: &mut Vec<u32>,
    ) {
        self.first = units.start;
        self.ends.clear();
        self.ends.resize(units.len() * PARTS, 0);
        let shift = part(length, PARTS);
        let place = |letter: &Letter| {
            (letter.unit - units.start) as usize * PARTS + (letter.after >> shift) as usize
        };
        letters.iter().for_each(|letter| self.ends[place(letter)] += 1);
        let mut end = 0;
        for (unit, parts) in units.clone().zip(self.ends.chunks_exact_mut(PARTS)) {
            let before = end;
            for count in parts {
                (*count, end) = (end, end + *count);
            }
            if end > before {
                list.push(unit);
            }
        }
        self.arrivals.resize(letters.len(), Arrival::new(0, 0, 0));
        for letter in letters {
            let end = &mut self.ends[place(letter)];
            self.arrivals[*end as usize] = letter.arrival(starts);
            *end += 1;
        }
    }

    /// There are none.
    pub fn clear(&mut self) {
        self.ends.clear();
    }

    /// Where the arrivals of a unit are.
    #[inline]
    pub fn range(&self, unit: u32) -> Range<usize> {
        if self.ends.is_empty() {
            return 0..0;
        }
        let at = (unit - self.first) as usize * PARTS;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        start as usize..self.ends[at + PARTS - 1] as usize
    }
}
