//! What is on its way to the units of a group, by the window in which it arrives; and what arrives in one,
//! brought to where it is read: side by side by unit, and within a unit nearly in order of time.
//!
//! Order comes from counting (Knuth, The Art of Computer Programming, vol. 3, 5.2, distribution counting), so
//! that memory is read from one end to the other, and no comparison is guessed wrongly.
//! Checked against a sorted list, on random letters.

use crate::schedule::Arrival;
use std::ops::Range;

/// Lists of windows: that which is worked off and those after it that have one, or a power of two.
const LISTS: usize = 4;
/// Windows after the one that is worked off whose letters are kept here. What arrives later is rare.
pub(crate) const NEAR: u64 = 2;
/// Parts of a window, at most, by which the letters of a unit are put into order: a power of two.
const PARTS: usize = 8;
/// Fewer letters than this share of the units' number are not worth looking at all units.
const SPARSE: usize = 4;

/// A packet that is on its way to a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    /// When it arrives after the window of its list began \[ps\].
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

/// Lists take the memory that others had last, for that is what a cache holds.
#[cold]
fn make_room(list: &mut Vec<Letter>, spare: &mut Vec<Vec<Letter>>) {
    match spare.pop() {
        Some(room) if list.is_empty() => *list = room,
        Some(room) => spare.push(room),
        None => {}
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
        spare: &mut Vec<Vec<Letter>>,
    ) {
        let list = &mut self.lists[window as usize % LISTS];
        if list.len() == list.capacity() {
            make_room(list, spare);
        }
        list.push(Letter { after: after as u32, unit, what: arrival.what });
        crate::ahead::fetch_beyond(list, 7);
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
    /// Whether letters are enough for it to be worth its while.
    pub fn is_worth(letters: &[Letter], units: &Range<u32>) -> bool {
        letters.len() * SPARSE >= units.len()
    }

    /// Sorts the letters of a window, which starts at a time and has a length, to some units; lists those
    /// that have any, in order.
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
        // The narrowest parts that are a power of two long and no more than there may be.
        let shift = (length.next_power_of_two() / PARTS as u64).max(1).trailing_zeros();
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
