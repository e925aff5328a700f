//! The time that machines get: since the daemon began, so that no one can set it.

use lightloom_units::Time;
use std::time::{Duration, Instant};

/// Picoseconds run out after 213 days. A daemon ends before, and is started again, as after any end.
const LIFE: Duration = Duration::from_secs(200 * 24 * 3600);

/// Counts from when it was made.
///
/// ```
/// use lightloom_daemon::clock::Clock;
/// let clock = Clock::start();
/// let (before, after) = (clock.now(), clock.now());
/// assert!(before <= after && !clock.is_worn_out());
/// assert!(clock.at(after) <= std::time::Instant::now() + std::time::Duration::from_nanos(1));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Begins to count.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// Time since then, to the nanosecond.
    pub fn now(&self) -> Time {
        let ns = u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time::from_ps(ns.saturating_mul(1000))
    }

    /// Time since then, as the system counts it.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// When it is so late, rounded up to the nanosecond, or in an hour if that is sooner.
    pub fn at(&self, time: Time) -> Instant {
        let at = self.0 + Duration::from_nanos(time.ps().div_ceil(1000));
        at.min(Instant::now() + Duration::from_secs(3600))
    }

    /// Whether it is time to start anew.
    pub fn is_worn_out(&self) -> bool {
        self.0.elapsed() > LIFE
    }
}
