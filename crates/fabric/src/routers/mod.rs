//! Networks of routers, chip to chip: what an engine of flits reads.
//!
//! A [`Network`] is routers with numbered ports and channels between them; terminals (chips) inject
//! and eject at a router. How wide a channel is is in flits a cycle, how long in cycles. [`Routing`]
//! says hop by hop where a packet may go, and by which virtual channel. [`fabric()`] makes links of the
//! same network, for engines that read those.

mod kind;
mod network;
mod railx;
mod routing;
#[cfg(test)]
mod tests;
mod view;
#[cfg(test)]
mod walk;

pub use kind::{NetworkKeys, NetworkKind, Refused, Routed, Routings, delay, width};
pub use network::{Channel, ChannelKind, End, Network};
pub use railx::{PortUse, RailxLinks, RailxPorts, SIDES, railx};
pub use routing::{Choice, Routing};
pub use view::fabric;

/// Declares the files and lists the kinds of networks in them.
macro_rules! networks {
    ($($module:ident::$Name:ident),* $(,)?) => {
        $(mod $module; pub use $module::$Name;)*

        /// The kinds of networks of this crate.
        pub static NETWORKS: &[&NetworkKind] = &[$(&$module::KIND),*];
    };
}

networks! {
    mesh::Mesh,
    torus::Torus,
    fat_tree::FatTree,
    hamming_mesh::HammingMesh,
    rail_only::RailOnly,
}
