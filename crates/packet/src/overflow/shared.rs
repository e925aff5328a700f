//! The queues of a switch share one buffer. A queue holds at most `alpha` times what is free of it, so that
//! a few busy ports have much and many have little each (Choudhury and Hahne, IEEE/ACM Transactions on
//! Networking 6(2), 1998: dynamic thresholds). A packet that finds its queue at that limit is lost.

use super::plug::{Buffer, Capabilities, Overflow};
use lightloom_units::kind::{Form, Key, Kind};

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "shared",
    summary: "The queues of a switch share a buffer; a packet is lost whose queue has its share",
    source: Some(
        "Dynamic queue length thresholds, Choudhury and Hahne, IEEE/ACM Transactions on Networking 1998",
    ),
    keys: &[
        Key::new(
            "buffer",
            Form::Size { min: 1, max: 1 << 40 },
            "Bytes that all queues of a switch hold together.",
        ),
        Key::new(
            "alpha",
            Form::Number { above: 0.0, max: 1024.0 },
            "A queue holds at most so many times what is free of the buffer.",
        ),
    ],
    capabilities: Capabilities { limits_queue: false, trims: false, pauses: false },
};

pub type Settings = Buffer;

pub(crate) struct Shared;

impl Overflow for Shared {
    type Settings = Settings;

    fn buffer(settings: &Settings) -> Option<Buffer> {
        Some(*settings)
    }
}
