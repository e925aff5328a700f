//! Networks of routers, chip to chip: what an engine of flits reads.
//!
//! A [`Network`] is routers with numbered ports and channels between them; terminals (chips) inject
//! and eject at a router. How wide a channel is is in flits a cycle, how long in cycles. [`Routing`]
//! says hop by hop where a packet may go, and by which virtual channel.

mod mesh;
mod network;
mod railx;
mod routing;

pub use mesh::Mesh;
pub use network::{Channel, ChannelKind, End, Network};
pub use railx::{PortUse, RailxLinks, RailxPorts, SIDES, railx};
pub use routing::{Choice, Routing};
