//! The time that machines get: since the daemon began, so that no one can set it. It goes on while the
//! computer sleeps (CLOCK_BOOTTIME), as leases do. Processes of one computer share it, and can tell.

use lightloom_units::Time;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
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
/// let shared = clock.boottime_ns(after);
/// assert_eq!(clock.time(shared).ps(), after.ps());
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

    /// The same back: zero if it was before this clock was made.
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

/// Which CLOCK_BOOTTIME a process reads: two that are alike count the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockIdentity {
    /// `/proc/sys/kernel/random/boot_id`: another after every start of the computer.
    pub boot: String,
    /// Where `/proc/self/ns/time` leads, such as `time:[4026531834]`; empty if the kernel has no such
    /// namespaces.
    pub time_namespace: String,
    /// What that namespace adds to CLOCK_BOOTTIME, of `/proc/self/timens_offsets`: seconds and nanoseconds.
    pub boottime_offset: String,
}

impl ClockIdentity {
    /// This process's.
    ///
    /// # Errors
    /// If the kernel does not say: which file cannot be read, and why.
    pub fn of_this_process() -> Result<Self, String> {
        let file = "/proc/sys/kernel/random/boot_id";
        let boot = std::fs::read_to_string(file).map_err(|why| format!("{file}: {why}"))?;
        let link = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
        let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        let offset = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
        let words = offset.unwrap_or("0 0").split_whitespace().collect::<Vec<_>>();
        Ok(ClockIdentity {
            boot: boot.trim().into(),
            time_namespace: link.to_string_lossy().into_owned(),
            boottime_offset: words.join(" "),
        })
    }

    /// That two processes may tell each other times.
    ///
    /// # Errors
    /// What is not alike, with both values.
    pub fn agrees(&self, other: &Self) -> Result<(), String> {
        for (what, ours, theirs) in [
            ("boot", &self.boot, &other.boot),
            ("time_namespace", &self.time_namespace, &other.time_namespace),
            ("boottime_offset", &self.boottime_offset, &other.boottime_offset),
        ] {
            if ours != theirs {
                return Err(format!(
                    "agent and runtime have no clock in common: {what} is {ours:?} here and \
                     {theirs:?} there; run both on one computer, in one time namespace"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ClockIdentity;

    #[test]
    fn clocks_that_count_otherwise_are_told_apart() {
        let here = ClockIdentity::of_this_process().expect("Linux");
        assert_eq!(here.agrees(&here.clone()), Ok(()));
        let others = [
            ClockIdentity { boot: "0".into(), ..here.clone() },
            ClockIdentity { time_namespace: "time:[1]".into(), ..here.clone() },
            ClockIdentity { boottime_offset: "7 0".into(), ..here.clone() },
        ];
        for (other, what) in others.iter().zip(["boot is", "time_namespace is", "boottime_offset"])
        {
            let why = here.agrees(other).expect_err("they differ");
            assert!(why.contains(what) && !why.contains('\n'), "{why}");
        }
    }
}
