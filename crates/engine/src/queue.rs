//! The event queue: earliest first, and first come first served at one picosecond.

use lightloom_units::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A priority queue of events in simulated time with a stable order.
///
/// ```
/// use lightloom_engine::EventQueue;
/// use lightloom_units::Time;
/// let mut queue = EventQueue::new();
/// queue.push(Time::from_ns(2), "late");
/// queue.push(Time::from_ns(1), "first");
/// queue.push(Time::from_ns(1), "second");
/// assert_eq!(queue.pop(), Some((Time::from_ns(1), "first")));
/// assert_eq!(queue.pop(), Some((Time::from_ns(1), "second")));
/// assert_eq!(queue.peek_time(), Some(Time::from_ns(2)));
/// ```
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    order: u64,
    event: E,
}

impl<E> EventQueue<E> {
    /// An empty queue.
    pub fn new() -> Self {
        EventQueue { heap: BinaryHeap::new(), pushed: 0 }
    }
    /// Adds an event.
    pub fn push(&mut self, at: Time, event: E) {
        self.heap.push(Entry { at, order: self.pushed, event });
        self.pushed += 1;
    }
    /// Takes the earliest event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
    /// Takes the earliest event if it happens at `now`.
    pub fn pop_at(&mut self, now: Time) -> Option<E> {
        if self.peek_time() == Some(now) { self.pop().map(|(_, event)| event) } else { None }
    }
    /// The earliest event.
    pub fn peek(&self) -> Option<&E> {
        self.heap.peek().map(|entry| &entry.event)
    }
    /// When the earliest event happens.
    pub fn peek_time(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.at)
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

// Reversed, because `BinaryHeap` gives the greatest.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
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
