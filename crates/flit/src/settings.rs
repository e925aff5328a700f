//! Every setting of a router; nothing is implied.

use serde::{Deserialize, Serialize};

/// When the space of a flit that has left counts as free at the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credits {
    /// In the next cycle, however long the channel.
    Ideal,
    /// After the channel's delay.
    Link,
}

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// Whoever follows the last winner.
    RoundRobin,
    /// The packet that was created first; of equals the one of the lower source.
    Oldest,
}

/// How routers work and how long they are watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Virtual channels of a port.
    pub vcs: u8,
    /// Buffer of a virtual channel \[flits\].
    pub buffer: u16,
    /// Length of a packet \[flits\].
    pub packet: u8,
    /// When buffer space counts as free again.
    pub credits: Credits,
    /// Who goes first.
    pub arbitration: Arbitration,
    /// What a terminal may inject \[flits a cycle\].
    pub injection: u16,
    /// What a terminal may eject \[flits a cycle\].
    pub ejection: u16,
    /// Packets that a terminal may be injecting at once.
    pub injection_vcs: u8,
    /// Cycles a flit spends in a router beyond allocation and switching.
    pub pipeline: u16,
    /// Cycles before anything is measured.
    pub warm_up: u32,
    /// Cycles in all.
    pub cycles: u32,
    /// Seeds every random draw.
    pub seed: u64,
}

impl Default for Settings {
    /// RailX, Table 5, with ideal credits.
    fn default() -> Self {
        Settings {
            vcs: 4,
            buffer: 16,
            packet: 4,
            credits: Credits::Ideal,
            arbitration: Arbitration::RoundRobin,
            injection: 8,
            ejection: 8,
            injection_vcs: 4,
            pipeline: 0,
            warm_up: 5_000,
            cycles: 10_000,
            seed: 1,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {reason}")]
pub struct SettingsError {
    /// The setting, as a specification names it.
    pub key: &'static str,
    /// The value that was given.
    pub value: u64,
    /// What is allowed.
    pub reason: String,
}

impl Settings {
    /// Whether routers can work so with a routing function that needs `needed` virtual channels.
    ///
    /// # Errors
    /// Names the first setting that cannot be.
    ///
    /// ```
    /// use lightloom_flit::Settings;
    /// let few = Settings { vcs: 2, ..Settings::default() };
    /// assert_eq!(
    ///     few.check(3).unwrap_err().to_string(),
    ///     "vcs = 2: the routing function needs at least 3 virtual channels to be free of deadlock"
    /// );
    /// ```
    pub fn check(&self, needed: u8) -> Result<(), SettingsError> {
        let wrong = |key, value: u64, reason: String| Err(SettingsError { key, value, reason });
        for (key, value, most) in [
            ("vcs", u64::from(self.vcs), 16),
            ("packet", u64::from(self.packet), 255),
            ("buffer", u64::from(self.buffer), 32_767),
            ("injection", u64::from(self.injection), 1_024),
            ("ejection", u64::from(self.ejection), 1_024),
            ("injection_vcs", u64::from(self.injection_vcs), 16),
            ("cycles", u64::from(self.cycles), 1 << 30),
        ] {
            if value == 0 || value > most {
                return wrong(key, value, format!("must be from 1 to {most}"));
            }
        }
        if self.pipeline > 1_000 {
            return wrong("pipeline", self.pipeline.into(), "must be at most 1000".into());
        }
        if self.warm_up >= self.cycles {
            let reason = format!("must be below cycles = {}", self.cycles);
            return wrong("warm_up", self.warm_up.into(), reason);
        }
        if u16::from(self.packet) > self.buffer {
            let reason = format!(
                "a buffer must hold a whole packet, packet = {} flits, under virtual cut-through",
                self.packet
            );
            return wrong("buffer", self.buffer.into(), reason);
        }
        if self.vcs < needed {
            let reason = format!(
                "the routing function needs at least {needed} virtual channels to be free of deadlock"
            );
            return wrong("vcs", self.vcs.into(), reason);
        }
        Ok(())
    }
}
