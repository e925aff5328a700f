//! Priority flow control (IEEE 802.1Qbb): an input port whose packets fill `xoff` bytes of the switch
//! pauses its sender until they fill no more than `xon`.

use super::plug::{Capabilities, Overflow, Pause};
use lightloom_units::kind::{Form, Key, Kind};

const BYTES: Form = Form::Size { min: 1, max: 1 << 40 };

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "pfc",
    summary: "Queues do not fill up: an input port pauses its sender",
    source: Some("IEEE 802.1Qbb"),
    keys: &[
        Key::new("xoff", BYTES, "Bytes from one input port that cause a pause."),
        Key::new("xon", BYTES, "Bytes from one input port at which it ends."),
        Key::new(
            "headroom",
            BYTES,
            "Bytes above `xoff` for what is on the wire when a pause is sent; more is lost.",
        ),
    ],
    capabilities: Capabilities { limits_queue: false, trims: false, pauses: true },
};

pub type Settings = Pause;

pub(crate) struct Pfc;

impl Overflow for Pfc {
    type Settings = Settings;

    fn pause(settings: &Settings) -> Option<Pause> {
        Some(*settings)
    }
}
