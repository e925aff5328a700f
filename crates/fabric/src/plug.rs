//! What a kind of fabric is written with: the interfaces, wires, and keys that many kinds have.

pub use crate::bill::Item;
pub use crate::cluster::Cluster;
pub use crate::error::{FabricError, RouteError};
pub use crate::graph::{OwnNics, Routes, Switches};
pub use crate::ids::{GpuId, LinkId, NicId, NodeId, ServerId};
pub use crate::kind::{
    Capabilities, FabricKeys, FabricKind, LINK_BANDWIDTH, LINK_DELAY, NAME, Site, build,
};
pub use crate::wires::{Cable, LinkClass, NodeKind, Wires, back};
