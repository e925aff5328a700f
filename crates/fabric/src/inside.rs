//! Paths inside servers: over the scale-up network, and where a host is said ([`Host`]) over its links,
//! whose numbers follow from the cluster alone. Who wants to get from a GPU to a NIC, or to another GPU of
//! its server, asks here.

use crate::cluster::Cluster;
use crate::host::{Host, NicsAt};
use crate::ids::{GpuId, LinkId, NicId, NodeId, back};
use lightloom_units::{BitRate, Time};

/// A GPU or a NIC: its link up, and the PCIe switch, if any, and NUMA node above it.
#[derive(Clone, Copy)]
struct Leaf {
    up: LinkId,
    switch: Option<u32>,
    numa: u32,
}

/// Every link of hosts between the nodes at its ends, up and in the order of numbers, and whether it
/// joins NUMA nodes.
pub(crate) fn links(cluster: &Cluster) -> Vec<(NodeId, NodeId, bool)> {
    let mut links = vec![];
    for inside in (0..cluster.servers()).map_while(|server| Inside::of(cluster, server)) {
        let node = |leaf: &Leaf| match leaf.switch {
            Some(switch) => inside.node(switch),
            None => inside.node(inside.host.pcie_switches + leaf.numa),
        };
        let numa = |numa| inside.node(inside.host.pcie_switches + numa);
        for local in 0..cluster.gpus_per_server {
            let gpu = NodeId(inside.server * cluster.gpus_per_server + local);
            links.push((gpu, node(&inside.gpu(local)), false));
        }
        for local in 0..cluster.nics_per_server {
            let nic = inside.server * cluster.nics_per_server + local;
            let nic = NodeId(cluster.gpus + cluster.servers() + nic);
            links.push((nic, node(&inside.nic(local)), false));
        }
        for switch in 0..inside.host.pcie_switches {
            links.push((inside.node(switch), numa(inside.numa(switch)), false));
        }
        for high in 0..cluster.numa_nodes {
            links.extend((0..high).map(|low| (numa(low), numa(high), true)));
        }
    }
    links
}

/// The host of one server.
struct Inside<'a> {
    cluster: &'a Cluster,
    host: &'a Host,
    server: u32,
}

impl<'a> Inside<'a> {
    fn of(cluster: &'a Cluster, server: u32) -> Option<Self> {
        Some(Inside { cluster, host: cluster.host.as_ref()?, server })
    }

    /// Of its nodes: PCIe switches, NUMA nodes.
    fn node(&self, index: u32) -> NodeId {
        let first = self.cluster.gpus + self.cluster.servers() + self.cluster.nics();
        NodeId(first + self.server * self.cluster.host_nodes() + index)
    }

    /// Of its links: those of GPUs, of NICs, of switches, between NUMA nodes.
    fn link(&self, index: u32) -> LinkId {
        let numa = self.cluster.numa_nodes;
        let Cluster { gpus, gpus_per_server, nics_per_server, .. } = *self.cluster;
        let own = gpus_per_server + nics_per_server + self.host.pcie_switches;
        LinkId(2 * (gpus + self.server * (own + numa * (numa - 1) / 2) + index))
    }

    /// The PCIe switch that the `index`th of `count` GPUs or NICs hangs on.
    fn switch(&self, index: u32, count: u32) -> u32 {
        index * self.host.pcie_switches / count
    }

    fn numa(&self, switch: u32) -> u32 {
        switch * self.cluster.numa_nodes / self.host.pcie_switches
    }

    fn gpu(&self, local: u32) -> Leaf {
        let switch = self.switch(local, self.cluster.gpus_per_server);
        Leaf { up: self.link(local), switch: Some(switch), numa: self.numa(switch) }
    }

    fn nic(&self, local: u32) -> Leaf {
        let switch = self.switch(local, self.cluster.nics_per_server);
        Leaf {
            up: self.link(self.cluster.gpus_per_server + local),
            switch: (self.host.nics_at == NicsAt::Switch).then_some(switch),
            numa: self.numa(switch),
        }
    }

    fn above(&self, switch: u32) -> LinkId {
        self.link(self.cluster.gpus_per_server + self.cluster.nics_per_server + switch)
    }

    /// The link from one NUMA node to another.
    fn across(&self, from: u32, to: u32) -> LinkId {
        let (low, high) = (from.min(to), from.max(to));
        let first = self.above(self.host.pcie_switches);
        let link = LinkId(first.0 + 2 * (high * (high - 1) / 2 + low));
        if from < to { link } else { back(link) }
    }

    /// Appends the path over PCIe.
    fn path(&self, from: Leaf, to: Leaf, path: &mut Vec<LinkId>) {
        path.push(from.up);
        if from.switch.is_none() || from.switch != to.switch {
            path.extend(from.switch.map(|switch| self.above(switch)));
            if from.numa != to.numa {
                path.push(self.across(from.numa, to.numa));
            }
            path.extend(to.switch.map(|switch| back(self.above(switch))));
        }
        path.push(back(to.up));
    }

    /// The GPU nearest to a NIC that NVLink joins to another, if the NIC is nearer to that.
    fn peer(&self, gpu: GpuId, nic: NicId) -> Option<GpuId> {
        let (cluster, group) = (self.cluster, self.host.nvlink_gpus);
        let local = cluster.local(gpu);
        let at = self.nic(cluster.local_nic(nic)).switch?;
        if self.gpu(local).switch == Some(at) {
            return None;
        }
        let first = local - local % group;
        let near = |other: &u32| self.gpu(*other).switch == Some(at);
        let own = cluster.local(cluster.gpu_of(nic));
        let own = Some(own).filter(|own| near(own) && own / group == local / group);
        let found = own.or_else(|| (first..first + group).find(near))?;
        Some(cluster.gpu(cluster.server_of(gpu), found))
    }
}

/// Appends the path over the scale-up network between two GPUs of a server: nothing if they are one.
pub(crate) fn relay(from: GpuId, to: GpuId, path: &mut Vec<LinkId>) {
    if from != to {
        path.extend([LinkId(2 * from.0), LinkId(2 * to.0 + 1)]);
    }
}

impl Cluster {
    /// Nodes of a server's host, which come behind all NICs, server by server; 0 where none is said.
    pub fn host_nodes(&self) -> u32 {
        self.host.as_ref().map_or(0, |host| host.pcie_switches + self.numa_nodes)
    }

    /// Whether every two GPUs of a server are joined by NVLink.
    pub fn joined(&self) -> bool {
        self.host.as_ref().is_none_or(|host| host.nvlink_gpus == self.gpus_per_server)
    }

    /// The rate and the delay from GPU to GPU of a server, where they are furthest apart.
    pub fn inside(&self) -> (BitRate, Time) {
        match &self.host {
            Some(host) if !self.joined() => {
                let across = if self.numa_nodes > 1 { host.numa_delay_ps } else { Time::ZERO };
                let slowest = if self.numa_nodes > 1 { host.numa_bps } else { host.pcie_bps };
                (host.pcie_bps.min(slowest), host.pcie_delay_ps * 4 + across)
            }
            _ => (self.scale_up_bps, self.scale_up_delay_ps * 2),
        }
    }

    /// Appends the path between two GPUs of a server; nothing if they are one.
    pub fn between(&self, from: GpuId, to: GpuId, path: &mut Vec<LinkId>) {
        match Inside::of(self, self.server_of(from).0) {
            Some(inside) if from != to => {
                let (a, b) = (self.local(from), self.local(to));
                let group = inside.host.nvlink_gpus;
                match a / group == b / group {
                    true => relay(from, to, path),
                    false => inside.path(inside.gpu(a), inside.gpu(b), path),
                }
            }
            _ => relay(from, to, path),
        }
    }

    /// Appends the path from a GPU to a NIC of its server: where no host is said, to the NIC's GPU.
    pub fn to_nic(&self, gpu: GpuId, nic: NicId, path: &mut Vec<LinkId>) {
        let Some(inside) = Inside::of(self, self.server_of(gpu).0) else {
            return relay(gpu, self.gpu_of(nic), path);
        };
        let near = inside.peer(gpu, nic).unwrap_or(gpu);
        relay(gpu, near, path);
        inside.path(inside.gpu(self.local(near)), inside.nic(self.local_nic(nic)), path);
    }

    /// Appends the path from a NIC to a GPU of its server: where no host is said, from the NIC's GPU.
    pub fn from_nic(&self, nic: NicId, gpu: GpuId, path: &mut Vec<LinkId>) {
        let Some(inside) = Inside::of(self, self.server_of(gpu).0) else {
            return relay(self.gpu_of(nic), gpu, path);
        };
        let near = inside.peer(gpu, nic).unwrap_or(gpu);
        inside.path(inside.nic(self.local_nic(nic)), inside.gpu(self.local(near)), path);
        relay(near, gpu, path);
    }
}
