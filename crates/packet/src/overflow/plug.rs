//! What happens when a queue is full, as far as `switch.rs` must know.

use lightloom_units::Bytes;
use serde::{Deserialize, Serialize};

/// What others must know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Whether an output port's queue has a limit of its own.
    pub limits_queue: bool,
    /// Whether the header of a packet goes on that finds the queue full.
    pub trims: bool,
    /// Whether input ports pause their senders.
    pub pauses: bool,
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

/// How the queues of a switch share its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// What all of them hold together.
    pub buffer: Bytes,
    /// A queue holds at most so many times what is free of it.
    pub alpha: f64,
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

    /// What the queues of a switch share, if they do.
    fn buffer(settings: &Self::Settings) -> Option<Buffer> {
        let _ = settings;
        None
    }
}
