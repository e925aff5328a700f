//! MinRTT, MPTCP's default scheduler (Paasch et al., CSWS 2014): of the sub-flows with room in their
//! windows the one with the least smoothed round trip sends. A sub-flow itself stays on the path of
//! its hash.

use super::plug::{Balancer, Capabilities, Heard, Next, Nics, Paths, pick};
use lightloom_units::kind::Kind;
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "min-rtt",
    summary: "Each packet by the sub-flow with the shortest round trip that has room",
    source: Some("MPTCP's scheduler, Paasch et al., CSWS 2014"),
    keys: &[],
    capabilities: Capabilities { keeps_order: false, paths: Paths::One, nics: Nics::Lanes },
};

/// There are none.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MinRtt {
    path: u16,
    /// Smoothed as TCP does (RFC 6298); 0 before the first measurement \[ps\].
    smoothed: u64,
}

impl Balancer for MinRtt {
    type Settings = Settings;

    fn new(_: &Settings, paths: u16, hash: u64) -> Self {
        MinRtt { path: pick(hash, paths), smoothed: 0 }
    }
    #[inline]
    fn path(&mut self, _: Next) -> u16 {
        self.path
    }
    #[inline]
    fn acked(&mut self, heard: Heard) {
        self.smoothed = match self.smoothed {
            0 => heard.round_trip,
            before => before - before / 8 + heard.round_trip / 8,
        };
    }
    #[inline]
    fn round_trip(&self) -> Option<u64> {
        Some(self.smoothed)
    }
}
