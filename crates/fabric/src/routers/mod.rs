//! Networks of routers, chip to chip: what an engine of flits reads.
//!
//! A [`Network`] is routers with numbered ports and channels between them; terminals (chips) inject
//! and eject at a router. How wide a channel is is in flits a cycle, how long in cycles. [`Routing`]
//! says hop by hop where a packet may go, and by which virtual channel. [`fabric()`] makes links of the
//! same network, for engines that read those.

mod fat_tree;
mod hamming_mesh;
mod kind;
mod mesh;
mod network;
mod rail_only;
mod railx;
mod routing;
#[cfg(test)]
mod tests;
mod torus;
mod view;
#[cfg(test)]
mod walk;

pub use fat_tree::FatTree;
pub use hamming_mesh::HammingMesh;
pub use kind::{NetworkKeys, NetworkKind, Refused, Routed, Routings, delay, width};
pub use mesh::Mesh;
pub use network::{Channel, ChannelKind, End, Network};
pub use rail_only::RailOnly;
pub use railx::{PortUse, RailxLinks, RailxPorts, SIDES, railx};
pub use routing::{Choice, Routing};
pub use torus::Torus;
pub use view::fabric;

/// The kinds of networks of this crate.
pub static NETWORKS: &[&NetworkKind] =
    &[&mesh::KIND, &torus::KIND, &fat_tree::KIND, &hamming_mesh::KIND, &rail_only::KIND];
