//! Leaf and spine: the fat-tree of two tiers that it is.

use crate::clos::{ClosSpec, OVERSUBSCRIPTION, RADIX, SPLITTING, Splitting, shape};
use crate::error::FabricError;
use crate::graph::Routes;
use crate::kind::{
    Capabilities, FabricKeys, FabricKind, FabricSpec, LINK_BANDWIDTH, LINK_DELAY, NAME, Site,
    example,
};
use crate::kinds::fat_tree::FatTree;
use crate::wires::Wires;
use lightloom_units::kind::Kind;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// Switches in two tiers; see [`ClosSpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafSpineSpec {
    /// See [`ClosSpec::link_bps`].
    pub link_bps: BitRate,
    /// See [`ClosSpec::link_delay_ps`].
    pub link_delay_ps: Time,
    /// See [`ClosSpec::oversubscription`].
    pub oversubscription: f64,
    /// See [`ClosSpec::radix`].
    pub radix: Option<u32>,
    /// See [`ClosSpec::splitting`].
    pub splitting: Splitting,
}

const ABOUT: Kind<Capabilities> = Kind {
    name: "leaf-spine",
    summary: "Leaf and spine switches: a fat-tree of two tiers",
    source: None,
    keys: &[NAME, LINK_BANDWIDTH, LINK_DELAY, OVERSUBSCRIPTION, RADIX, SPLITTING],
    capabilities: Capabilities::SWITCHED,
};

/// See [`LeafSpineSpec`].
pub static KIND: FabricKind = FabricKind::of::<LeafSpineSpec>(ABOUT, |n| {
    let ClosSpec { link_bps, link_delay_ps, oversubscription, radix, splitting, .. } = shape(n);
    let spec = LeafSpineSpec { link_bps, link_delay_ps, oversubscription, radix, splitting };
    example(n, 1, |_| spec.clone().into())
});

impl FabricKeys for LeafSpineSpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let &LeafSpineSpec { link_bps, link_delay_ps, oversubscription, radix, splitting } = self;
        let tiers = 2;
        FatTree(ClosSpec { link_bps, link_delay_ps, tiers, oversubscription, radix, splitting })
            .build(site)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FabricSpec {
    /// A non-blocking leaf-spine network with ideal splitting.
    pub fn leaf_spine(rate: BitRate, delay: Time) -> Self {
        LeafSpineSpec {
            link_bps: rate,
            link_delay_ps: delay,
            oversubscription: 1.0,
            radix: None,
            splitting: Splitting::Ideal,
        }
        .into()
    }
}
