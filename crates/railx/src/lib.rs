//! RailX: which rings the optical switches hold, how packets are routed over them, which rails each
//! kind of traffic gets, and where jobs go when nodes have failed.

mod allocation;
pub mod bandwidth;
pub mod collective;
mod deadlock;
pub mod fit;
mod hamiltonian;
mod measure;
mod network;
mod packing;
pub mod placement;
mod rings;
mod routing;
mod tenants;
mod topology;
pub mod turns;
pub mod volume;

pub use allocation::{Allocation, BadFaults, Covers, Faults, MOST_CLUSTERED, algorithm_2, largest};
pub use deadlock::{Checked, Held, Unsafe, check};
pub use hamiltonian::{MOST_NODES, NoDecomposition, decompose, joins_all, rings_of, verify};
pub use measure::{Cut, Diameter, Formulas, Loads, Measures, channel_loads, throughput};
pub use network::RAILX;
pub use packing::{Packing, Placed, Wanted, pack};
pub use rings::{Spot, torus_rings};
pub use routing::{
    Adaptive, AdaptiveDragonfly, ChipTorus, Dragonfly, Minimal, NodeRoutes, NonMinimal, ROUTINGS,
    RailEnd, select,
};
pub use tenants::Tenants;
pub use topology::named::{Named, largest_all_to_all};
pub use topology::{Dimension, DimensionSpec, Form, Share, Topology, Wiring};
