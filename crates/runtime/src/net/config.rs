//! What an endpoint is told of its NICs and lanes, and what it tells.

use super::clock::Clock;
use super::memory::MemoryError;
use crate::exchange::{
    Endpoint, Failure, JoinError, LaneError, LaneId, LaneSpec, PostError, Settings, SettingsError,
};
use lightloom_control::RuntimeOutput;
use lightloom_units::Time;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// A NIC of this endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// Its address, and the port to listen at; 0 is any.
    pub address: SocketAddr,
    /// The device that its bytes leave by, whatever routes say (SO_BINDTODEVICE).
    pub device: Option<String>,
}

impl NicConfig {
    /// A NIC whose bytes go by routes.
    pub fn at(address: SocketAddr) -> Self {
        NicConfig { address, device: None }
    }
}

/// What an endpoint is.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who it is, and how it behaves.
    pub settings: Settings,
    /// Its lanes, with the address where the peer's NIC listens.
    pub lanes: Vec<(LaneSpec, SocketAddr)>,
    /// Its time.
    pub clock: Clock,
    /// When the node is dropped it still says what its peers wait for (acknowledgements, failures), for this time
    /// at most.
    pub last_words: Time,
}

impl Config {
    /// An endpoint with a clock that begins now.
    pub fn new(settings: Settings, lanes: Vec<(LaneSpec, SocketAddr)>) -> Self {
        Config { settings, lanes, clock: Clock::start(), last_words: Time::from_ms(200) }
    }
}

/// What happens at an endpoint, besides the end of operations.
#[derive(Debug)]
pub enum Event {
    /// A lane is up.
    Up(LaneId),
    /// A lane is down; it is opened again.
    Down(LaneId, LaneError),
    /// A lane could not be opened; that is tried again, and told again if the reason is another.
    Unreachable(LaneId, io::Error),
    /// A group has failed.
    GroupFailed(Failure),
    /// A peer is lost.
    Lost(Endpoint),
    /// Tell the agent.
    Runtime(RuntimeOutput),
}

/// Why an endpoint cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A NIC cannot be listened at.
    #[error("cannot listen at {address}{}: {why}", device.as_ref().map(|it| format!(", device {it}")).unwrap_or_default())]
    Listen {
        /// Its address.
        address: SocketAddr,
        /// Its device.
        device: Option<String>,
        /// Why.
        why: io::Error,
    },
    /// Settings or lanes that do not fit.
    #[error("{0}")]
    Settings(#[from] SettingsError),
    /// A lane begins at a NIC that is not there.
    #[error("lane {lane} begins at NIC {found}; the endpoint has {nics} NICs, from 0")]
    Nic {
        /// The lane's place in the list.
        lane: usize,
        /// Its NIC.
        found: u16,
        /// So many there are.
        nics: usize,
    },
    /// The kernel would not.
    #[error("{what}: {why}")]
    System {
        /// What it was asked for.
        what: &'static str,
        /// Its answer.
        why: io::Error,
    },
}

/// Why a group was not joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JoinFailure {
    /// It does not fit.
    #[error("{0}")]
    Refused(#[from] JoinError),
    /// The endpoint has ended.
    #[error("the endpoint has ended")]
    Ended,
}

/// Why an operation has failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PostFailure {
    /// It was not begun.
    #[error("{0}")]
    Refused(#[from] PostError),
    /// Its memory does not fit.
    #[error("{0}")]
    Memory(#[from] MemoryError),
    /// Its group has failed.
    #[error("{0}")]
    Failed(#[from] Failure),
    /// The endpoint has ended.
    #[error("the endpoint has ended")]
    Ended,
}
