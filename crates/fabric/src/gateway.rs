//! Packet switches that only some NICs of a server are on: its GPUs share them.

use crate::clos::Clos;
use crate::cluster::Cluster;
use crate::error::RouteError;
use crate::graph::Switches;
use crate::ids::{GpuId, LinkId, NicId, ServerId};

/// Some NICs of each server, spread evenly over it, and so over its NUMA nodes: 0 and 4 for two of
/// eight. A GPU uses the nearest at or below its own index.
#[derive(Debug)]
pub(crate) struct Gateways {
    pub clos: Clos,
    /// NICs of a server on the switches, by index in the server, rising.
    pub nics: Vec<u32>,
}

impl Gateways {
    /// Which `count` of a server's NICs are on packet switches; of a NIC that is split, the first part
    /// stands for all.
    pub fn spread(count: u32, cluster: &Cluster) -> Vec<u32> {
        // i * n / m for i < m leaves the floor or the ceiling of m / parts in each equal part.
        let whole = (0..count).map(|i| i * cluster.whole_nics() / count);
        whole.map(|nic| cluster.parts(nic).start).collect()
    }

    /// The NICs of a server, by index there.
    pub fn of(cluster: &Cluster, server: ServerId, locals: &[u32]) -> Vec<NicId> {
        locals.iter().map(|&local| cluster.nic(server, local)).collect()
    }

    /// The NIC that a GPU uses: each serves as many GPUs as another, or one fewer.
    fn of_gpu(&self, cluster: &Cluster, gpu: GpuId) -> NicId {
        let own = cluster.local_nic(cluster.nic_of(gpu));
        let at_or_below = self.nics.partition_point(|&nic| nic <= own);
        cluster.nic(cluster.server_of(gpu), self.nics[at_or_below - 1])
    }

    /// By the nearest NIC at either end.
    pub fn route(
        &self,
        cluster: &Cluster,
        (source, destination): (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let (exit, entry) = (self.of_gpu(cluster, source), self.of_gpu(cluster, destination));
        cluster.to_nic(source, exit, path);
        self.clos.route(exit, entry, key, path)?;
        cluster.from_nic(entry, destination, path);
        Ok(())
    }
}
