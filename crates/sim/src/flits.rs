//! Networks of routers under a load, by name: what `lightloom railx simulate` runs.
//!
//! Checked: RailX's bounds and BookSim's mesh, through the command line.

use crate::error::SimError;
use lightloom_fabric::railx::Grid;
use lightloom_fabric::routers::{
    FatTree, HammingMesh, Mesh, Network, RailOnly, RailxLinks, Routing, Torus, railx,
};
use lightloom_flit::{MeasureError, Measured, Settings, Traffic, measure};
use lightloom_railx::{Named, Part, Share, Topology, channel_loads, select, throughput};
use serde::Deserialize;

/// What is to be simulated, but for the load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlitSpec {
    /// Routers and channels.
    pub network: NetworkSpec,
    /// How packets find their way.
    pub routing: String,
    /// Who sends to whom.
    pub traffic: TrafficSpec,
    /// How routers work, and for how long.
    pub settings: Settings,
}

/// Routers and channels.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum NetworkSpec {
    /// A grid of RailX.
    Railx {
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
        x: Vec<Part>,
        /// See `x`.
        y: Vec<Part>,
        /// See `x`.
        share: Share,
        /// Flits a cycle of a mesh link.
        inside: u16,
        /// Cycles of a mesh link.
        short_delay: u16,
        /// Cycles of a rail.
        long_delay: u16,
    },
    /// A mesh of two dimensions.
    Mesh {
        /// Routers in a row.
        columns: u32,
        /// Routers in a column.
        rows: u32,
        /// Flits a cycle.
        width: u16,
        /// Cycles.
        delay: u16,
    },
    /// A torus of any number of dimensions.
    Torus {
        /// Routers along each.
        sides: Vec<u32>,
        /// Flits a cycle.
        width: u16,
        /// Cycles.
        delay: u16,
        /// Terminals of a chip.
        lanes: u16,
    },
    /// Fat-trees, one a plane.
    FatTree {
        /// Of a switch, tier by tier from the leaves on.
        children: Vec<u32>,
        /// Of a chip, then of the switches below each tier.
        parents: Vec<u32>,
        /// Flits a cycle.
        width: u16,
        /// Cycles.
        delay: u16,
        /// Terminals of a chip.
        lanes: u16,
    },
    /// Boards whose edges are joined line by line.
    HammingMesh {
        /// Chips along a side of a board.
        board: u32,
        /// Boards in a row.
        columns: u32,
        /// Boards in a column.
        rows: u32,
        /// Switches a line.
        planes: u32,
        /// Cycles on a board.
        short_delay: u16,
        /// Cycles to a switch.
        long_delay: u16,
        /// Terminals of a chip.
        lanes: u16,
    },
    /// Switches inside nodes and along rails.
    RailOnly {
        /// How many.
        nodes: u32,
        /// Chips of a node.
        chips: u32,
        /// Switches of a node.
        inside: u32,
        /// Switches of a rail.
        rails: u32,
        /// Flits a cycle inside a node.
        inside_width: u16,
        /// Flits a cycle of a rail.
        rail_width: u16,
        /// Cycles inside a node.
        short_delay: u16,
        /// Cycles of a rail.
        long_delay: u16,
        /// Terminals of a chip.
        lanes: u16,
    },
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
        /// How many.
        terminals: u32,
        /// Which share.
        share: f64,
    },
    /// To the terminals before and after, by number.
    Ring,
    /// In proportion to a matrix \[from, to\], row by row.
    Matrix {
        /// Its cells.
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
        let (network, routing) = spec.network.build(&spec.routing, spec.settings.vcs)?;
        spec.settings.check(routing.vcs()).map_err(input)?;
        let terminals = network.terminals().len() as u32;
        let traffic = spec.traffic.pattern(terminals, spec.settings.seed)?;
        Ok(Flits { network, routing, traffic, settings: spec.settings.clone() })
    }

    /// Terminals.
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

impl NetworkSpec {
    fn build(
        &self,
        routing: &str,
        vcs: u8,
    ) -> Result<(Network, Box<dyn Routing + Send>), SimError> {
        let known = match self {
            NetworkSpec::Railx { .. } => routing, // `select` knows them
            NetworkSpec::FatTree { .. } => "adaptive, random",
            _ => "dimension-order",
        };
        if known.split(", ").all(|known| routing != known) {
            return Err(input(format!(
                "routing = \"{routing}\": is not known here; allowed: {known}"
            )));
        }
        let each = |classes: u8| match vcs / classes {
            0 => Err(input(format!(
                "vcs = {vcs}: {routing} routing needs {classes} on this network to be free of \
                 deadlock"
            ))),
            each => Ok(each),
        };
        match self {
            &NetworkSpec::Mesh { columns, rows, width, delay } => {
                let mesh = Mesh::new(columns, rows, vcs).map_err(input)?;
                Ok((mesh.network(width.max(1), delay), Box::new(mesh)))
            }
            NetworkSpec::Torus { sides, width, delay, lanes } => {
                let torus = Torus::new(sides, each(2)?).map_err(input)?;
                Ok((torus.network((*width).max(1), *delay, *lanes), Box::new(torus)))
            }
            NetworkSpec::FatTree { children, parents, width, delay, lanes } => {
                let tree =
                    FatTree::new(children, parents, routing == "adaptive", vcs).map_err(input)?;
                Ok((tree.network((*width).max(1), *delay, *lanes), Box::new(tree)))
            }
            &NetworkSpec::HammingMesh {
                board,
                columns,
                rows,
                planes,
                short_delay,
                long_delay,
                lanes,
            } => {
                let boards =
                    HammingMesh::new(board, columns, rows, planes, each(2)?).map_err(input)?;
                Ok((boards.network(short_delay, long_delay, lanes), Box::new(boards)))
            }
            &NetworkSpec::RailOnly {
                nodes,
                chips,
                inside,
                rails,
                inside_width,
                rail_width,
                short_delay,
                long_delay,
                lanes,
            } => {
                let routing = RailOnly::new(nodes, chips, inside, rails, vcs).map_err(input)?;
                let network = routing.network(
                    (inside_width.max(1), short_delay),
                    (rail_width.max(1), long_delay),
                    lanes,
                );
                Ok((network, Box::new(routing)))
            }
            NetworkSpec::Railx { inside, short_delay, long_delay, .. } => {
                let topology = self.topology()?;
                let routing = select(&topology, routing, vcs).map_err(input)?;
                let links = RailxLinks {
                    inside_width: (*inside).max(1),
                    rail_width: 1,
                    short_delay: *short_delay,
                    long_delay: *long_delay,
                };
                Ok((railx(&topology.layout, links), routing))
            }
        }
    }

    fn topology(&self) -> Result<Topology, SimError> {
        let NetworkSpec::Railx { mesh, ports, ocs, global_ocs, named, scale, x, y, share, .. } =
            self
        else {
            return Err(input("only a grid of RailX has a topology of rails"));
        };
        let mut hall = Grid::new(*mesh, *ports, *ocs, 1, 1);
        hall.global_radix = *global_ocs;
        hall.check().map_err(input)?;
        match named {
            None => Topology::split(hall, x, y, *share),
            Some(named) => named.build(match *scale {
                Some([columns, rows]) => Grid { columns, rows, ..hall },
                None => named.largest(hall),
            }),
        }
        .map_err(input)
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
