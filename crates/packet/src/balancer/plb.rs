//! PLB (Qureshi et al., SIGCOMM 2022): a sub-flow stays on the way of its flow label's hash; after
//! enough congested round trips in a row it takes another label, at once when nothing is under way,
//! otherwise only after more of them.

use super::pick;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plb {
    ways: u16,
    way: u16,
    hash: u64,
    label: u64,
    share: f64,
    rounds: u32,
    rounds_busy: u32,
    congested: u32,
    /// Of this round trip: acknowledged, marked, and when it ends \[ps\].
    acked: u32,
    marked: u32,
    ends: u64,
}

impl Plb {
    pub fn new(ways: u16, hash: u64, share: f64, rounds: u32, rounds_busy: u32) -> Self {
        let way = pick(hash, ways);
        Plb {
            ways,
            way,
            hash,
            label: 0,
            share,
            rounds,
            rounds_busy,
            congested: 0,
            acked: 0,
            marked: 0,
            ends: 0,
        }
    }

    #[inline]
    pub fn way(&mut self, under_way: u32) -> u16 {
        let idle = under_way == 0 && self.congested >= self.rounds;
        if idle || self.congested >= self.rounds_busy {
            self.label += 1;
            self.way = pick(self.hash.wrapping_add(self.label), self.ways);
            self.congested = 0;
        }
        self.way
    }

    #[inline]
    pub fn acked(&mut self, marked: bool, round_trip: u64, now: u64) {
        self.acked += 1;
        self.marked += u32::from(marked);
        if now >= self.ends {
            let congested = f64::from(self.marked) >= self.share * f64::from(self.acked);
            self.congested = if congested && self.marked > 0 { self.congested + 1 } else { 0 };
            (self.acked, self.marked, self.ends) = (0, 0, now + round_trip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_when_idle_after_some_congested_rounds_and_when_busy_after_more() {
        let mut b = Plb::new(1000, 1, 0.5, 3, 12);
        let first = b.way(5);
        let round = |b: &mut Plb, i: u64, marked| b.acked(marked, 10, i * 10);
        (0..3).for_each(|i| round(&mut b, i, true));
        assert_eq!(b.way(5), first, "busy: it stays");
        assert_ne!(b.way(0), first, "idle: it moves");
        let second = b.way(1);
        (3..14).for_each(|i| round(&mut b, i, true));
        assert_eq!(b.way(5), second);
        round(&mut b, 14, true);
        assert_ne!(b.way(5), second, "congested for long: it moves although busy");
        let third = b.way(5);
        (15..17).for_each(|i| round(&mut b, i, true));
        round(&mut b, 17, false);
        (18..20).for_each(|i| round(&mut b, i, true));
        assert_eq!(b.way(0), third, "a good round trip in between starts the count anew");
    }
}
