//! Fat-tree and leaf-spine: NICs fill the switches in order, server by server, and a GPU sends from
//! its own NIC to the destination's own NIC. Everything else is in `clos.rs`.

use crate::clos::Clos;
use crate::wires::Wires;
use crate::{
    Bill, ClosSpec, Cluster, FabricError, GpuId, LeafSpineSpec, LinkId, NicId, RouteError,
};

pub(crate) fn build(
    cluster: &Cluster,
    spec: &ClosSpec,
    wires: &mut Wires,
    bill: &mut Bill,
) -> Result<Clos, FabricError> {
    Clos::build(spec, "fabric", &vec![(0..cluster.nics()).map(NicId).collect()], wires, bill)
}

/// Leaf and spine as the fat-tree of two tiers that it is.
pub(crate) fn two_tiers(spec: &LeafSpineSpec) -> ClosSpec {
    let &LeafSpineSpec { link_bps, link_delay_ps, oversubscription, radix, splitting } = spec;
    ClosSpec { link_bps, link_delay_ps, tiers: 2, oversubscription, radix, splitting }
}

pub(crate) fn route(
    clos: &Clos,
    cluster: &Cluster,
    (source, destination): (GpuId, GpuId),
    key: u64,
    path: &mut Vec<LinkId>,
) -> Result<(), RouteError> {
    clos.route(cluster.nic_of(source), cluster.nic_of(destination), key, path)
}
