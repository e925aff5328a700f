//! What an iteration on MixNet begins with: which NICs are whose, the circuits that stand, and what
//! earlier iterations said of other traffic.

use super::traffic;
use crate::medium::form::Job;
use lightloom_circuits::{Layout, PortMap, ServerDemand, assign};
use lightloom_decide::{Basis, Decider, Question, Settings, Traffic};
use lightloom_fabric::{Cluster, Fabric, MixNetSpec, ServerId, Start};

/// The NICs of a region's servers. A specification has at most 1024 a server.
pub(super) fn layout(fabric: &Fabric, region_servers: u32) -> Layout {
    let (cluster, server) = (fabric.cluster(), ServerId(0));
    let narrow = |nics: &[u32]| nics.iter().map(|&nic| nic as u16).collect();
    let gpu = |local| cluster.local(cluster.gpu_of(cluster.nic(server, local))) as u16;
    Layout {
        servers: region_servers as u16,
        gpus_per_server: cluster.gpus_per_server as u16,
        packet_nics: narrow(fabric.packet_nics(server)),
        optical_nics: narrow(fabric.optical_nics(server)),
        nic_gpu: (0..cluster.nics_per_server).map(gpu).collect(),
    }
}

/// By optical NIC of a server.
pub(super) fn numa_of_port(fabric: &Fabric, layout: &Layout) -> Vec<u8> {
    let cluster = fabric.cluster();
    let numa = |&at: &u16| cluster.numa_of(cluster.nic(ServerId(0), at.into())) as u8;
    layout.optical_nics.iter().map(numa).collect()
}

/// The circuits of a region of `job` servers: those of an even demand, but for `backups`, which stand in
/// and have nothing to send yet; or none.
pub(super) fn ports(
    fabric: &Fabric,
    spec: &MixNetSpec,
    settings: &Settings,
    numa_of_port: &[u8],
    (job, backups): (u32, &[u32]),
) -> PortMap {
    let (job, n, degree) = (job as usize, job as usize + backups.len(), numa_of_port.len());
    let pair = |at: usize| u64::from(at / n != at % n && (at / n).max(at % n) < job);
    let even = ServerDemand { n, bytes: (0..n * n).map(pair).collect() };
    let mut dark = PortMap::dark(n, degree);
    for (at, &backup) in (job..).zip(backups) {
        if fabric.region_of(ServerId(backup)).is_none() {
            (0..degree).for_each(|port| dark.block(at, port));
        }
    }
    if spec.reconfigure.start == Start::Dark {
        return dark;
    }
    let start = Question { basis: Basis::Start, ..Question::new(even, dark.clone()) };
    let counts = Decider::new(settings.clone(), &vec![0; n]).decide(&start);
    counts.map_or(dark.clone(), |counts| assign(&counts, &dark, numa_of_port))
}

/// By region and server: what earlier iterations said, or else the task graph.
///
/// # Errors
/// If `earlier` is not of all regions and servers.
pub(super) fn earlier(
    cluster: &Cluster,
    spec: &MixNetSpec,
    job: Job<'_>,
    (regions, region_servers, earlier): (usize, u32, &[Vec<Vec<Traffic>>]),
) -> Result<Vec<Vec<Vec<Traffic>>>, String> {
    if earlier.is_empty() {
        let expected = traffic::expected(
            job.graph,
            (job.placement, job.gating),
            (cluster, spec),
            (regions, region_servers),
        );
        let one = |region: Vec<Traffic>| region.into_iter().map(|one| vec![one]).collect();
        return Ok(expected.into_iter().map(one).collect());
    }
    let servers = |region: &Vec<Vec<Traffic>>| region.len() == region_servers as usize;
    if earlier.len() != regions || !earlier.iter().all(servers) {
        return Err(format!(
            "earlier traffic: must be of {regions} regions of {region_servers} servers"
        ));
    }
    Ok(earlier.to_vec())
}
