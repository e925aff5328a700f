//! A packet that finds the queue full is lost.

use super::plug::{Capabilities, Overflow};
use lightloom_units::kind::Kind;
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "drop",
    summary: "A packet that finds the queue full is lost",
    source: None,
    keys: &[],
    capabilities: Capabilities { limits_queue: true, trims: false, pauses: false },
};

/// There are none.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {}

pub(crate) struct Drop;

impl Overflow for Drop {
    type Settings = Settings;
}
