//! Events in their order: by time, and at one picosecond by when it became known that they come.

use lightloom_units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A priority queue of events in simulated time.
#[derive(Debug, Default)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    pushed: u64,
}

/// Ordered by time, by what is known since when, by what was added first.
#[derive(Debug)]
struct Entry<E> {
    at: Time,
    known: (Time, bool),
    order: u64,
    event: E,
}

impl<E> Queue<E> {
    pub fn new() -> Self {
        Queue { heap: BinaryHeap::new(), pushed: 0 }
    }

    /// Adds an event, known since some instant: while things happened, or once they had.
    pub fn push(&mut self, at: Time, known: (Time, bool), event: E) {
        self.heap.push(Reverse(Entry { at, known, order: self.pushed, event }));
        self.pushed += 1;
    }

    /// Takes the earliest event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }

    /// Takes the earliest event if it happens at `now`.
    pub fn pop_at(&mut self, now: Time) -> Option<E> {
        let is_now = self.heap.peek().is_some_and(|Reverse(entry)| entry.at == now);
        if is_now { self.pop().map(|(_, event)| event) } else { None }
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, (Time, bool), u64) {
        (self.at, self.known, self.order)
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for Entry<E> {}
