//! Events in their order: by time, and at one picosecond by when it became known that they come.

use lightloom_units::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Since when it is known that an event comes: while things happened at an instant, or once they had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Known(u64);

impl Known {
    pub fn since(instant: Time, settled: bool) -> Self {
        Known(instant.ps() << 1 | u64::from(settled))
    }
}

/// A priority queue of events in simulated time.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    pushed: u64,
}

/// Ordered by time, by what is known since when, by what was added first.
#[derive(Debug)]
struct Entry<E> {
    at: Time,
    known: Known,
    order: u64,
    event: E,
}

impl<E> Queue<E> {
    pub fn new() -> Self {
        Queue { heap: BinaryHeap::new(), pushed: 0 }
    }

    /// Adds an event.
    pub fn push(&mut self, at: Time, known: Known, event: E) {
        let order = self.ticket();
        self.push_as(order, at, known, event);
    }

    /// A place in the order of what is added.
    pub fn ticket(&mut self) -> u64 {
        self.pushed += 1;
        self.pushed
    }

    /// Adds an event as if it had been added when the ticket was taken.
    pub fn push_as(&mut self, ticket: u64, at: Time, known: Known, event: E) {
        self.heap.push(Entry { at, known, order: ticket, event });
    }

    /// Takes the earliest event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }

    /// Takes the earliest event if it happens at `now`.
    pub fn pop_at(&mut self, now: Time) -> Option<E> {
        let is_now = self.heap.peek().is_some_and(|entry| entry.at == now);
        if is_now { self.pop().map(|(_, event)| event) } else { None }
    }
}

// Reversed, because `BinaryHeap` gives the greatest.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.known, other.order).cmp(&(self.at, self.known, self.order))
    }
}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<E> Eq for Entry<E> {}
