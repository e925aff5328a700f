//! A packet that finds the queue full loses its payload; its header goes on with priority.

use super::plug::{Capabilities, Overflow};
use lightloom_units::kind::Kind;
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "trim",
    summary: "A packet that finds the queue full loses its payload; its header goes on with priority",
    source: None,
    keys: &[],
    capabilities: Capabilities { limits_queue: true, trims: true, pauses: false },
};

/// There are none.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {}

pub(crate) struct Trim;

impl Overflow for Trim {
    type Settings = Settings;
}
