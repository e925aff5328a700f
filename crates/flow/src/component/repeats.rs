//! Components that come again: what they came to is kept, and not computed again.
//!
//! An all-to-all goes back the way that it came, demands come again in other micro-batches, and so do
//! regions that are alike. What a component does depends on its paths, bytes and capacities alone, each by
//! its number in the component. So it is found by a hash of 128 bits of these; two that differ have the
//! same one less often than memory errs. Where few come again, nothing is kept.
//! Checked: against plans that are made anew, on random components that come again.

use super::plan::{Instant, MOST as MOST_FLOWS, Plan};
use lightloom_units::Time;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Memory for what is kept \[words of 8 B\], in two halves: what was not asked for while the younger one
/// filled goes.
const MOST: usize = if cfg!(test) { 1 << 10 } else { 8 << 20 };
/// What an entry takes beside its words \[words\], about.
const ENTRY: usize = 5;
/// After so many questions it is looked at how many were answered.
const LOOK: u32 = 1 << 16;
/// Of so many at least one is to be, or nothing is kept any more: asking and keeping cost more than that spares.
const WORTH: u32 = 10;
/// Bits of a flow's number, or of how many there are; a time has the others of a word.
const FLOW: u32 = MOST_FLOWS.ilog2() + 1;

/// What has been planned before, and what that came to.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    young: Shelf,
    old: Shelf,
    asked: u32,
    pub(super) found: u32,
    /// Few come again.
    off: bool,
    /// Of the last component that was asked for and not found.
    key: Option<u128>,
    /// By flow: whether it ends.
    ends: Vec<bool>,
}

/// What plans said, whenever they began.
#[derive(Debug, Default)]
struct Shelf {
    /// Where each begins.
    at: HashMap<u128, u32, BuildHasherDefault<Whole>>,
    /// Of each: how many instants, and how often rates were computed; instants, each a time and how many have
    /// ended by then; when each flow ends, and which it is; what is left of the others.
    words: Vec<u64>,
}

impl Repeats {
    /// What a plan comes to that has begun, if it came before; says how often rates were computed then.
    pub fn recall(
        &mut self,
        plan: &mut Plan,
        tolerance: f64,
        instants: &mut Vec<Instant>,
    ) -> Option<u64> {
        self.key = None;
        if self.asked == LOOK {
            self.off = self.found < LOOK / WORTH;
            (self.asked, self.found) = (0, 0);
            if self.off {
                (self.young, self.old) = Default::default();
            }
        }
        if self.off {
            return None;
        }
        self.asked += 1;
        let key = key(plan, tolerance);
        let flows = plan.marks.len();
        let at = match (self.young.at.get(&key), self.old.at.get(&key)) {
            (Some(&at), _) => at as usize,
            (None, Some(&at)) => {
                let words = &self.old.words[at as usize..];
                let words = words[..length(words, flows)].to_vec();
                self.put(key, &words)
            }
            (None, None) => {
                self.key = Some(key);
                return None;
            }
        };
        self.found += 1;
        Some(self.read(at, plan, instants))
    }

    /// Fills in a plan, by what stands on the younger shelf.
    fn read(&mut self, at: usize, plan: &mut Plan, instants: &mut Vec<Instant>) -> u64 {
        let (began, flows) = (plan.began, plan.marks.len());
        let (&[head, solves], words) = self.young.words[at..].split_first_chunk().expect("a head");
        let (told, words) = words.split_at(head as usize);
        let number = |word: u64| (word & ((1 << FLOW) - 1)) as u32;
        let time = |word: u64| began.saturating_add(Time::from_ps(word >> FLOW));
        instants.clear();
        let mut since = began;
        for (&word, count) in told.iter().zip(1..) {
            let at = time(word);
            instants.push(Instant { at, count, since, ends: number(word) });
            since = at;
        }
        let (ends, left) = words.split_at(instants.last().map_or(0, |last| last.ends as usize));
        self.ends.clear();
        self.ends.resize(flows, false);
        for &word in ends {
            self.ends[number(word) as usize] = true;
            plan.ends.push((number(word), time(word)));
        }
        let stay = (0..).zip(&self.ends).filter(|&(_, &ends)| !ends).map(|(flow, _)| flow);
        plan.left.extend(stay.zip(left.iter().map(|&word| f64::from_bits(word))));
        plan.ends_at_all = true;
        solves
    }

    /// Keeps a plan that has been made after it was asked for.
    pub fn keep(&mut self, plan: &Plan, instants: &[Instant], solves: u64) {
        let Some(key) = self.key.take() else { return };
        let (began, last) = (plan.began, instants.last().map(|last| last.at));
        let longest = last.map_or(0, |last| last.saturating_sub(began).ps());
        if !plan.ends_at_all || longest >> (u64::BITS - FLOW) > 0 {
            return;
        }
        let word =
            |at: Time, number: u32| at.saturating_sub(began).ps() << FLOW | u64::from(number);
        let words = [instants.len() as u64, solves].into_iter();
        let words = words.chain(instants.iter().map(|instant| word(instant.at, instant.ends)));
        let words = words.chain(plan.ends.iter().map(|&(flow, at)| word(at, flow)));
        let words = words.chain(plan.left.iter().map(|&(_, left)| left.to_bits()));
        let words: Vec<u64> = words.collect();
        self.put(key, &words);
    }

    /// Says where it stands on the younger shelf.
    fn put(&mut self, key: u128, words: &[u64]) -> usize {
        if self.young.words.len() + ENTRY * self.young.at.len() + words.len() > MOST / 2 {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.at.clear();
            self.young.words.clear();
        }
        let at = self.young.words.len();
        self.young.words.extend_from_slice(words);
        self.young.at.insert(key, at as u32);
        at
    }
}

/// Of the words from there on, how many are of the plan that begins there.
fn length(words: &[u64], flows: usize) -> usize {
    2 + words[0] as usize + flows
}

/// Hashes what is a hash.
#[derive(Debug, Default)]
struct Whole(u64);

impl Hasher for Whole {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are whole words")
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A hash of what a component does depends on.
fn key(plan: &Plan, tolerance: f64) -> u128 {
    // With a tolerance it matters how old the flows are.
    let age = if tolerance > 0.0 { plan.began.saturating_sub(plan.born).ps() } else { 0 };
    let mut hash = Hash([0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03]);
    hash.add((plan.stride as u64) << 32 | plan.marks.len() as u64, plan.capacity.len() as u64);
    for four in plan.path.chunks(4) {
        let at = |place: usize| four.get(place).map_or(0, |&link| u64::from(link));
        hash.add(at(0) << 32 | at(1), at(2) << 32 | at(3));
    }
    for bytes in [&plan.marks, &plan.capacity] {
        for two in bytes.chunks(2) {
            hash.add(two[0].to_bits(), two.get(1).map_or(0, |bytes| bytes.to_bits()));
        }
    }
    hash.add(age, 0);
    u128::from(hash.0[0]) << 64 | u128::from(hash.0[1])
}

/// Two lanes of 64 bits, each folded with what is added by a multiplication of its own.
struct Hash([u64; 2]);

impl Hash {
    #[inline(always)]
    fn add(&mut self, one: u64, other: u64) {
        let fold = |lane: u64, secret: u64| {
            let product = u128::from(one ^ secret) * u128::from(other ^ lane);
            (product >> 64) as u64 ^ product as u64 ^ lane.rotate_left(29)
        };
        let [first, second] = self.0;
        self.0 = [fold(first, 0xa076_1d64_78bd_642f), fold(second, 0xe703_7ed1_a0b4_28db)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One flow of so many bytes over one link, and what it comes to.
    fn ask(repeats: &mut Repeats, bytes: u32) -> bool {
        let mut plan = Plan { stride: 1, path: vec![1], ..Plan::default() };
        (plan.marks, plan.capacity) = (vec![f64::from(bytes)], vec![1.0]);
        if repeats.recall(&mut plan, 0.0, &mut vec![]).is_some() {
            return true;
        }
        let at = Time::from_ps(bytes.into());
        (plan.ends, plan.ends_at_all) = (vec![(0, at)], true);
        repeats.keep(&plan, &[Instant { at, count: 1, since: Time::ZERO, ends: 1 }], 1);
        false
    }

    #[test]
    fn nothing_is_kept_where_few_come_again() {
        for (kinds, works) in [(1, true), (LOOK / 2, true), (LOOK, false)] {
            let mut repeats = Repeats::default();
            let found = (0..LOOK).filter(|at| ask(&mut repeats, 1 + at % kinds)).count();
            assert_eq!(found > 0, kinds == 1, "the shelves are small in tests");
            repeats.found = if works { LOOK / WORTH } else { LOOK / WORTH - 1 };
            ask(&mut repeats, 1);
            assert_eq!((repeats.off, repeats.young.words.is_empty()), (!works, !works));
            assert_eq!(ask(&mut repeats, 1), works);
        }
    }

    #[test]
    fn each_number_counts() {
        let of = |change: &dyn Fn(&mut Plan), tolerance| {
            let mut plan = Plan { stride: 2, path: vec![1, 2, 1, 3], ..Plan::default() };
            (plan.marks, plan.capacity) = (vec![5.0, 6.0], vec![1.0, 2.0, 3.0]);
            plan.began = Time::from_ps(9);
            change(&mut plan);
            key(&plan, tolerance)
        };
        let same = of(&|_| (), 0.0);
        let changes: [&dyn Fn(&mut Plan); 7] = [
            &|plan| plan.path.swap(0, 1),
            &|plan| plan.path[3] = 2,
            &|plan| plan.path.truncate(3),
            &|plan| plan.marks.swap(0, 1),
            &|plan| plan.marks[1] += 1e-9,
            &|plan| plan.capacity[2] = 3.5,
            &|plan| plan.stride = 1,
        ];
        let mut all: Vec<u128> = changes.iter().map(|change| of(change, 0.0)).collect();
        all.push(same);
        all.push(of(&|_| (), 0.5));
        all.push(of(&|plan| plan.born = Time::from_ps(1), 0.5));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), changes.len() + 3);
        let elsewhere = |plan: &mut Plan| (plan.began, plan.names) = (Time::from_ps(1), vec![8]);
        assert_eq!(same, of(&elsewhere, 0.0), "neither when it begins, nor on which links");
    }
}
