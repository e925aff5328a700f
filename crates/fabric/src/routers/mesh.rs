//! A mesh of routers in two dimensions, routed along X and then along Y.
//!
//! Modelled: a router a chip, a channel each way between neighbours. A packet may take any virtual
//! channel at every hop: one is enough, as no packet turns from Y to X.
//! Checked: every path is as short as can be; no cycle among the channels (`check` of the crate
//! `lightloom-railx`).

use super::kind::{DELAY, NetworkKeys, NetworkKind, Refused, Routed, Routings, WIDTH};
use super::network::{ChannelKind, End, Network};
use super::routing::{Choice, Routing};
use crate::error::FabricError;
use lightloom_units::kind::{Form, Key, Kind};
use serde::Deserialize;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A mesh and its routing. Ports: 0 towards higher x, 1 lower x, 2 higher y, 3 lower y; those that
/// would leave the mesh are dark.
///
/// ```
/// use lightloom_fabric::routers::{Choice, Mesh, Routing};
/// let mesh = Mesh::new(8, 8, 4).unwrap();
/// let network = mesh.network(1, 1);
/// assert_eq!((network.routers(), network.channels().len()), (64, 2 * 2 * 7 * 8));
/// let mut choices = Vec::new();
/// mesh.route(0, None, 63, 0, &mut choices);
/// assert_eq!(choices, [0, 1, 2, 3].map(|vc| Choice::new(0, vc))); // east, on any of four
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mesh {
    columns: u32,
    rows: u32,
    vcs: u8,
}

impl Mesh {
    /// A mesh of `columns` x `rows` routers, numbered row by row, with `vcs` virtual channels.
    ///
    /// # Errors
    /// If there is no router or no virtual channel.
    pub fn new(columns: u32, rows: u32, vcs: u8) -> Result<Self, FabricError> {
        for (key, value) in [("columns", columns), ("rows", rows)] {
            if !(1..=4096).contains(&value) {
                return Err(FabricError::new(key, value, "must be from 1 to 4096"));
            }
        }
        if vcs == 0 {
            return Err(FabricError::new("vcs", vcs, "must be at least 1"));
        }
        Ok(Mesh { columns, rows, vcs })
    }

    /// Its routers, with a terminal each; channels of `width` flits a cycle and `delay` cycles.
    pub fn network(&self, width: u16, delay: u16) -> Network {
        let mut network = Network::new("mesh", self.columns * self.rows);
        for at in 0..self.columns * self.rows {
            network.dark_ports(at, 4);
            network.terminal(at);
        }
        let mut join = |a, b, port| {
            let (a, b) = (End { router: a, port }, End { router: b, port: port + 1 });
            network.join(a, b, width, delay, ChannelKind::Short);
        };
        for at in 0..self.columns * self.rows {
            if at % self.columns + 1 < self.columns {
                join(at, at + 1, 0);
            }
            if at / self.columns + 1 < self.rows {
                join(at, at + self.columns, 2);
            }
        }
        network
    }
}

/// The port of a mesh that brings a packet nearer along X, else along Y, or `None` if it is there.
/// `by` is how far it has to go, each way.
pub(super) fn port_towards(by: (i64, i64)) -> Option<u16> {
    match by {
        (1.., _) => Some(0),
        (..0, _) => Some(1),
        (0, 1..) => Some(2),
        (0, ..0) => Some(3),
        (0, 0) => None,
    }
}

impl Routing for Mesh {
    fn name(&self) -> &'static str {
        "dimension-order"
    }

    fn vcs(&self) -> u8 {
        self.vcs
    }

    fn route(&self, at: u32, _: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        let by = |of: fn(u32, u32) -> u32| {
            i64::from(of(to, self.columns)) - i64::from(of(at, self.columns))
        };
        let port = port_towards((by(|a, b| a % b), by(|a, b| a / b)))
            .expect("the engine ejects a packet that is there");
        choices.extend((0..self.vcs).map(|vc| Choice::new(port, vc)));
    }
}

/// The kind `mesh`.
pub static KIND: NetworkKind = NetworkKind::of::<MeshKeys>(
    Kind {
        name: "mesh",
        summary: "A mesh of routers in two dimensions, a chip at each",
        source: None,
        keys: &[
            Key::new("columns", Form::Count { min: 1, max: 4096 }, "Routers in a row."),
            Key::new("rows", Form::Count { min: 1, max: 4096 }, "Routers in a column."),
            WIDTH,
            DELAY,
        ],
        capabilities: Routings { routings: &["dimension-order"] },
    },
    |n| {
        let (columns, rows) = (1 + n % 5, 1 + n / 5 % 4);
        Arc::new(MeshKeys { columns, rows, width: NonZeroU16::MIN, delay: 1 })
    },
);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeshKeys {
    columns: u32,
    rows: u32,
    width: NonZeroU16,
    delay: u16,
}

impl NetworkKeys for MeshKeys {
    fn build(&self, _: &str, vcs: u8) -> Result<Routed, Refused> {
        let mesh = Mesh::new(self.columns, self.rows, vcs)?;
        Ok((mesh.network(self.width.get(), self.delay), Box::new(mesh)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_as_short_as_can_be_and_turn_once() {
        let mesh = Mesh::new(5, 3, 1).unwrap();
        let network = mesh.network(1, 1);
        for from in 0..15_u32 {
            for to in (0..15_u32).filter(|&to| to != from) {
                let (mut at, mut ports) = (from, Vec::new());
                while at != to {
                    let mut choices = Vec::new();
                    mesh.route(at, None, to, 0, &mut choices);
                    let channel = network.out(at, choices[0].port).expect("not off the edge");
                    at = channel.to.router;
                    ports.push(choices[0].port);
                }
                let hops = (from % 5).abs_diff(to % 5) + (from / 5).abs_diff(to / 5);
                assert_eq!(ports.len() as u32, hops);
                assert!(ports.windows(2).all(|two| two[0] / 2 <= two[1] / 2), "{ports:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(Mesh::new(8, 0, 1).unwrap_err().to_string(), "rows = 0: must be from 1 to 4096");
        assert!(Mesh::new(8, 8, 0).is_err());
    }
}
