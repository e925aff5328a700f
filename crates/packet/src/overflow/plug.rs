//! What happens when a queue is full, as far as `switch.rs` must know.

use lightloom_units::Bytes;
use serde::{Deserialize, Serialize};

/// What others must know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Whether an output port's queue has a limit. Without one, pauses keep it from filling.
    pub limits_queue: bool,
    /// Whether the header of a packet goes on that finds the queue full.
    pub trims: bool,
}

/// When an input port pauses its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Bytes from one input port that cause a pause.
    pub xoff: Bytes,
    /// Bytes from one input port that end it.
    pub xon: Bytes,
    /// Bytes above `xoff` for what is on the wire when the pause is sent; more is lost.
    pub headroom: Bytes,
}

/// What happens when a queue is full.
pub(crate) trait Overflow {
    /// What its table of the specification holds.
    type Settings;

    /// When senders are paused, if they are.
    fn pause(settings: &Self::Settings) -> Option<Pause> {
        let _ = settings;
        None
    }
}
