//! The time-bucketed queue of what happens soon: packets that arrive, links that fall idle, flows
//! whose pace lets them send. A ring of buckets, each an intrusive list through the things
//! themselves, so that nothing is allocated; a bucket is sorted when its time has come.
//!
//! Ties at one picosecond are drawn at random from a seeded sequence: whoever was scheduled first
//! has no standing advantage, and the same seed gives the same order.
//! Checked against a sorted list on random schedules.

/// The end of an intrusive list.
pub(crate) const NONE: u32 = u32::MAX;

const BUCKETS: usize = 1 << 14;
const WORDS: usize = BUCKETS / 64;
/// A bucket is at most 2^20 ps wide, so that a time within it, a draw for ties and an id fit into
/// 64 bits.
const WIDEST: u32 = 20;
/// Drained buckets between two looks at how full they were.
const ADAPT_EVERY: u32 = 4096;

/// The increment of Knuth's MMIX generator.
const DRAW: u64 = 1_442_695_040_888_963_407;

/// What an id in the wheel refers to: its time, and the id after it in its bucket.
pub(crate) trait Timed {
    /// When it happens \[ps\].
    fn time(&self, id: u32) -> u64;
    /// The link of the intrusive list.
    fn next(&mut self, id: u32) -> &mut u32;
}

#[derive(Debug)]
pub(crate) struct Wheel {
    /// log2 of a bucket's width \[ps\].
    shift: u32,
    narrowest: u32,
    heads: Vec<u32>,
    occupied: Vec<u64>,
    /// The bucket being emptied, by absolute number.
    current: u64,
    /// What is left of it: time within the bucket, draw, id; the next one last.
    ready: Vec<u64>,
    waiting: usize,
    draw: u64,
    drained: u32,
    drained_items: u64,
}

impl Wheel {
    /// A wheel that reaches at least `horizon` picoseconds ahead.
    pub fn new(horizon: u64, seed: u64) -> Self {
        let narrowest = (0..WIDEST).find(|s| horizon >> s < BUCKETS as u64 - 1).unwrap_or(WIDEST);
        Wheel {
            shift: narrowest,
            narrowest,
            heads: vec![NONE; BUCKETS],
            occupied: vec![0; WORDS],
            current: 0,
            ready: Vec::new(),
            waiting: 0,
            draw: seed | 1,
            drained: 0,
            drained_items: 0,
        }
    }

    /// Whether a time is near enough to be pushed.
    #[inline]
    pub fn reaches(&self, time: u64) -> bool {
        (time >> self.shift) < self.current + BUCKETS as u64
    }

    /// Adds an id whose time is set, not before what was taken last, and within reach.
    #[inline]
    pub fn push(&mut self, id: u32, time: u64, things: &mut impl Timed) {
        let bucket = time >> self.shift;
        if bucket <= self.current {
            let key = self.key(id, time);
            let at = self.ready.partition_point(|&other| other > key);
            self.ready.insert(at, key);
            return;
        }
        let at = bucket as usize % BUCKETS;
        *things.next(id) = self.heads[at];
        self.heads[at] = id;
        self.occupied[at / 64] |= 1 << (at % 64);
        self.waiting += 1;
    }

    /// When the next thing happens; perhaps `None` if that is after `limit`, when something else will
    /// happen.
    #[inline]
    pub fn peek(&mut self, limit: u64, things: &mut impl Timed) -> Option<u64> {
        if self.ready.is_empty() {
            self.advance(limit, things)?;
        }
        self.ready.last().map(|key| (self.current << self.shift) + (key >> 44))
    }

    /// Whether anything is in it.
    pub fn waits(&self) -> bool {
        self.waiting > 0 || !self.ready.is_empty()
    }

    /// Takes what [`Wheel::peek`] announced.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        self.ready.pop().map(|key| key as u32)
    }

    fn key(&mut self, id: u32, time: u64) -> u64 {
        // Knuth's MMIX generator; its high bits are good enough to break ties.
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(DRAW);
        let within = time - (self.current << self.shift);
        within << 44 | self.draw >> 52 << 32 | u64::from(id)
    }

    #[cold]
    fn adapt(&mut self, things: &mut impl Timed) {
        let mean = self.drained_items / u64::from(self.drained.max(1));
        (self.drained, self.drained_items) = (0, 0);
        let shift = match mean {
            0..3 => (self.shift + 1).min(WIDEST),
            3..=16 => self.shift,
            _ => self.shift.saturating_sub(1).max(self.narrowest),
        };
        if shift == self.shift {
            return;
        }
        // A wider bucket can only be current again if nothing in it has been taken: go on from the
        // time of the current one, whose remainder is kept as it is.
        let now = self.current << self.shift;
        let mut all = Vec::with_capacity(self.waiting);
        for head in &mut self.heads {
            let mut id = std::mem::replace(head, NONE);
            while id != NONE {
                all.push(id);
                id = *things.next(id);
            }
        }
        self.occupied.fill(0);
        self.waiting = 0;
        self.shift = shift;
        self.current = now >> shift;
        all.sort_unstable_by_key(|&id| (things.time(id), id));
        for id in all {
            self.push(id, things.time(id), things);
        }
    }

    #[inline(never)]
    fn advance(&mut self, limit: u64, things: &mut impl Timed) -> Option<()> {
        if self.drained >= ADAPT_EVERY {
            self.adapt(things);
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
        let mut id = std::mem::replace(&mut self.heads[at], NONE);
        while id != NONE {
            let key = self.key(id, things.time(id));
            self.ready.push(key);
            id = *things.next(id);
        }
        let count = self.ready.len();
        self.waiting -= count;
        self.drained += 1;
        self.drained_items += count as u64;
        if count > 24 {
            self.ready.sort_unstable_by(|a, b| b.cmp(a));
        } else {
            for i in 1..count {
                let (key, mut j) = (self.ready[i], i);
                while j > 0 && self.ready[j - 1] < key {
                    self.ready[j] = self.ready[j - 1];
                    j -= 1;
                }
                self.ready[j] = key;
            }
        }
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
                let ahead = (at + BUCKETS - start) % BUCKETS;
                return Some(self.current + 1 + ahead as u64);
            }
            word = self.occupied[(first_word + step + 1) % WORDS];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Things(Vec<(u64, u32)>);
    impl Timed for Things {
        fn time(&self, id: u32) -> u64 {
            self.0[id as usize].0
        }
        fn next(&mut self, id: u32) -> &mut u32 {
            &mut self.0[id as usize].1
        }
    }

    proptest! {
        /// Everything comes out once, in the order of time, whatever is pushed meanwhile.
        #[test]
        fn comes_out_in_order(gaps in prop::collection::vec((0u64..3_000_000, 0u64..2_000), 1..400), burst in 1usize..20) {
            let mut wheel = Wheel::new(3_100_000, 7);
            let mut things = Things(vec![]);
            let (mut now, mut out, mut gaps) = (0, vec![], gaps.into_iter());
            loop {
                for (far, near) in gaps.by_ref().take(burst) {
                    let time = now + if far % 3 == 0 { near } else { far };
                    let id = things.0.len() as u32;
                    things.0.push((time, NONE));
                    prop_assert!(wheel.reaches(time));
                    wheel.push(id, time, &mut things);
                }
                let Some(time) = wheel.peek(u64::MAX, &mut things) else { break };
                let id = wheel.pop().expect("announced");
                prop_assert_eq!(things.time(id), time);
                prop_assert!(time >= now);
                now = time;
                out.push(id);
            }
            out.sort_unstable();
            prop_assert_eq!(out, (0..things.0.len() as u32).collect::<Vec<_>>());
        }
    }

    /// Two that always happen together take turns in being first.
    #[test]
    fn ties_are_fair() {
        let mut wheel = Wheel::new(1_000, 1);
        let mut things = Things(vec![(0, NONE); 2]);
        let mut first = [0u32; 2];
        for round in 1..=1_000 {
            for id in 0..2 {
                things.0[id as usize].0 = round * 500;
                wheel.push(id, round * 500, &mut things);
            }
            wheel.peek(u64::MAX, &mut things);
            first[wheel.pop().expect("one of two") as usize] += 1;
            wheel.peek(u64::MAX, &mut things);
            wheel.pop();
        }
        assert!(first[0].abs_diff(500) < 100, "{first:?}"); // six standard deviations
    }
}
