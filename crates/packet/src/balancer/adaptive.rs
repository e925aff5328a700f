//! Adaptive routing: each switch sends a packet on over that of its equal ways on which it would wait least
//! (`steering.rs`). What the sender chooses is the path of a packet that no switch can steer.

use super::plug::{Balancer, Capabilities, Next, Nics, Paths};
use super::round_robin::RoundRobin;
use lightloom_units::kind::Kind;
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "adaptive",
    summary: "Each switch chooses the way with the shortest queue, packet by packet",
    source: Some("DRILL, Ghorbani et al., SIGCOMM 2017, with all ports looked at"),
    keys: &[],
    capabilities: Capabilities { keeps_order: false, paths: Paths::EveryHop, nics: Nics::Own },
};

/// There are none.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Adaptive(RoundRobin);

impl Balancer for Adaptive {
    type Settings = Settings;

    fn new(_: &Settings, paths: u16, hash: u64) -> Self {
        Adaptive(RoundRobin::new(&super::round_robin::Settings {}, paths, hash))
    }
    #[inline]
    fn path(&mut self, next: Next) -> u16 {
        self.0.path(next)
    }
}
