//! Round robin, packet by packet: a flow's packets go round all paths. It begins where its NIC's round is,
//! and each NIC's round at a number of its own, so that flows of one NIC, and neighbours under one
//! switch, take different paths at a time.
//!
//! A round of the NIC for all of its flows would not do: where a NIC serves six flows in turn over six
//! paths, each flow would keep to one path.

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
    /// The path of the next packet, from the second on.
    next: Option<u16>,
}

impl Balancer for RoundRobin {
    type Settings = Settings;

    fn new(_: &Settings, paths: u16, _: u64) -> Self {
        RoundRobin { paths, next: None }
    }
    #[inline]
    fn path(&mut self, next: Next) -> u16 {
        let path = self.next.unwrap_or((next.turn % u32::from(self.paths)) as u16);
        self.next = Some(if path + 1 < self.paths { path + 1 } else { 0 });
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_takes_every_path_once_a_round() {
        for flows in 1..=13u16 {
            let mut flows: Vec<_> =
                (0..flows).map(|_| RoundRobin::new(&Settings {}, 6, 0)).collect();
            let mut turn = 7;
            let mut taken = vec![Vec::new(); flows.len()];
            for _ in 0..6 {
                for (flow, taken) in flows.iter_mut().zip(&mut taken) {
                    taken.push(flow.path(Next { turn, in_flight: 0, now: 0 }));
                    turn += 1;
                }
            }
            for (at, taken) in taken.iter_mut().enumerate() {
                assert_eq!(usize::from(taken[0]), (7 + at) % 6, "neighbours begin apart");
                taken.sort_unstable();
                assert_eq!(*taken, [0, 1, 2, 3, 4, 5]);
            }
        }
    }
}
