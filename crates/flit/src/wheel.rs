//! What is on its way: lists of events by the cycle in which they happen, and within a cycle by
//! where, so that a stretch of memory is worked on at a time.

/// Events of the next cycles. An event is due at most `span` cycles ahead.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    slots: Vec<Vec<T>>,
    mask: u64,
    blocks: usize,
}

/// With no room for anything.
impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Wheel { slots: Vec::new(), mask: 0, blocks: 0 }
    }
}

impl<T> Wheel<T> {
    pub fn new(span: u64, blocks: usize) -> Self {
        let size = (span + 1).next_power_of_two();
        let slots = (0..size as usize * blocks).map(|_| Vec::new()).collect();
        Wheel { slots, mask: size - 1, blocks }
    }
    /// How far ahead an event may be due.
    pub fn span(&self) -> u64 {
        self.mask
    }
    /// Makes room for events that are due up to `span` cycles ahead; nothing may be on its way.
    pub fn stretch(&mut self, span: u64) {
        if span > self.mask {
            let more = Wheel::new(span, self.blocks);
            debug_assert!(self.slots.iter().all(Vec::is_empty));
            *self = more;
        }
    }
    #[inline]
    fn slot(&mut self, at: u64, block: usize) -> &mut Vec<T> {
        &mut self.slots[(at & self.mask) as usize * self.blocks + block]
    }
    /// Adds an event that is due in cycle `at`.
    #[inline]
    pub fn push(&mut self, at: u64, block: usize, event: T) {
        self.slot(at, block).push(event);
    }
    /// A block's events of cycle `now`; give the list back with [`Wheel::put`] when they are handled.
    #[inline]
    pub fn take(&mut self, now: u64, block: usize) -> Vec<T> {
        std::mem::take(self.slot(now, block))
    }
    #[inline]
    pub fn put(&mut self, now: u64, block: usize, mut list: Vec<T>) {
        list.clear();
        *self.slot(now, block) = list;
    }
}
