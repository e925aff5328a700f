//! Indices of nodes, links, GPUs, servers and NICs.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
id! {
    /// Index into [`crate::Fabric::nodes`].
    NodeId,
    /// Index into [`crate::Fabric::links`]; every link is directed.
    LinkId,
    /// A GPU; server `s` holds GPUs `s * gpus_per_server ..`.
    GpuId,
    /// A server.
    ServerId,
    /// A NIC, or a part of one that is split, numbered over the cluster: `server * nics_per_server +
    /// index in the server`.
    NicId,
}

/// The other direction of a link.
pub fn back(link: LinkId) -> LinkId {
    LinkId(link.0 ^ 1)
}
