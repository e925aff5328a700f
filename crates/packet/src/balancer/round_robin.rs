//! Round robin, packet by packet: a NIC's packets go round all paths, whichever flow they are of. Each
//! NIC starts at its own number, so that neighbours under one switch take different paths at a time.

use super::plug::{Balancer, Capabilities, Next, Nics, Paths};
use lightloom_units::kind::Kind;
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "round-robin",
    summary: "Each packet by the next path",
    source: None,
    keys: &[],
    capabilities: Capabilities { keeps_order: false, paths: Paths::EveryPacket, nics: Nics::Own },
};

/// There are none.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundRobin {
    paths: u16,
}

impl Balancer for RoundRobin {
    type Settings = Settings;

    fn new(_: &Settings, paths: u16, _: u64) -> Self {
        RoundRobin { paths }
    }
    #[inline]
    fn path(&mut self, next: Next) -> u16 {
        (next.turn % u32::from(self.paths)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_once_a_round() {
        let mut b = RoundRobin::new(&Settings {}, 12, 0);
        let path = |turn| b.path(Next { turn, in_flight: 0, now: 0 });
        let mut seen: Vec<u16> = (7..19).map(path).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..12).collect::<Vec<_>>());
    }
}
