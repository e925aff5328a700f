//! Rail-optimized: NIC `i` of every server is on the switches of rail `i`. Traffic for GPU `j` of
//! another server first goes over the scale-up network to the sender's own GPU `j`, and then stays on
//! rail `j`, so that it is one switch away within k/2 servers ("PXN" in NCCL).
//!
//! Modelled: switches of radix k; k/2 servers form a unit with one switch a rail, pods hold k/2
//! switches, in order. Ignored: rails that are not joined at all (rail-only fabrics).

use crate::clos::Clos;
use crate::wires::{Wires, relay};
use crate::{Bill, ClosSpec, Cluster, FabricError, GpuId, LinkId, RouteError, ServerId};

pub(crate) fn build(
    cluster: &Cluster,
    spec: &ClosSpec,
    wires: &mut Wires,
    bill: &mut Bill,
) -> Result<Clos, FabricError> {
    let servers = || (0..cluster.servers()).map(ServerId);
    let rail = |i| servers().map(|server| cluster.nic(server, i)).collect();
    let rails = (0..cluster.nics_per_server).map(rail).collect();
    Clos::build(spec, "fabric", &rails, wires, bill)
}

pub(crate) fn route(
    clos: &Clos,
    cluster: &Cluster,
    (source, destination): (GpuId, GpuId),
    key: u64,
    path: &mut Vec<LinkId>,
) -> Result<(), RouteError> {
    let exit = cluster.gpu(cluster.server_of(source), cluster.local(destination));
    relay(source, exit, path);
    clos.route(cluster.nic_of(exit), cluster.nic_of(destination), key, path)
}
