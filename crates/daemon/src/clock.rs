//! The time that machines get: since the daemon began, so that no one can set it. It goes on while the
//! computer sleeps (CLOCK_BOOTTIME), as leases do. Processes of one computer share it, and can tell.

use serde::{Deserialize, Serialize};

pub use lightloom_runtime::net::{Clock, boottime_ns};

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
