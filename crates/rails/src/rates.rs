//! What the rails gave: the rate of each rail to each destination, as earlier all-to-alls measured it
//! (RailS, Algorithm 2, step 5), and chunks dealt by it.
//!
//! Modelled: a sender hears of each destination and rail how many bytes it sent there and how long they
//! took. What is older counts half as much with each all-to-all. A rail's weight for a destination is its
//! rate over the median of that destination's rails, so that what makes a whole destination slow (other
//! senders, a hot expert) weighs nothing. Rates that differ by no more than two chunks explain weigh the
//! same: of c chunks one more or less may have been sent, and one of each other sender may have been in
//! their way. So do those that are no outliers among the destination's rails by Hampel's identifier (J. Am.
//! Stat. Assoc. 1974): three scaled median deviations. A rail that is down takes nothing, and all senders know
//! it.
//! [`Rates::deal`] deals the largest chunk first. By times in place of bytes it evens out each destination's
//! rails, so that what one rail cannot take for one destination is not made up for at another's, and within
//! a chunk of that takes the sender's least busy rail. With equal weights [`crate::Lpt`] is used, which has a bound
//! for the sender; here there is none.
//! Ignored: why a rail is slow; the paper does not say how its statistics become weights.
//! Checked: equal rates weigh the same; a rail of half the rate takes half; bytes conserved; nothing
//! goes to a rail that is down.

use crate::lpt::{Message, sizes};
use lightloom_units::Time;
use std::cmp::Reverse;

/// Of one sender: what its rails gave to each destination.
///
/// ```
/// use lightloom_rails::Rates;
/// use lightloom_units::Time;
/// let mut rates = Rates::new(2, 4);
/// assert!(rates.are_even());
/// for rail in 0..4 {
///     // Rail 3 takes twice as long with the same bytes, of ten chunks.
///     rates.heard(1, rail, 1_000, 10, Time::from_us(if rail == 3 { 2 } else { 1 }));
/// }
/// rates.settle();
/// assert_eq!((rates.weight(1, 0), rates.weight(1, 3), rates.weight(0, 3)), (1.0, 0.5, 1.0));
/// ```
#[derive(Clone, Debug)]
pub struct Rates {
    rails: usize,
    /// By destination and rail.
    heard: Vec<Heard>,
    /// The same, of what [`Self::settle`] found.
    weights: Vec<f64>,
    down: Vec<bool>,
}

/// Three standard deviations, each 1.4826 median deviations if errors are normal.
const OUTLIER: f64 = 3.0 * 1.4826;

/// What one rail has sent to one destination, older all-to-alls counted less.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    bytes: f64,
    chunks: f64,
    ps: f64,
    all_to_alls: f64,
}

impl Rates {
    /// Nothing was heard, and nothing is down.
    pub fn new(destinations: usize, rails: usize) -> Self {
        let count = destinations * rails;
        Rates {
            rails,
            heard: vec![Heard::default(); count],
            weights: vec![1.0; count],
            down: vec![false; count],
        }
    }

    /// No chunk to this destination takes this rail, whatever is heard.
    pub fn set_down(&mut self, to: u32, rail: u16) {
        self.down[to as usize * self.rails + usize::from(rail)] = true;
    }

    /// So many bytes, of so many chunks, took so long in one all-to-all.
    pub fn heard(&mut self, to: u32, rail: u16, bytes: u64, chunks: u64, took: Time) {
        let heard = &mut self.heard[to as usize * self.rails + usize::from(rail)];
        heard.bytes += bytes as f64;
        heard.chunks += chunks as f64;
        heard.ps += took.ps() as f64;
        heard.all_to_alls += 1.0;
    }

    /// The all-to-all is over: what was heard becomes weights.
    pub fn settle(&mut self) {
        let rows = self.heard.chunks_mut(self.rails).zip(self.weights.chunks_mut(self.rails));
        for (heard, weights) in rows {
            let rate = |one: &Heard| if one.ps > 0.0 { one.bytes / one.ps } else { 0.0 };
            let mut rates: Vec<f64> = heard.iter().map(rate).filter(|&rate| rate > 0.0).collect();
            rates.sort_unstable_by(f64::total_cmp);
            let Some(&median) = rates.get(rates.len() / 2) else { continue };
            rates.iter_mut().for_each(|rate| *rate = (*rate / median - 1.0).abs());
            rates.sort_unstable_by(f64::total_cmp);
            let usual = OUTLIER * rates[(rates.len() - 1) / 2];
            for (one, weight) in heard.iter_mut().zip(weights) {
                if one.ps > 0.0 {
                    let ratio = rate(one) / median;
                    let by_chunks = 2.0 * one.all_to_alls / one.chunks;
                    let alike = (ratio - 1.0).abs() <= usual.max(by_chunks);
                    *weight = if alike { 1.0 } else { ratio };
                }
                for sum in [&mut one.bytes, &mut one.chunks, &mut one.ps, &mut one.all_to_alls] {
                    *sum /= 2.0;
                }
            }
        }
    }

    /// The rate of a rail to a destination, over the median of this destination's rails; 0 if it is down.
    pub fn weight(&self, to: u32, rail: u16) -> f64 {
        let at = to as usize * self.rails + usize::from(rail);
        if self.down[at] { 0.0 } else { self.weights[at] }
    }

    /// Whether every rail weighs the same for every destination.
    pub fn are_even(&self) -> bool {
        self.weights.iter().all(|&weight| weight == 1.0) && !self.down.contains(&true)
    }

    /// This rail, or if it is down for the destination the `turn`th of those that are not.
    ///
    /// # Panics
    /// If all are.
    pub fn up(&self, to: u32, rail: u16, turn: usize) -> u16 {
        let down = &self.down[to as usize * self.rails..][..self.rails];
        if !down[usize::from(rail)] {
            return rail;
        }
        let count = down.iter().filter(|&&down| !down).count();
        assert!(count > 0, "a rail leads to destination {to}");
        let left = (0..self.rails).filter(|&n| !down[n]).nth(turn % count);
        left.expect("below their number") as u16
    }

    /// The rail of every chunk, by message and offset: the largest chunk first, then by destination,
    /// source and offset. Of the rails that would begin it before any could be done with it, counting
    /// what they carry to its destination, it takes the one that is least busy; of several, the next from
    /// one that differs by sender.
    ///
    /// # Panics
    /// If `chunk` is 0, or no rail leads to a destination.
    pub fn deal(&self, messages: &[Message], chunk: u64, sender: u32) -> Vec<u16> {
        assert!(chunk > 0, "a chunk has bytes");
        let mut chunks = Vec::new();
        for message in messages {
            for size in sizes(message.bytes, chunk) {
                chunks.push((Reverse(size), message.destination, message.source, chunks.len()));
            }
        }
        let mut dealt = vec![0; chunks.len()];
        chunks.sort_unstable();
        let (mut busy, mut pairs) = (vec![0.0; self.rails], vec![0.0; self.heard.len()]);
        let home = sender as usize % self.rails;
        for (Reverse(size), to, _, slot) in chunks {
            let pairs = &mut pairs[to as usize * self.rails..][..self.rails];
            let took = |n: usize| match self.weight(to, n as u16) {
                0.0 => f64::INFINITY,
                weight => size as f64 / weight,
            };
            let first = (0..self.rails).map(|n| pairs[n] + took(n)).fold(f64::INFINITY, f64::min);
            assert!(first.is_finite(), "a rail leads to destination {to}");
            let rail = (home..self.rails)
                .chain(0..home)
                .filter(|&n| took(n).is_finite() && pairs[n] < first)
                .min_by(|&a, &b| (busy[a] + took(a)).total_cmp(&(busy[b] + took(b))))
                .expect("the one that would be done first");
            busy[rail] += took(rail);
            pairs[rail] += took(rail);
            dealt[slot] = rail as u16;
        }
        dealt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpt::tests::messages;
    use proptest::prelude::*;

    /// Bytes by rail.
    fn loads(messages: &[Message], chunk: u64, dealt: &[u16], rails: usize) -> Vec<u64> {
        let mut loads = vec![0; rails];
        let all = messages.iter().flat_map(|message| sizes(message.bytes, chunk));
        for (size, &rail) in all.zip(dealt) {
            loads[usize::from(rail)] += size;
        }
        loads
    }

    proptest! {
        /// Of each destination, rails end within the time of a chunk at either of them.
        #[test]
        fn rails_end_together(
            messages in messages(),
            chunk in 1u64..700,
            weights in prop::collection::vec(0.1f64..2.0, 1..9),
        ) {
            let rails = weights.len();
            let mut rates = Rates::new(4, rails);
            rates.weights = weights.repeat(4);
            let dealt = rates.deal(&messages, chunk, 3);
            let mut loads = vec![0; 4 * rails];
            let mut at = dealt.iter();
            for message in &messages {
                for size in sizes(message.bytes, chunk) {
                    let rail = usize::from(*at.next().expect("a rail for each"));
                    loads[message.destination as usize * rails + rail] += size;
                }
            }
            prop_assert_eq!(loads.iter().sum::<u64>(), messages.iter().map(|m| m.bytes).sum());
            for loads in loads.chunks(rails) {
                for (a, b) in (0..rails).flat_map(|a| (0..rails).map(move |b| (a, b))) {
                    let time = |n: usize, more: u64| (loads[n] + more) as f64 / weights[n];
                    let most = time(b, chunk) + chunk as f64 / weights[a];
                    prop_assert!(time(a, 0) <= most * (1.0 + 1e-9), "{:?} {:?}", loads, weights);
                }
            }
        }

        /// Nothing goes over a rail that is down, by weights or by a stand-in.
        #[test]
        fn a_rail_that_is_down_takes_nothing(messages in messages(), turn in 0usize..50) {
            let mut rates = Rates::new(4, 3);
            for to in 0..4 {
                rates.set_down(to, 1);
            }
            let dealt = rates.deal(&messages, 100, 0);
            prop_assert!(dealt.iter().all(|&rail| rail != 1));
            prop_assert!(rates.up(2, 1, turn) != 1);
            prop_assert_eq!(rates.up(2, 2, turn), 2);
        }
    }

    /// What one rail cannot take for one destination is spread over its other rails, and other
    /// destinations get no more of it.
    #[test]
    fn destinations_are_even_beside_one_that_lacks_a_rail() {
        let messages: Vec<Message> = (0..15)
            .map(|destination| Message { bytes: 6_400, destination, source: 0, receiver: 0 })
            .collect();
        let mut rates = Rates::new(15, 8);
        rates.set_down(3, 2);
        let dealt = rates.deal(&messages, 100, 5);
        for (to, dealt) in dealt.chunks(64).enumerate() {
            let loads: Vec<usize> =
                (0..8).map(|n| dealt.iter().filter(|&&rail| rail == n).count()).collect();
            match to {
                3 => assert!(loads[2] == 0 && loads.iter().all(|&l| l <= 10), "{loads:?}"),
                _ => assert_eq!(loads, [8; 8]),
            }
        }
    }

    /// The next all-to-all gives a rail of half the rate half, and its time is the others' then, which
    /// leaves its weight where it is. A rail that has its rate back gets it back.
    #[test]
    fn weights_follow_rates_and_stay() {
        let chunk = 100;
        let message = |bytes| Message { bytes, destination: 1, source: 0, receiver: 0 };
        let messages = [message(15_000)];
        let mut rates = Rates::new(2, 4);
        let mut shares = vec![];
        for round in 0..12 {
            let dealt = rates.deal(&messages, chunk, 0);
            let loads = loads(&messages, chunk, &dealt, 4);
            for (rail, &load) in loads.iter().enumerate() {
                let rate = if rail == 2 && round < 6 { 0.5 } else { 1.0 };
                let took = Time::from_ps((load as f64 / rate) as u64);
                rates.heard(1, rail as u16, load, load / chunk, took);
            }
            rates.settle();
            shares.push(loads[2]);
        }
        assert_eq!(shares[0], 3_700);
        assert!(shares[1..7].iter().all(|&load| (2_100..=2_200).contains(&load)), "{shares:?}");
        assert!(shares[11] >= 3_600, "{shares:?}");
    }

    /// A destination that is slow on all rails weighs nothing, nor does less than two chunks explain.
    #[test]
    fn what_all_rails_have_in_common_weighs_nothing() {
        let mut rates = Rates::new(2, 3);
        for rail in 0..3 {
            rates.heard(0, rail, 400, 4, Time::from_us(1));
            rates.heard(1, rail, 400, 4, Time::from_us(40 + 9 * u64::from(rail == 1)));
        }
        rates.settle();
        assert!(rates.are_even());
    }
}
