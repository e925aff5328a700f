//! Fat-tree: NICs fill the switches in order, server by server, and a GPU sends from its own NIC to the
//! destination's own NIC. Everything else is in `clos.rs`.

use crate::clos::{Clos, ClosSpec, KEYS, shape};
use crate::error::FabricError;
use crate::graph::{OwnNics, Routes};
use crate::ids::NicId;
use crate::kind::{Capabilities, FabricKeys, FabricKind, FabricSpec, Site, example};
use crate::wires::Wires;
use lightloom_units::kind::Kind;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// A fat-tree of two or three tiers; a GPU sends from its own NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FatTree(pub ClosSpec);

const ABOUT: Kind<Capabilities> = Kind {
    name: "fat-tree",
    summary: "A fat-tree of two or three tiers; `oversubscription` is at the top-of-rack switches",
    source: None,
    keys: KEYS,
    capabilities: Capabilities::SWITCHED,
};

/// See [`FatTree`].
pub static KIND: FabricKind =
    FabricKind::of::<FatTree>(ABOUT, |n| example(n, 1, |_| FatTree(shape(n)).into()));

impl FabricKeys for FatTree {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let mut wires = Wires::new(site.cluster);
        let hosts = vec![(0..site.cluster.nics()).map(NicId).collect()];
        let clos = Clos::build(&self.0, "fabric", &hosts, &mut wires)?;
        Ok((wires, Arc::new(OwnNics::new(clos, site.cluster))))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FabricSpec {
    /// A non-blocking fat-tree of three tiers with ideal splitting.
    pub fn fat_tree(rate: BitRate, delay: Time) -> Self {
        FatTree(ClosSpec::new(rate, delay)).into()
    }
}
