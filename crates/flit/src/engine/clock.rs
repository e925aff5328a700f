//! Cycles and picoseconds.

use lightloom_units::{BitRate, Bytes, Time};

/// A clock that ticks once for every flit on the narrowest channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Picoseconds of a cycle: `numerator / rate`.
    numerator: u128,
    rate: u128,
}

impl Clock {
    /// A flit takes a cycle at `rate`.
    pub fn new(flit: Bytes, rate: BitRate) -> Self {
        let numerator = u128::from(flit.get()) * 8 * 1_000_000_000_000;
        Clock { numerator, rate: rate.bps().into() }
    }
    /// When a cycle begins, rounded up to a picosecond.
    pub fn time(&self, cycle: u64) -> Time {
        let ps = (u128::from(cycle) * self.numerator).div_ceil(self.rate);
        Time::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }
    /// The first cycle that begins at `time` or later.
    pub fn cycle(&self, time: Time) -> u64 {
        let cycles = (u128::from(time.ps()) * self.rate).div_ceil(self.numerator);
        let cycle = u64::try_from(cycles).unwrap_or(u64::MAX);
        // `time` rounds up, so the cycle before may begin late enough as well.
        if cycle > 0 && self.time(cycle - 1) >= time { cycle - 1 } else { cycle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cycle_is_found_again(flit in 1u64..1 << 20, gbps in 1u64..10_000, cycle in 0u64..1 << 30) {
            let clock = Clock::new(Bytes::new(flit), BitRate::from_gbps(gbps));
            let time = clock.time(cycle);
            prop_assert!(clock.cycle(time) <= cycle && clock.time(clock.cycle(time)) >= time);
            let later = time.saturating_add(Time::from_ps(1));
            prop_assert!(clock.time(clock.cycle(later)) >= later);
        }
    }
}
