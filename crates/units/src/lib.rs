//! Quantities as types: [`Time`] in picoseconds, [`Bytes`], and [`BitRate`] in bits per second.
//!
//! Modelled: exact integers, so that two runs never differ by rounding. A picosecond clock in 64
//! bits lasts 213 days, longer than any iteration; 64-bit bytes and bits per second never overflow
//! in practice. Ignored: nothing; a value that does not fit is an error, never a wrap.
//! Checked: round trips of parsing and printing, and the ceiling of [`BitRate::time_for`] against
//! 128-bit arithmetic.
//!
//! ```
//! use lightloom_units::{BitRate, Bytes, Time};
//! let rate: BitRate = "400 Gbps".parse().unwrap();
//! let size: Bytes = "64 KiB".parse().unwrap();
//! assert_eq!(rate.time_for(size), Time::from_ps(1_310_720));
//! assert_eq!("25 ms".parse::<Time>().unwrap().to_string(), "25 ms");
//! ```

mod hash;
pub mod kind;
mod parse;

pub use hash::mix;
pub use parse::ParseError;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

/// A point in simulated time, or a span of it \[ps\].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(u64);

/// An amount of data \[B\].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

/// A rate of transmission \[bit/s\].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BitRate(u64);

impl Time {
    /// The origin of time, or no time at all.
    pub const ZERO: Time = Time(0);
    /// Later than every event.
    pub const MAX: Time = Time(u64::MAX);

    /// A time of so many picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Time(ps)
    }
    /// A time of so many nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Time(ns * 1_000)
    }
    /// A time of so many microseconds.
    pub const fn from_us(us: u64) -> Self {
        Time(us * 1_000_000)
    }
    /// A time of so many milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Time(ms * 1_000_000_000)
    }
    /// The nearest picosecond to a number of seconds; negative or NaN is zero, overflow is
    /// [`Time::MAX`].
    ///
    /// ```
    /// # use lightloom_units::Time;
    /// assert_eq!(Time::from_secs_f64(1.5e-12), Time::from_ps(2));
    /// ```
    pub fn from_secs_f64(seconds: f64) -> Self {
        Time((seconds * 1e12).round() as u64)
    }
    /// Picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }
    /// Seconds, for printing and for ratios.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// `self - other`, or zero if `other` is later.
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
    /// `self + other`, or [`Time::MAX`].
    pub const fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// So many bytes.
    pub const fn new(bytes: u64) -> Self {
        Bytes(bytes)
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl BitRate {
    /// So many bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        BitRate(bps)
    }
    /// So many gigabits (10^9) per second.
    pub const fn from_gbps(gbps: u64) -> Self {
        BitRate(gbps * 1_000_000_000)
    }
    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }
    /// Bytes per picosecond, the unit in which the engines integrate.
    pub fn bytes_per_ps(self) -> f64 {
        self.0 as f64 / 8e12
    }
    /// The time that `size` takes at this rate, rounded up to a picosecond. A rate of zero takes
    /// [`Time::MAX`] for any data at all.
    ///
    /// ```
    /// # use lightloom_units::{BitRate, Bytes, Time};
    /// assert_eq!(BitRate::from_gbps(3).time_for(Bytes::new(1)), Time::from_ps(2_667));
    /// assert_eq!(BitRate::from_bps(0).time_for(Bytes::ZERO), Time::ZERO);
    /// ```
    pub fn time_for(self, size: Bytes) -> Time {
        let bit_ps = u128::from(size.0) * 8 * 1_000_000_000_000;
        if bit_ps == 0 {
            return Time::ZERO;
        }
        if self.0 == 0 {
            return Time::MAX;
        }
        let ps = bit_ps.div_ceil(u128::from(self.0));
        Time(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

macro_rules! arithmetic {
    ($($type:ident),*) => {$(
        impl Add for $type {
            type Output = $type;
            fn add(self, other: $type) -> $type {
                $type(self.0 + other.0)
            }
        }
        impl AddAssign for $type {
            fn add_assign(&mut self, other: $type) {
                self.0 += other.0;
            }
        }
        impl Sub for $type {
            type Output = $type;
            fn sub(self, other: $type) -> $type {
                $type(self.0 - other.0)
            }
        }
        impl Mul<u64> for $type {
            type Output = $type;
            fn mul(self, factor: u64) -> $type {
                $type(self.0 * factor)
            }
        }
        impl Sum for $type {
            fn sum<I: Iterator<Item = $type>>(items: I) -> $type {
                items.fold($type(0), Add::add)
            }
        }
    )*};
}
arithmetic!(Time, Bytes, BitRate);

macro_rules! text {
    ($type:ident, $units:expr, $what:literal, $example:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                parse::write_scaled(f, self.0, $units)
            }
        }
        impl FromStr for $type {
            type Err = ParseError;
            fn from_str(text: &str) -> Result<Self, ParseError> {
                parse::parse(text, $units, $what, $example).map($type)
            }
        }
    };
}
text!(Time, parse::TIME, "time", "\"25 ms\"");
text!(Bytes, parse::BYTES, "size", "\"64 KiB\"");
text!(BitRate, parse::RATE, "rate", "\"400 Gbps\" or \"900 GB/s\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn time_for_is_the_exact_ceiling(size in 0u64..1 << 40, bps in 1u64..2_000_000_000_000) {
            let ps = BitRate(bps).time_for(Bytes(size)).ps();
            let bit_ps = u128::from(size) * 8_000_000_000_000;
            prop_assert!(u128::from(ps) * u128::from(bps) >= bit_ps);
            prop_assert!(ps == 0 || u128::from(ps - 1) * u128::from(bps) < bit_ps);
        }

        #[test]
        fn printing_and_parsing_are_inverse(n in any::<u64>()) {
            prop_assert_eq!(Time(n).to_string().parse::<Time>().unwrap(), Time(n));
            prop_assert_eq!(Bytes(n).to_string().parse::<Bytes>().unwrap(), Bytes(n));
            prop_assert_eq!(BitRate(n).to_string().parse::<BitRate>().unwrap(), BitRate(n));
        }

        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = text.parse::<Time>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<BitRate>();
        }
    }

    #[test]
    fn known_texts() {
        for (text, ps) in [("25 ms", 25_000_000_000), ("1us", 1_000_000), ("0.1 ns", 100)] {
            assert_eq!(text.parse::<Time>().unwrap(), Time(ps));
        }
        assert_eq!("64 KiB".parse::<Bytes>().unwrap(), Bytes(65_536));
        assert_eq!("900 GB/s".parse::<BitRate>().unwrap(), BitRate(7_200_000_000_000));
        assert_eq!("1_000 Gbps".parse::<BitRate>().unwrap(), BitRate(1_000_000_000_000));
    }

    #[test]
    fn bad_texts_say_what_is_allowed() {
        for text in ["", "25", "ms", "-1 ms", "0.5 ps", "1e3 ms", "1..2 s", ". s", "1. s", "9e99 s"]
        {
            let message = text.parse::<Time>().unwrap_err().to_string();
            assert!(message.contains("such as \"25 ms\""), "{message}");
        }
        assert!("99999999999 h".parse::<Time>().unwrap_err().to_string().contains("64 bits"));
        assert!("400 Gb".parse::<BitRate>().unwrap_err().to_string().contains("Gbps, Mbps"));
    }
}
