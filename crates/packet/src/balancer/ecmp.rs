//! ECMP: a sub-flow stays on the path of its hash (RFC 2992).

use super::plug::{Balancer, Capabilities, Next, Nics, Paths, pick};
use lightloom_units::kind::Kind;
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "ecmp",
    summary: "Each flow on one path, by a hash",
    source: None,
    keys: &[],
    capabilities: Capabilities { keeps_order: true, paths: Paths::Route, nics: Nics::Own },
};

/// There are none.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ecmp {
    path: u16,
}

impl Balancer for Ecmp {
    type Settings = Settings;

    fn new(_: &Settings, paths: u16, hash: u64) -> Self {
        Ecmp { path: pick(hash, paths) }
    }
    #[inline]
    fn path(&mut self, _: Next) -> u16 {
        self.path
    }
}
