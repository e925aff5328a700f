//! Networks of routers under a load, by name: what `lightloom railx simulate` runs.
//!
//! Checked: RailX's bounds and BookSim's mesh, through the command line.

use crate::error::SimError;
use lightloom_fabric::FabricError;
use lightloom_fabric::railx::Grid;
use lightloom_fabric::routers::{
    NETWORKS, Network, NetworkKeys, NetworkKind, RailxLinks, Refused, Routed, Routing, railx,
};
use lightloom_flit::{MeasureError, Measured, Settings, Traffic, measure};
use lightloom_railx::{DimensionSpec, Named, Share, Topology, channel_loads, select, throughput};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What is to be simulated, but for the load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlitSpec {
    /// Routers and channels.
    pub network: NetworkSpec,
    /// How packets are routed.
    pub routing: String,
    /// Who sends to whom.
    pub traffic: TrafficSpec,
    /// How routers work, and for how long.
    pub settings: Settings,
}

/// Routers and channels: a kind of network, and its keys.
#[derive(Clone, Debug)]
pub struct NetworkSpec(Arc<dyn NetworkKeys>);

/// Every kind of network.
pub fn networks() -> impl Iterator<Item = &'static NetworkKind> {
    std::iter::once(&RAILX).chain(NETWORKS.iter().copied())
}

impl<'de> Deserialize<'de> for NetworkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Map::deserialize(deserializer)?;
        let name = keys.remove("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let Some(kind) = networks().find(|kind| name == kind.name) else {
            let known: Vec<&str> = networks().map(|kind| kind.name).collect();
            let known = known.join(", ");
            return Err(D::Error::custom(format!("network = {name}: allowed: {known}")));
        };
        kind.read(Value::Object(keys)).map(NetworkSpec).map_err(D::Error::custom)
    }
}

/// The kind `railx`.
static RAILX: NetworkKind = NetworkKind::of::<RailxKeys>("railx");

/// A grid of RailX.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RailxKeys {
    /// Chips along each side of a node's mesh.
    mesh: u32,
    /// Rail ports at an outer chip edge.
    ports: u32,
    /// Ports of an optical switch.
    ocs: u32,
    /// Ports of the switches of rows, if others.
    global_ocs: Option<u32>,
    /// A topology by name; none for a split.
    named: Option<Named>,
    /// Columns and rows of nodes; the largest that can be, if not given.
    scale: Option<[u32; 2]>,
    /// Of a split: the parts of a row and of a column.
    x: Vec<DimensionSpec>,
    /// See `x`.
    y: Vec<DimensionSpec>,
    /// See `x`.
    share: Share,
    /// Flits a cycle of a mesh link.
    inside: u16,
    /// Cycles of a mesh link.
    short_delay: u16,
    /// Cycles of a rail.
    long_delay: u16,
}

impl NetworkKeys for RailxKeys {
    fn build(&self, routing: &str, vcs: u8) -> Result<Routed, Refused> {
        let topology = self.topology()?;
        let routing = select(&topology, routing, vcs)?;
        let links = RailxLinks {
            inside_width: self.inside.max(1),
            rail_width: 1,
            short_delay: self.short_delay,
            long_delay: self.long_delay,
        };
        Ok((railx(&topology.layout, links), routing))
    }
}

impl RailxKeys {
    fn topology(&self) -> Result<Topology, FabricError> {
        let mut hall = Grid::new(self.mesh, self.ports, self.ocs, 1, 1);
        hall.global_radix = self.global_ocs;
        hall.check()?;
        match self.named {
            None => Topology::split(hall, &self.x, &self.y, self.share),
            Some(named) => named.build(match self.scale {
                Some([columns, rows]) => Grid { columns, rows, ..hall },
                None => named.largest(hall),
            }),
        }
    }
}

/// Who sends to whom.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TrafficSpec {
    /// Every packet to a terminal drawn evenly.
    Uniform {
        /// Whether a terminal may draw itself.
        to_self: bool,
    },
    /// Every terminal to all others in turn.
    AllToAll,
    /// Terminal i to n - 1 - i.
    Complement,
    /// Terminal i of n = w x w to the one mirrored at the diagonal.
    Transpose,
    /// Terminal i to i + n / 2.
    Shift,
    /// A permutation drawn with the settings' seed.
    Permutation,
    /// A share of the packets to the first terminals.
    HotSpot {
        /// How many terminals receive this share.
        terminals: u32,
        /// The share of packets for them, from 0 to 1.
        share: f64,
    },
    /// To the terminals before and after, by number.
    Ring,
    /// In proportion to a matrix \[from, to\], row by row.
    Matrix {
        /// The matrix, row by row.
        weights: Vec<f64>,
    },
}

/// A network and its traffic, ready to be loaded.
pub struct Flits {
    network: Network,
    routing: Box<dyn Routing + Send>,
    traffic: Traffic,
    settings: Settings,
}

fn input(error: impl std::fmt::Display) -> SimError {
    SimError::Input(error.to_string())
}

impl Flits {
    /// Builds the network.
    ///
    /// # Errors
    /// [`SimError::Input`] names what cannot be.
    pub fn new(spec: &FlitSpec) -> Result<Self, SimError> {
        let built = spec.network.0.build(&spec.routing, spec.settings.vcs);
        let (network, routing) = built.map_err(input)?;
        spec.settings.check(routing.vcs()).map_err(input)?;
        let terminals = network.terminals().len() as u32;
        let traffic = spec.traffic.pattern(terminals, spec.settings.seed)?;
        Ok(Flits { network, routing, traffic, settings: spec.settings.clone() })
    }

    /// How many terminals the network has.
    pub fn terminals(&self) -> usize {
        self.network.terminals().len()
    }

    /// Virtual channels that the routing uses.
    pub fn vcs(&self) -> u8 {
        self.routing.vcs()
    }

    /// The load at which the busiest channel is full under uniform traffic, if nothing ever waits.
    /// For some thousand terminals at most, and few choices.
    ///
    /// # Errors
    /// [`SimError::Input`] if a packet does not arrive.
    pub fn bound(&self) -> Result<f64, SimError> {
        let loads = channel_loads(&self.network, self.routing.as_ref()).map_err(input)?;
        Ok(throughput(&self.network, &loads))
    }

    /// Measures one load.
    ///
    /// # Errors
    /// [`SimError::Input`] for a load that cannot be, [`SimError::Run`] for a run that did not end.
    pub fn measure(
        &self,
        load: f64,
        threads: usize,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Measured, SimError> {
        let (network, routing) = (&self.network, self.routing.as_ref());
        measure(network, routing, &self.traffic, load, &self.settings, threads, progress).map_err(
            |error| match error {
                MeasureError::Interrupted => {
                    SimError::Run(lightloom_engine::EngineError::Interrupted)
                }
                MeasureError::Deadlock { .. } => {
                    SimError::Run(lightloom_engine::EngineError::Policy {
                        task: 0,
                        reason: error.to_string(),
                    })
                }
                wrong => input(wrong),
            },
        )
    }
}

impl TrafficSpec {
    fn pattern(&self, n: u32, seed: u64) -> Result<Traffic, SimError> {
        let each = |to: &dyn Fn(u32) -> u32| Traffic::Permutation((0..n).map(to).collect());
        Ok(match self {
            &TrafficSpec::Uniform { to_self } => Traffic::Uniform { to_self },
            TrafficSpec::AllToAll => Traffic::AllToAll,
            TrafficSpec::Complement => each(&|i| n - 1 - i),
            TrafficSpec::Shift => each(&|i| (i + n / 2) % n),
            TrafficSpec::Transpose => {
                let w = n.isqrt();
                if w * w != n {
                    return Err(input(format!("traffic: transpose of {n} terminals, no square")));
                }
                each(&|i| i % w * w + i / w)
            }
            TrafficSpec::Permutation => Traffic::random_permutation(n, seed),
            &TrafficSpec::HotSpot { terminals, share } => {
                Traffic::HotSpot { terminals: (0..terminals).collect(), share }
            }
            TrafficSpec::Ring => Traffic::Ring { order: (0..n).collect() },
            TrafficSpec::Matrix { weights } => Traffic::Matrix(weights.clone()),
        })
    }
}
