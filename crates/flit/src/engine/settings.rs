//! The settings of the engine of flits.

use crate::settings::{Arbitration, Credits};
use lightloom_units::Bytes;
use serde::Deserialize;

/// The engine of flits.
///
/// ```
/// use lightloom_engine::Engine;
/// use lightloom_flit::FlitEngine;
/// assert_eq!(FlitEngine::default().name(), "flit");
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlitEngine {
    /// Size of a flit.
    pub flit_size: Bytes,
    /// Length of a packet \[flits\]; if not given, what the widest channel carries in four cycles, so
    /// that allocating the next one can hide behind it.
    pub packet: Option<u8>,
    /// Virtual channels of a port: even, up to 16. Half as many classes break circles of waiting.
    pub vcs: u8,
    /// Buffer of a virtual channel \[flits\]; what the longest channel needs, if not given.
    pub buffer: Option<u16>,
    /// When buffer space counts as free again.
    pub credits: Credits,
    /// Who goes first.
    pub arbitration: Arbitration,
    /// Cycles a flit spends in a router beyond allocation and switching.
    pub pipeline: u16,
}

impl Default for FlitEngine {
    fn default() -> Self {
        FlitEngine {
            flit_size: Bytes::new(256),
            packet: None,
            vcs: 16,
            buffer: None,
            credits: Credits::Link,
            arbitration: Arbitration::RoundRobin,
            pipeline: 0,
        }
    }
}
