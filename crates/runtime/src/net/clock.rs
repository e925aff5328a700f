//! The time that an endpoint goes by: CLOCK_BOOTTIME, in which leases are, since the clock was made.
//!
//! It counts from when it was made since picoseconds run out after 213 days, and computers run for longer.

use lightloom_units::Time;
use rustix::time::{ClockId, clock_gettime};

/// Counts from when it was made; it goes on while the computer sleeps, and nobody can set it.
///
/// ```
/// use lightloom_runtime::net::Clock;
/// let clock = Clock::start();
/// let now = clock.now();
/// assert!(now <= clock.now());
/// assert_eq!(clock.time(clock.boottime_ns(now)), now);
/// assert_eq!(clock.time(0).ps(), 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started_ns: u64,
}

impl Clock {
    /// Begins to count.
    pub fn start() -> Self {
        Clock { started_ns: boottime_ns() }
    }

    /// Time since then, to the nanosecond.
    pub fn now(&self) -> Time {
        self.time(boottime_ns())
    }

    /// A time as all processes of this computer count it: CLOCK_BOOTTIME \[ns\], rounded down.
    pub fn boottime_ns(&self, time: Time) -> u64 {
        self.started_ns.saturating_add(time.ps() / 1000)
    }

    /// The same back, such as the end of a lease that an agent tells: zero if it was before this clock was made.
    pub fn time(&self, boottime_ns: u64) -> Time {
        Time::from_ps(boottime_ns.saturating_sub(self.started_ns).saturating_mul(1000))
    }
}

fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
