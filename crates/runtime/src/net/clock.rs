//! The time that an endpoint goes by: CLOCK_BOOTTIME, in which leases are, since the clock was made.
//!
//! It counts from when it was made since picoseconds run out after 213 days, and computers run for longer.

use lightloom_units::Time;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Picoseconds run out after 213 days. Whoever runs ends before, and is started again, as after any end.
const LIFE: Duration = Duration::from_secs(200 * 24 * 3600);

/// Counts from when it was made; it goes on while the computer sleeps, and nobody can set it.
///
/// ```
/// use lightloom_runtime::net::Clock;
/// let clock = Clock::start();
/// let now = clock.now();
/// assert!(now <= clock.now());
/// assert_eq!(clock.time(clock.boottime_ns(now)), now);
/// assert_eq!(clock.time(0).ps(), 0);
/// assert!(!clock.is_worn_out());
/// assert!(clock.at(now) <= std::time::Instant::now() + std::time::Duration::from_nanos(1));
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

    /// Time since then, as the system counts it.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(boottime_ns().saturating_sub(self.started_ns))
    }

    /// When it is so late, rounded up to the nanosecond, or in an hour if that is sooner.
    pub fn at(&self, time: Time) -> Instant {
        let left = Duration::from_nanos(time.ps().div_ceil(1000)).saturating_sub(self.elapsed());
        Instant::now() + left.min(Duration::from_secs(3600))
    }

    /// Whether it is time to start anew.
    pub fn is_worn_out(&self) -> bool {
        self.elapsed() > LIFE
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

/// CLOCK_BOOTTIME \[ns\]: since the computer started, and also while it slept.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
