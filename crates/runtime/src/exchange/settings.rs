//! How an endpoint behaves, and who it is.

use super::fields::LONGEST;
use super::name::Endpoint;
use lightloom_units::Time;
use std::fmt;
use thiserror::Error;

/// An endpoint has at most so many operations under way, so many groups, and remembers so many that a peer is
/// ahead by.
pub const OPERATIONS: usize = 4096;

/// How an endpoint behaves, and who it is. All endpoints of a job must have the same `job`, `secret` and `chunk`.
///
/// ```
/// use lightloom_runtime::exchange::{Settings, SettingsError};
/// let settings = Settings { window: 100, ..Settings::new(7, 0, 1, b"secret") };
/// assert_eq!(settings.check().unwrap_err().to_string(), "`window` is 100; `chunk`, 1048576, or more is allowed");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The job; a connection of another one is refused.
    pub job: u64,
    /// Which endpoint this is.
    pub endpoint: Endpoint,
    /// Its life, from 1: greater after every start.
    pub life: u64,
    /// What endpoints of the job know and strangers do not.
    pub secret: Vec<u8>,
    /// Optical ports of this server.
    pub ports: u16,
    /// The longest chunk \[B\].
    pub chunk: u32,
    /// Bytes of chunks on a lane that are not acknowledged \[B\].
    pub window: u32,
    /// The same of all lanes of a NIC that cross packet switches, which share it evenly; each may have two chunks in any case \[B\].
    pub nic_window: u32,
    /// The rate of a NIC, by which its packet lanes are paced; 0: it is not known, and they are not \[B/s\].
    pub nic_rate: u64,
    /// Chunks are acknowledged together once so much of them has come, sooner if the sender asks or is silent
    /// \[B\].
    pub together: u32,
    /// A chunk that has come is acknowledged after this at the latest.
    pub hold: Time,
    /// Bounce memory for each peer \[B\].
    pub allowance: u32,
    /// What is sent to a peer in one operation may go early up to this \[B\].
    pub small: u32,
    /// A lane that is idle for so long carries a beat.
    pub beat: Time,
    /// A connection on which nothing is acknowledged for so long is closed. More than a chunk takes.
    pub stall: Time,
    /// A peer of which nothing is heard for so long is lost.
    pub lost: Time,
    /// Hello must be over in this time.
    pub handshake: Time,
    /// What cannot go over a lane of its own goes by other endpoints, and this one hands on what others send so.
    pub relays: bool,
    /// Circuits carry in one direction: whoever receives over one sends nothing there but acknowledgements, and so no
    /// mark.
    pub one_way: bool,
    /// A lane is dialed again after this; and a first hello that was dialed must be over in this time, the next in
    /// twice as much, up to `handshake`.
    pub retry: Time,
}

/// A value that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// Of the settings.
    #[error("`{key}` is {found}; {allowed} is allowed")]
    Value {
        /// Which.
        key: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        allowed: String,
    },
    /// Two lanes join the same NICs, or one leads to its own endpoint, or its port is none of the server's.
    #[error(
        "lane {lane} joins NICs that another joins, or its own endpoint, or a port that is not there"
    )]
    Lane {
        /// Its place in the list.
        lane: usize,
    },
}

impl Settings {
    /// [`Settings::stall`] if nothing else is said.
    pub const STALL: Time = Time::from_ms(3_000);

    /// An endpoint of a job in a life of it, and else with values that suit NICs of 100 Mbit/s to 100 Gbit/s.
    pub fn new(job: u64, endpoint: Endpoint, life: u64, secret: &[u8]) -> Self {
        Settings {
            job,
            endpoint,
            life,
            secret: secret.to_vec(),
            ports: 0,
            chunk: 1 << 20,
            window: 8 << 20,
            nic_window: 8 << 20,
            nic_rate: 0,
            together: 1 << 20,
            hold: Time::from_ms(20),
            allowance: 1 << 20,
            small: 1 << 16,
            beat: Time::from_ms(500),
            stall: Settings::STALL,
            lost: Time::from_ms(15_000),
            handshake: Time::from_ms(2_000),
            relays: true,
            one_way: false,
            retry: Time::from_ms(50),
        }
    }

    /// How long the first hello of a lane that is dialed may take.
    pub(crate) fn first_patience(&self) -> Time {
        self.retry.min(self.handshake)
    }

    /// How long the first hello of a lane that goes by a relay may take: who is there says something in each beat.
    pub(crate) fn relay_patience(&self) -> Time {
        self.beat.min(self.handshake)
    }

    /// Whether the values fit together.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), SettingsError> {
        let fits = |true_: bool, key, found: &dyn fmt::Display, allowed: String| {
            let value = || SettingsError::Value { key, found: found.to_string(), allowed };
            if true_ { Ok(()) } else { Err(value()) }
        };
        fits(self.life > 0, "life", &self.life, "1 or more".into())?;
        fits(!self.secret.is_empty(), "secret", &"empty", "one byte or more".into())?;
        let chunk = (1..=LONGEST).contains(&self.chunk);
        fits(chunk, "chunk", &self.chunk, format!("1 to {LONGEST}"))?;
        let least = format!("`chunk`, {}, or more", self.chunk);
        fits(self.window >= self.chunk, "window", &self.window, least.clone())?;
        fits(self.nic_window >= self.chunk, "nic_window", &self.nic_window, least)?;
        for (key, time) in
            [("beat", self.beat), ("handshake", self.handshake), ("retry", self.retry)]
        {
            fits(time > Time::ZERO, key, &time, "more than 0".into())?;
        }
        let beat = format!("up to `beat`, {}", self.beat);
        fits(self.hold <= self.beat, "hold", &self.hold, beat)?;
        let beat = format!("more than `beat`, {},", self.beat);
        fits(self.stall > self.beat, "stall", &self.stall, beat)?;
        let stall = format!("more than `stall`, {},", self.stall);
        fits(self.lost > self.stall, "lost", &self.lost, stall)
    }
}

/// All but the secret.
impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { job, endpoint, life, ports, chunk, window, nic_window, nic_rate, .. } = self;
        let Settings { together, hold, allowance, small, .. } = self;
        let Settings { beat, stall, lost, handshake, relays, one_way, retry, .. } = self;
        write!(
            out,
            "job {job}, endpoint {endpoint} in life {life}, {ports} ports, chunk {chunk} B, "
        )?;
        write!(
            out,
            "window {window} B, nic_window {nic_window} B, nic_rate {nic_rate} B/s, together {together} B, hold {hold}, "
        )?;
        write!(out, "allowance {allowance} B, small {small} B, beat {beat}, ")?;
        write!(
            out,
            "stall {stall}, lost {lost}, handshake {handshake}, retry {retry}, relays {relays}, \
             one_way {one_way}"
        )
    }
}
