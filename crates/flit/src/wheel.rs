//! What is on its way: lists of events by the cycle in which they happen.

/// Events of the next cycles. An event is due at most `span` cycles ahead.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    slots: Vec<Vec<T>>,
    mask: u64,
}

impl<T> Wheel<T> {
    pub fn new(span: u64) -> Self {
        let size = (span + 1).next_power_of_two();
        Wheel { slots: (0..size).map(|_| Vec::new()).collect(), mask: size - 1 }
    }
    /// Adds an event that is due in cycle `at`.
    #[inline]
    pub fn push(&mut self, at: u64, event: T) {
        self.slots[(at & self.mask) as usize].push(event);
    }
    /// The events of cycle `now`; give the list back with [`Wheel::put`] when they are handled.
    #[inline]
    pub fn take(&mut self, now: u64) -> Vec<T> {
        std::mem::take(&mut self.slots[(now & self.mask) as usize])
    }
    #[inline]
    pub fn put(&mut self, now: u64, mut list: Vec<T>) {
        list.clear();
        let slot = &mut self.slots[(now & self.mask) as usize];
        debug_assert!(slot.is_empty());
        *slot = list;
    }
}
