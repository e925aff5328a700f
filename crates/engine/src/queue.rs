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
///
/// Events of one picosecond may have ranks, which come before who came first.
///
/// ```
/// use lightloom_engine::EventQueue;
/// use lightloom_units::Time;
/// let mut queue = EventQueue::new();
/// let (first, second) = (queue.ticket(), queue.ticket());
/// queue.push_as(second, Time::ZERO, 1, "second");
/// queue.push_as(first, Time::ZERO, 1, "first"); // its ticket is older
/// queue.push_as(0, Time::ZERO, 2, "third");
/// let order = std::iter::from_fn(|| queue.pop_at(Time::ZERO));
/// assert_eq!(order.collect::<Vec<_>>(), ["first", "second", "third"]);
/// ```
#[derive(Debug)]
pub struct EventQueue<E, R = ()> {
    heap: BinaryHeap<Entry<E, R>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<E, R> {
    at: Time,
    rank: R,
    order: u64,
    event: E,
}

impl<E> EventQueue<E> {
    /// Adds an event.
    pub fn push(&mut self, at: Time, event: E) {
        let ticket = self.ticket();
        self.push_as(ticket, at, (), event);
    }
}

impl<E, R: Ord> EventQueue<E, R> {
    /// An empty queue.
    pub fn new() -> Self {
        EventQueue { heap: BinaryHeap::new(), pushed: 0 }
    }
    /// A place among what is added.
    pub fn ticket(&mut self) -> u64 {
        self.pushed += 1;
        self.pushed
    }
    /// Adds an event of a rank as if it had been added when the ticket was taken.
    pub fn push_as(&mut self, ticket: u64, at: Time, rank: R, event: E) {
        self.heap.push(Entry { at, rank, order: ticket, event });
    }
    /// Adds all events of another queue, behind what is there at the same instant and rank.
    pub fn append(&mut self, other: Self) {
        let before = self.pushed;
        let behind = |entry: Entry<E, R>| Entry { order: entry.order + before, ..entry };
        self.heap.extend(other.heap.into_iter().map(behind));
        self.pushed += other.pushed;
    }
    /// Calls each event something else.
    pub fn rename(&mut self, name: impl Fn(E) -> E) {
        let renamed = |entry: Entry<E, R>| Entry { event: name(entry.event), ..entry };
        self.heap = std::mem::take(&mut self.heap).into_iter().map(renamed).collect();
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

impl<E, R: Ord> Default for EventQueue<E, R> {
    fn default() -> Self {
        Self::new()
    }
}

// Reversed, because `BinaryHeap` gives the greatest.
impl<E, R: Ord> Ord for Entry<E, R> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, &other.rank, other.order).cmp(&(self.at, &self.rank, self.order))
    }
}
impl<E, R: Ord> PartialOrd for Entry<E, R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E, R: Ord> PartialEq for Entry<E, R> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<E, R: Ord> Eq for Entry<E, R> {}
