//! Rail-only: chips joined by switches inside a node, and by rails from node to node.
//!
//! Modelled: a fat-tree of two dimensions, one tier each (Wang et al., 2024; RailX, Section A.8).
//! All chips of a node are on its scale-up switches; the chips of one rank, one a node, are on the
//! switches of their rail. A packet crosses its node first and then its rail, by switches drawn at
//! random, or others where those have no room.
//! Ignored: switches of several tiers.
//! Checked: paths are as short as can be; no cycle among the channels.

use super::kind::{LANES, NetworkKeys, NetworkKind, Refused, Routed, Routings, delay, width};
use super::network::{ChannelKind, End, Network};
use super::routing::{Choice, Routing};
use super::torus::MOST_ROUTERS;
use crate::error::FabricError;
use lightloom_units::kind::{Form, Key, Kind};
use serde::Deserialize;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Chips on switches in two dimensions, and their routing. Routers: chips node by node, then scale-up
/// switches node by node, then those of the rails. Ports of a chip: to its scale-up switches, then to
/// its rail's; ports of a switch: by rank, or by node.
///
/// ```
/// use lightloom_fabric::routers::RailOnly;
/// let rails = RailOnly::new(36, 36, 4, 4, 2).unwrap();
/// let network = rails.network((1, 1), (1, 10), 1);
/// assert_eq!(network.terminals().len(), 1296);
/// assert_eq!(network.routers(), 1296 + 2 * 36 * 4);
/// assert_eq!((network.ports(0), network.ports(1296)), (8, 36));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailOnly {
    nodes: u32,
    chips: u32,
    inside: u32,
    rails: u32,
    vcs: u8,
}

impl RailOnly {
    /// So many `nodes` of so many `chips`, each on `inside` switches of its node and `rails` of its
    /// rail; with `vcs` virtual channels.
    ///
    /// # Errors
    /// If one of them is 0, or there are too many.
    pub fn new(
        nodes: u32,
        chips: u32,
        inside: u32,
        rails: u32,
        vcs: u8,
    ) -> Result<Self, FabricError> {
        let counts = [("nodes", nodes), ("chips", chips), ("inside", inside), ("rails", rails)];
        for (key, value) in counts {
            if !(1..=4096).contains(&value) {
                return Err(FabricError::new(key, value, "must be from 1 to 4096"));
            }
        }
        let [n, c, i, r] = counts.map(|(_, value)| u64::from(value));
        if n * c + n * i + c * r > MOST_ROUTERS {
            let reason = format!("with chips = {chips} must make up to {MOST_ROUTERS} routers");
            return Err(FabricError::new("nodes", nodes, reason));
        }
        if !(1..=16).contains(&vcs) {
            return Err(FabricError::new("vcs", vcs, "must be from 1 to 16"));
        }
        Ok(RailOnly { nodes, chips, inside, rails, vcs })
    }

    /// Its routers, `lanes` terminals at each chip. Channels of a node and of a rail: width in flits a
    /// cycle, delay in cycles.
    pub fn network(&self, node: (u16, u16), rail: (u16, u16), lanes: u16) -> Network {
        let mut network = Network::new("rail-only", self.first_rail() + self.chips * self.rails);
        for chip in 0..self.first_inside() {
            network.dark_ports(chip, (self.inside + self.rails) as u16);
            (0..lanes).for_each(|_| _ = network.terminal(chip));
        }
        for switch in self.first_inside()..self.first_rail() {
            network.dark_ports(switch, self.chips as u16);
        }
        for switch in self.first_rail()..network.routers() {
            network.dark_ports(switch, self.nodes as u16);
        }
        let mut join = |chip, port: u32, switch, there: u32, (width, delay), kind| {
            let from = End { router: chip, port: port as u16 };
            let to = End { router: switch, port: there as u16 };
            network.join(from, to, width, delay, kind);
        };
        for chip in 0..self.first_inside() {
            let (at, rank) = (chip / self.chips, chip % self.chips);
            for plane in 0..self.inside {
                let switch = self.first_inside() + at * self.inside + plane;
                join(chip, plane, switch, rank, node, ChannelKind::Short);
            }
            for plane in 0..self.rails {
                let switch = self.first_rail() + rank * self.rails + plane;
                join(chip, self.inside + plane, switch, at, rail, ChannelKind::Long);
            }
        }
        network
    }

    fn first_inside(&self) -> u32 {
        self.nodes * self.chips
    }

    fn first_rail(&self) -> u32 {
        self.first_inside() + self.nodes * self.inside
    }
}

impl Routing for RailOnly {
    fn name(&self) -> &'static str {
        "dimension-order"
    }

    fn vcs(&self) -> u8 {
        self.vcs
    }

    fn draws(&self) -> u32 {
        (self.inside * self.rails).min(1 << 16)
    }

    fn route(&self, at: u32, _: Option<(u16, u8)>, to: u32, draw: u32, choices: &mut Vec<Choice>) {
        let (node, rank) = (to / self.chips, to % self.chips);
        let (first, planes) = if at >= self.first_rail() {
            (node, 1)
        } else if at >= self.first_inside() {
            (rank, 1)
        } else if at % self.chips != rank {
            (0, self.inside)
        } else {
            (self.inside, self.rails)
        };
        let draw = if first == 0 { draw % self.inside } else { draw / self.inside };
        for n in 0..planes {
            let port = (first + (draw + n) % planes) as u16;
            let rank = u8::from(n > 0);
            choices.extend((0..self.vcs).map(|vc| Choice { rank, ..Choice::new(port, vc) }));
        }
    }
}

/// The kind `rail-only`.
pub static KIND: NetworkKind = NetworkKind::of::<RailOnlyKeys>(
    Kind {
        name: "rail-only",
        summary: "Nodes of chips on switches of their own, the chips of one rank on those of their rail",
        source: Some("Wang et al., 2024"),
        keys: &[
            Key::new("nodes", Form::Count { min: 1, max: 4096 }, "How many nodes."),
            Key::new("chips", Form::Count { min: 1, max: 4096 }, "Chips of a node."),
            Key::new(
                "inside",
                Form::Count { min: 1, max: 4096 },
                "Switches of a node: links of a chip inside.",
            ),
            Key::new(
                "rails",
                Form::Count { min: 1, max: 4096 },
                "Switches of a rail: links of a chip outside.",
            ),
            width("inside_width", "Flits a cycle of a link inside a node."),
            width("rail_width", "Flits a cycle of a link to a rail's switch."),
            delay("short_delay", "Cycles of a link inside a node."),
            delay("long_delay", "Cycles of a link to a rail's switch."),
            LANES,
        ],
        capabilities: Routings { routings: &["dimension-order"] },
    },
    |n| {
        let (nodes, chips, inside, rails) =
            [(4, 5, 2, 1), (3, 6, 1, 2), (1, 5, 2, 1), (5, 1, 1, 2), (3, 3, 3, 1)][n as usize % 5];
        let [inside_width, lanes] =
            [n % 2, n % 3].map(|n| NonZeroU16::MIN.saturating_add(n as u16));
        Arc::new(RailOnlyKeys {
            nodes,
            chips,
            inside,
            rails,
            inside_width,
            rail_width: NonZeroU16::MIN,
            short_delay: 1,
            long_delay: 10,
            lanes,
        })
    },
);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RailOnlyKeys {
    nodes: u32,
    chips: u32,
    inside: u32,
    rails: u32,
    inside_width: NonZeroU16,
    rail_width: NonZeroU16,
    short_delay: u16,
    long_delay: u16,
    lanes: NonZeroU16,
}

impl NetworkKeys for RailOnlyKeys {
    fn build(&self, _: &str, vcs: u8) -> Result<Routed, Refused> {
        let rails = RailOnly::new(self.nodes, self.chips, self.inside, self.rails, vcs)?;
        let node = (self.inside_width.get(), self.short_delay);
        let rail = (self.rail_width.get(), self.long_delay);
        Ok((rails.network(node, rail, self.lanes.get()), Box::new(rails)))
    }

    fn bound(&self) -> Option<f64> {
        let [nodes, chips] = [self.nodes, self.chips].map(f64::from);
        let all = nodes * chips;
        let load = |of: f64, links: u32, width: NonZeroU16| {
            (all - of) / (all - 1.0) / (f64::from(links) * f64::from(width.get()))
        };
        let across = load(nodes, self.inside, self.inside_width);
        Some(1.0 / across.max(load(chips, self.rails, self.rail_width)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::walk;
    use super::*;

    #[test]
    fn paths_are_as_short_as_can_be_and_free_of_cycles() {
        for (nodes, chips, inside, rails) in
            [(3, 4, 2, 1), (4, 3, 1, 3), (1, 5, 2, 1), (5, 1, 1, 2)]
        {
            let routing = RailOnly::new(nodes, chips, inside, rails, 2).unwrap();
            let network = routing.network((1, 1), (1, 10), 1);
            let walked = walk(&network, &routing).expect("no cycle");
            assert_eq!(walked.len() as u32, nodes * chips * (nodes * chips - 1));
            for (from, to, least, most) in walked {
                let dimensions = [from / chips != to / chips, from % chips != to % chips];
                let hops = 2 * dimensions.iter().filter(|&&differs| differs).count() as u32;
                assert_eq!((least, most), (hops, hops), "{from} {to}");
            }
        }
    }

    #[test]
    fn channels_are_as_long_as_they_are_said_to_be() {
        let network = RailOnly::new(2, 3, 2, 1, 1).unwrap().network((4, 1), (2, 10), 1);
        let of = |kind, width, delay| {
            let channels = network.channels().iter();
            channels.filter(|c| (c.kind, c.width, c.delay) == (kind, width, delay)).count()
        };
        assert_eq!(of(ChannelKind::Short, 4, 1), 2 * 6 * 2);
        assert_eq!(of(ChannelKind::Long, 2, 10), 2 * 6);
        assert_eq!(network.channels().len(), 36);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |n, c, vcs| RailOnly::new(n, c, 1, 1, vcs).unwrap_err().to_string();
        assert_eq!(refused(0, 4, 1), "nodes = 0: must be from 1 to 4096");
        assert!(refused(4096, 4096, 1).contains("up to 1048576 routers"));
        assert_eq!(refused(4, 4, 0), "vcs = 0: must be from 1 to 16");
    }
}
