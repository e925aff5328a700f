//! RailX as a kind of network of routers: a topology by name, routers of its grid, its routing.

use crate::routing::{ROUTINGS, select};
use crate::topology::named::Named;
use lightloom_fabric::railx::Grid;
use lightloom_fabric::routers::{
    NetworkKeys, NetworkKind, RailxLinks, Refused, Routed, Routings, delay, railx, width,
};
use lightloom_units::kind::{Form, Key, Kind};
use serde::Deserialize;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The kind `railx`.
pub static RAILX: NetworkKind = NetworkKind::of::<RailxKeys>(
    Kind {
        name: "railx",
        summary: "Nodes of chips in a mesh, rows and columns of nodes on circuits",
        source: Some("RailX"),
        keys: &[
            Key::new(
                "mesh",
                Form::Count { min: 1, max: 64 },
                "Chips along a side of a node (the paper's m).",
            ),
            Key::new(
                "ports",
                Form::Count { min: 1, max: 256 },
                "Rails at a chip on the edge of its node, for each such edge (the paper's n).",
            ),
            Key::new(
                "ocs",
                Form::Even { min: 2, max: 4096 },
                "Ports of an optical switch (the paper's R).",
            ),
            Key::new(
                "topology",
                Form::Choice(&["torus", "hyperx", "dragonfly"]),
                "What the rails form.",
            ),
            Key::optional(
                "scale",
                Form::Counts { min: 1, max: 2048 },
                "Columns and rows of nodes; as many as there can be unless given.",
            ),
            Key {
                optional: true,
                ..width(
                    "inside",
                    "Flits a cycle of a mesh link (k n in equations 5 and 8, k in Section 6.1.2); 4 times \
                     `ports` unless given.",
                )
            },
            delay("short_delay", "Cycles of a mesh link."),
            delay("long_delay", "Cycles of a rail."),
            Key::optional(
                "global_ocs",
                Form::Even { min: 2, max: 4096 },
                "Ports of the switches of rows, if they have other than `ocs`.",
            ),
        ],
        capabilities: Routings { routings: &ROUTINGS },
    },
    |n| {
        let topology = [Named::Torus, Named::HyperX, Named::Dragonfly][n as usize % 3];
        Arc::new(RailxKeys {
            mesh: 2 + n % 2,
            ports: 1 + n / 2 % 2,
            ocs: 10,
            topology,
            scale: (topology != Named::Dragonfly).then(|| vec![3, 5 - 2 * (n / 3 % 2)]),
            inside: None,
            short_delay: 1,
            long_delay: 10,
            global_ocs: None,
        })
    },
);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RailxKeys {
    mesh: u32,
    ports: u32,
    ocs: u32,
    topology: Named,
    scale: Option<Vec<u32>>,
    inside: Option<NonZeroU16>,
    short_delay: u16,
    long_delay: u16,
    global_ocs: Option<u32>,
}

impl NetworkKeys for RailxKeys {
    fn build(&self, routing: &str, vcs: u8) -> Result<Routed, Refused> {
        let hall = Grid {
            global_radix: self.global_ocs,
            ..Grid::new(self.mesh, self.ports, self.ocs, 1, 1)
        };
        let scale = self.scale.as_deref().map(|scale| {
            let refused = |_| format!("scale = {scale:?}: must be two numbers, columns and rows");
            <[u32; 2]>::try_from(scale).map_err(refused)
        });
        let scale = scale.transpose()?;
        let topology = self.topology.at(hall, scale)?;
        let routing = select(&topology, routing, vcs)?;
        let links = RailxLinks {
            inside_width: self.inside.map_or(4 * self.ports as u16, NonZeroU16::get),
            rail_width: 1,
            short_delay: self.short_delay,
            long_delay: self.long_delay,
        };
        Ok((railx(&topology.layout, links), routing))
    }
}
