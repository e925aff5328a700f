//! What is wired: GPUs, NICs, switches and the links between them, and what they cost in ports.
//!
//! Modelled: servers with a scale-up network (NVLink and the like), and between them a fat-tree,
//! leaf and spine, a rail-optimized fabric, TopoOpt's patch panel, MixNet's regions of optical
//! circuits beside a packet fabric, parallel optical planes, RailX's grid of circuits, or any graph. Every link is directed. A [`Fabric`] is the one
//! representation that every engine reads, it routes, and it knows no time: which circuit is set
//! when is decided elsewhere.
//! Ignored: PCIe between a GPU and its NIC (a path goes from a GPU straight on from its NIC), unless a
//! cluster says what its servers are inside ([`Host`]); buffers, losses, the insides of switches.
//! Checked: every route is a chain of links that goes where it should and uses none twice, on random
//! clusters of every kind; both ways of splitting have the same capacity and bill, but for spare uplinks of
//! part-filled switches; links said never to bind do not, under random traffic; bills against a
//! golden table and MixNet Table 4's prices.
//!
//! ```
//! use lightloom_fabric::{Cluster, FabricSpec, GpuId, build};
//! use lightloom_units::{BitRate, Time};
//! let cluster = Cluster::of(1024, 8);
//! let spec = FabricSpec::fat_tree(BitRate::from_gbps(400), Time::from_us(1));
//! let fabric = build(&cluster, &spec, 4, &[]).unwrap();
//! let mut path = Vec::new();
//! fabric.route(GpuId(0), GpuId(1023), 0, &mut path).unwrap();
//! let hops: Vec<String> = path.iter().map(|&l| fabric.link(l).class.to_string()).collect();
//! assert_eq!(hops, ["host", "uplink-1", "uplink-2", "uplink-2", "uplink-1", "host"]);
//! ```

mod around;
mod bill;
mod circuits;
mod clos;
mod cluster;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod direct;
mod error;
mod gateway;
mod graph;
mod hash;
mod host;
mod ids;
mod inside;
mod kind;
mod kinds;
mod ocs;
pub mod plug;
pub mod railx;
pub mod routers;
mod shortest;
mod wires;

pub use around::{Cut, Left};
pub use bill::{Bill, BillLine, Item};
pub use circuits::{CircuitError, CrossConnect, MOST_PORTS};
pub use clos::{ClosSpec, Splitting};
pub use cluster::Cluster;
pub use error::{FabricError, RouteError};
pub use graph::{Fabric, Routes, Switched, Switches};
pub use host::{Host, NicsAt};
pub use ids::{GpuId, LinkId, NicId, NodeId, ServerId};
pub use kind::{
    Backup, Capabilities, CarrierSpec, FabricKeys, FabricKind, FabricSpec, Site, build, build_at,
};
pub use kinds::FABRICS;
pub use kinds::fat_tree::FatTree;
pub use kinds::few_nics::FewNicsSpec;
pub use kinds::graph::{GraphLink, GraphNode, GraphSpec, Role};
pub use kinds::hamming_mesh::HammingMeshSpec;
pub use kinds::leaf_spine::LeafSpineSpec;
pub use kinds::mixnet::MixNetSpec;
pub use kinds::planes::PlanesSpec;
pub use kinds::rail_only::RailOnlySpec;
pub use kinds::rail_optimized::RailOptimized;
pub use kinds::railx::{RailXSpec, RailXTopology, Wired};
pub use kinds::topoopt::{Panel, TopoOptSpec};
pub use kinds::torus::TorusSpec;
pub use ocs::{
    ActivationDelay, Gradients, OcsSpec, ReconfigurationDelay, Reconfigure, ReconfigurePolicy,
    Start,
};
pub use wires::{Link, LinkClass, Node, NodeKind, Switch, Wires};
