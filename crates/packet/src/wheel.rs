//! The time-bucketed queue of what happens soon: packets that arrive, links that fall idle, flows
//! whose pace lets them send. A ring of buckets, each a chain of cache lines from one pool; a bucket is
//! sorted when its time has come. How wide a bucket is follows from how full they are.
//!
//! Ties at one picosecond are drawn at random from a seeded sequence: whoever was scheduled first
//! has no standing advantage, and the same seed gives the same order.
//! Checked against what was put in, on random schedules.

const BUCKETS: usize = 1 << 13;
const WORDS: usize = BUCKETS / 64;
/// A bucket is at most 2^20 ps wide, so that a time within it, a draw for ties and an id fit into
/// 64 bits.
const WIDEST: u32 = 20;
/// Where the time within a bucket stands in an entry; a draw of 12 bits and the id are below.
const WITHIN: u32 = 44;
/// Emptied buckets between two looks at how full they were.
const ADAPT_EVERY: u32 = 4096;
/// Entries in a line of a bucket's chain; its first word holds how many there are and the line after.
const LINE: usize = 7;
const NONE: u32 = u32::MAX;
/// The increment of Knuth's MMIX generator.
const DRAW: u64 = 1_442_695_040_888_963_407;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    next: u32,
    count: u32,
    entries: [u64; LINE],
}

#[derive(Debug)]
pub(crate) struct Wheel {
    /// log2 of a bucket's width \[ps\].
    shift: u32,
    narrowest: u32,
    /// By bucket: its first line, the only one that may have room.
    heads: Vec<u32>,
    /// Entries: time within the bucket, draw, id.
    lines: Vec<Line>,
    free: Vec<u32>,
    occupied: Vec<u64>,
    /// The bucket being emptied, by absolute number.
    current: u64,
    /// What is left of it, the next one last.
    ready: Vec<u64>,
    waiting: usize,
    draw: u64,
    emptied: u32,
    entries: u64,
    /// What a narrower wheel no longer reaches; whoever peeks must keep it elsewhere.
    pub spilled: Vec<(u64, u32)>,
}

impl Wheel {
    /// A wheel that reaches at least `horizon` picoseconds ahead, if that is less than 8 ms.
    pub fn new(horizon: u64, seed: u64) -> Self {
        let narrowest = (0..WIDEST).find(|s| horizon >> s < BUCKETS as u64 - 1).unwrap_or(WIDEST);
        Wheel {
            shift: narrowest,
            narrowest,
            heads: vec![NONE; BUCKETS],
            lines: Vec::new(),
            free: Vec::new(),
            occupied: vec![0; WORDS],
            current: 0,
            ready: Vec::new(),
            waiting: 0,
            draw: seed | 1,
            emptied: 0,
            entries: 0,
            spilled: Vec::new(),
        }
    }

    /// Adds an id at a time that is not before what was taken last; `false` if that is out of reach.
    #[inline]
    #[must_use]
    pub fn push(&mut self, id: u32, time: u64) -> bool {
        let bucket = time >> self.shift;
        if bucket >= self.current + BUCKETS as u64 {
            return false;
        }
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(DRAW);
        let within = time & ((1 << self.shift) - 1);
        let entry = within << WITHIN | self.draw >> 52 << 32 | u64::from(id);
        if bucket <= self.current {
            let at = self.ready.partition_point(|&other| other > entry);
            self.ready.insert(at, entry);
            return true;
        }
        let at = bucket as usize % BUCKETS;
        let head = self.heads[at];
        self.waiting += 1;
        if head != NONE {
            let line = &mut self.lines[head as usize];
            if (line.count as usize) < LINE {
                line.entries[line.count as usize] = entry;
                line.count += 1;
                return true;
            }
        } else {
            self.occupied[at / 64] |= 1 << (at % 64);
        }
        let mut line = Line { next: head, count: 1, entries: [0; LINE] };
        line.entries[0] = entry;
        self.heads[at] = match self.free.pop() {
            Some(id) => {
                self.lines[id as usize] = line;
                id
            }
            None => {
                self.lines.push(line);
                self.lines.len() as u32 - 1
            }
        };
        true
    }

    /// Moves a bucket's entries to `out`.
    #[inline]
    fn empty(&mut self, at: usize, out: &mut Vec<u64>) {
        let mut id = std::mem::replace(&mut self.heads[at], NONE);
        while id != NONE {
            let line = &self.lines[id as usize];
            out.extend_from_slice(&line.entries[..line.count as usize]);
            self.free.push(id);
            id = line.next;
        }
    }

    /// When the next thing happens; perhaps `None` if that is after `limit`, when something else will
    /// happen.
    #[inline]
    pub fn peek(&mut self, limit: u64) -> Option<u64> {
        if self.ready.is_empty() {
            self.advance(limit)?;
        }
        self.ready.last().map(|entry| (self.current << self.shift) + (entry >> WITHIN))
    }

    /// Takes what [`Wheel::peek`] announced.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        self.ready.pop().map(|entry| entry as u32)
    }

    /// Whether anything is in it.
    pub fn waits(&self) -> bool {
        self.waiting > 0 || !self.ready.is_empty()
    }

    #[inline(never)]
    fn advance(&mut self, limit: u64) -> Option<()> {
        if self.emptied >= ADAPT_EVERY {
            self.adapt();
            if !self.ready.is_empty() {
                return Some(());
            }
        }
        let next = if self.waiting == 0 { None } else { self.next_occupied() };
        let Some(bucket) = next.filter(|bucket| bucket << self.shift <= limit) else {
            // Nothing lies between here and the limit: reach ahead of it from now on.
            if limit != u64::MAX {
                self.current = self.current.max(limit >> self.shift);
            }
            return None;
        };
        self.current = bucket;
        let at = bucket as usize % BUCKETS;
        self.occupied[at / 64] &= !(1 << (at % 64));
        let mut ready = std::mem::take(&mut self.ready);
        self.empty(at, &mut ready);
        self.ready = ready;
        self.waiting -= self.ready.len();
        self.emptied += 1;
        self.entries += self.ready.len() as u64;
        sort(&mut self.ready);
        Some(())
    }

    /// The first occupied bucket after the current one.
    fn next_occupied(&self) -> Option<u64> {
        let start = (self.current + 1) as usize % BUCKETS;
        let (first_word, bit) = (start / 64, start % 64);
        let mut word = self.occupied[first_word] & (!0 << bit);
        for step in 0..=WORDS {
            if word != 0 {
                let at = (first_word + step) % WORDS * 64 + word.trailing_zeros() as usize;
                return Some(self.absolute(at));
            }
            word = self.occupied[(first_word + step + 1) % WORDS];
        }
        None
    }

    /// The number of the bucket at a place of the ring: the first after the current one.
    fn absolute(&self, at: usize) -> u64 {
        let start = (self.current + 1) as usize % BUCKETS;
        self.current + 1 + ((at + BUCKETS - start) % BUCKETS) as u64
    }

    /// Between two buckets: makes them wider or narrower if they are too empty or too full.
    #[cold]
    fn adapt(&mut self) {
        let mean = self.entries / u64::from(self.emptied.max(1));
        (self.emptied, self.entries) = (0, 0);
        let shift = match mean {
            0..4 => (self.shift + 1).min(WIDEST),
            4..24 => self.shift,
            _ => self.shift.saturating_sub(1).max(self.narrowest),
        };
        if shift == self.shift {
            return;
        }
        let mut all: Vec<(u64, u32)> = Vec::with_capacity(self.waiting);
        let mut entries = Vec::new();
        for at in 0..BUCKETS {
            let base = self.absolute(at) << self.shift;
            entries.clear();
            self.empty(at, &mut entries);
            all.extend(entries.iter().map(|entry| (base + (entry >> WITHIN), *entry as u32)));
        }
        self.occupied.fill(0);
        self.waiting = 0;
        self.current = (self.current << self.shift) >> shift;
        self.shift = shift;
        for (time, id) in all {
            if !self.push(id, time) {
                self.spilled.push((time, id));
            }
        }
    }
}

/// Sorts falling: by insertion while it is short.
fn sort(entries: &mut [u64]) {
    if entries.len() > 32 {
        entries.sort_unstable_by(|a, b| b.cmp(a));
        return;
    }
    for i in 1..entries.len() {
        let (entry, mut j) = (entries[i], i);
        while j > 0 && entries[j - 1] < entry {
            entries[j] = entries[j - 1];
            j -= 1;
        }
        entries[j] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Everything comes out once, at its time, in the order of time, whatever is pushed meanwhile
        /// and whatever else happens in between.
        #[test]
        fn comes_out_in_order(
            gaps in prop::collection::vec((0u64..3_000_000, 0u64..2_000), 1..400),
            burst in 1usize..20,
            limit in 1u64..5_000_000,
        ) {
            let mut wheel = Wheel::new(3_100_000, 7);
            let (mut times, mut now, mut out) = (vec![], 0, vec![]);
            let mut gaps = gaps.into_iter();
            loop {
                for (far, near) in gaps.by_ref().take(burst) {
                    let time = now + if far % 3 == 0 { near } else { far };
                    prop_assert!(wheel.push(times.len() as u32, time));
                    times.push(time);
                }
                if !wheel.waits() {
                    break;
                }
                match wheel.peek(now + limit) {
                    Some(time) if time <= now + limit => {
                        let id = wheel.pop().expect("announced");
                        prop_assert_eq!(times[id as usize], time);
                        prop_assert!(time >= now);
                        now = time;
                        out.push(id);
                    }
                    _ => now += limit, // something else happens first
                }
            }
            out.sort_unstable();
            prop_assert_eq!(out, (0..times.len() as u32).collect::<Vec<_>>());
        }
    }

    /// The width follows the load, and nothing is lost.
    #[test]
    fn buckets_adapt() {
        let mut wheel = Wheel::new(2_000_000, 3);
        let first = wheel.shift;
        let mut now = 0;
        for round in 0..400_000u64 {
            let gap = if round < 200_000 { 5 } else { 60_000 };
            assert!(wheel.push(0, now + gap));
            if round < 200_000 && round % 2 == 0 {
                assert!(wheel.push(1, now + 1_000_000));
            }
            now = wheel.peek(u64::MAX).expect("just pushed");
            wheel.pop();
        }
        assert!(wheel.shift > first, "wide buckets for few events");
        while wheel.peek(u64::MAX).is_some() {
            wheel.pop();
        }
        assert!(!wheel.waits());
    }

    /// A wheel that becomes narrower hands over what it no longer reaches, and keeps the rest.
    #[test]
    fn nothing_is_lost_when_buckets_narrow() {
        let mut wheel = Wheel::new(1_000, 3);
        wheel.shift += 4;
        let far = (BUCKETS as u64 - 2) << wheel.shift;
        assert!(wheel.push(1, 100) && wheel.push(2, far));
        (wheel.emptied, wheel.entries) = (1, 1_000);
        wheel.adapt();
        assert_eq!(wheel.spilled, [(far, 2)]);
        assert_eq!(wheel.peek(u64::MAX), Some(100));
        assert_eq!((wheel.pop(), wheel.waits()), (Some(1), false));
    }

    /// Two that always happen together take turns in being first.
    #[test]
    fn ties_are_fair() {
        let mut wheel = Wheel::new(1_000, 1);
        let mut first = [0u32; 2];
        for round in 1..=1_000 {
            assert!(wheel.push(0, round * 500) && wheel.push(1, round * 500));
            wheel.peek(u64::MAX);
            first[wheel.pop().expect("one of two") as usize] += 1;
            wheel.peek(u64::MAX);
            wheel.pop();
        }
        assert!(first[0].abs_diff(500) < 100, "{first:?}"); // six standard deviations
    }
}
