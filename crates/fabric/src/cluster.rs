//! Servers, GPUs and NICs, and how they are numbered.

use crate::error::FabricError;
use crate::host::Host;
use crate::ids::{GpuId, NicId, ServerId};
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Servers of GPUs on a scale-up network, equally many NICs each GPU, mostly one.
///
/// ```
/// use lightloom_fabric::{Cluster, GpuId, NicId, ServerId};
/// let cluster = Cluster::of(32, 8);
/// assert_eq!(cluster.servers(), 4);
/// assert_eq!(cluster.server_of(GpuId(17)), ServerId(2));
/// assert_eq!(cluster.nic_of(GpuId(17)), cluster.nic(ServerId(2), 1));
/// assert_eq!(cluster.numa_of(NicId(17)), 0);
/// // Two ports a GPU: NICs 0 and 1 of a server belong to its GPU 0, and so on.
/// let twice = Cluster { nics_per_server: 16, ..cluster };
/// assert_eq!(twice.nic_of(GpuId(17)), NicId(34));
/// assert_eq!([34, 35].map(|nic| twice.gpu_of(NicId(nic))), [GpuId(17), GpuId(17)]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// GPUs in all; a multiple of `gpus_per_server`, at most 2^20.
    pub gpus: u32,
    /// GPUs a server: the scale-up domain.
    pub gpus_per_server: u32,
    /// NICs a server, optical ports of GPUs included: a multiple of `gpus_per_server`, and but for
    /// MixNet equal to it; with a `host`, a divisor of it too. Those of a GPU have consecutive numbers,
    /// and so have GPUs that share a NIC. Of NICs that are split, each part counts.
    pub nics_per_server: u32,
    /// Into how many parts each NIC is split: see [`Cluster::split`].
    #[serde(skip, default = "whole")]
    pub nic_parts: u32,
    /// NUMA nodes a server; each holds equally many consecutive NICs.
    pub numa_nodes: u32,
    /// Rate of a GPU's scale-up link in each direction \[bit/s\].
    pub scale_up_bps: BitRate,
    /// Delay of each of the two links between two GPUs of a server \[ps\].
    pub scale_up_delay_ps: Time,
    /// What a server is inside; none: its GPUs are all on the scale-up network, and a NIC is as good as
    /// its GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
}

fn whole() -> u32 {
    1
}

/// The most GPUs, and NICs, so that every count and sum of rates fits its type.
const MOST_GPUS: u32 = 1 << 20;
const MOST_NICS: u32 = 1 << 24;

impl Cluster {
    /// A cluster of `gpus` in servers of `gpus_per_server`, with two NUMA nodes a server if that
    /// can be, 450 GB/s each way a GPU (NVLink 4, whose 900 GB/s count both) and 500 ns a link.
    pub fn of(gpus: u32, gpus_per_server: u32) -> Self {
        Cluster {
            gpus,
            gpus_per_server,
            nics_per_server: gpus_per_server,
            nic_parts: 1,
            numa_nodes: if gpus_per_server % 2 == 0 { 2 } else { 1 },
            scale_up_bps: BitRate::from_gbps(3_600),
            scale_up_delay_ps: Time::from_ns(500),
            host: None,
        }
    }
    /// The same servers, each of whose NICs is split into parts that count as NICs: breakout, or port
    /// splitting.
    ///
    /// ```
    /// use lightloom_fabric::{Cluster, GpuId, NicId, ServerId};
    /// let split = Cluster::of(16, 8).split(4);
    /// assert_eq!((split.nics_per_server, split.whole_nics()), (32, 8));
    /// let parts: Vec<NicId> = split.parts(3).map(|part| split.nic(ServerId(1), part)).collect();
    /// assert_eq!(parts, [44, 45, 46, 47].map(NicId)); // of NIC 3 of server 1
    /// assert!(parts.iter().all(|&part| split.gpu_of(part) == GpuId(11)));
    /// ```
    pub fn split(&self, parts: u32) -> Cluster {
        Cluster {
            nics_per_server: self.nics_per_server * parts,
            nic_parts: self.nic_parts * parts,
            ..self.clone()
        }
    }
    /// NICs a server, none of them split.
    pub fn whole_nics(&self) -> u32 {
        self.nics_per_server / self.nic_parts
    }
    /// The parts of a whole NIC, all by index in the server.
    pub fn parts(&self, nic: u32) -> Range<u32> {
        nic * self.nic_parts..(nic + 1) * self.nic_parts
    }
    /// The number of servers.
    pub fn servers(&self) -> u32 {
        self.gpus / self.gpus_per_server
    }
    /// The number of NICs in all.
    pub fn nics(&self) -> u32 {
        self.servers() * self.nics_per_server
    }
    /// The server that holds a GPU.
    pub fn server_of(&self, gpu: GpuId) -> ServerId {
        ServerId(gpu.0 / self.gpus_per_server)
    }
    /// The server that holds a NIC.
    pub fn server_of_nic(&self, nic: NicId) -> ServerId {
        ServerId(nic.0 / self.nics_per_server)
    }
    /// A GPU's index in its server.
    pub fn local(&self, gpu: GpuId) -> u32 {
        gpu.0 % self.gpus_per_server
    }
    /// A NIC's index in its server.
    pub fn local_nic(&self, nic: NicId) -> u32 {
        nic.0 % self.nics_per_server
    }
    /// The GPU of a server with that index.
    pub fn gpu(&self, server: ServerId, local: u32) -> GpuId {
        GpuId(server.0 * self.gpus_per_server + local)
    }
    /// The NIC of a server with that index.
    pub fn nic(&self, server: ServerId, local: u32) -> NicId {
        NicId(server.0 * self.nics_per_server + local)
    }
    /// NICs of each GPU; 0 if GPUs share them.
    pub fn nics_per_gpu(&self) -> u32 {
        self.nics_per_server / self.gpus_per_server
    }
    /// A GPU's own NIC, the first one if it has several, the nearest if GPUs share them.
    pub fn nic_of(&self, gpu: GpuId) -> NicId {
        let local = match self.nics_per_gpu() {
            0 => self.local(gpu) * self.nics_per_server / self.gpus_per_server,
            each => self.local(gpu) * each,
        };
        self.nic(self.server_of(gpu), local)
    }
    /// The GPU that a NIC belongs to, the first one of those that share it.
    pub fn gpu_of(&self, nic: NicId) -> GpuId {
        let local = match self.nics_per_gpu() {
            0 => self.local_nic(nic) * self.gpus_per_server / self.nics_per_server,
            each => self.local_nic(nic) / each,
        };
        self.gpu(self.server_of_nic(nic), local)
    }
    /// The NUMA node, within its server, that a NIC hangs on.
    pub fn numa_of(&self, nic: NicId) -> u32 {
        self.local_nic(nic) * self.numa_nodes / self.nics_per_server
    }

    /// Whether the numbers fit each other.
    ///
    /// # Errors
    /// Names the first key that does not fit, and what is allowed.
    pub fn validate(&self) -> Result<(), FabricError> {
        let (gpus, server) = (self.gpus, self.gpus_per_server);
        let fail = |key: &str, value: u32, allowed: String| {
            Err(FabricError::new(&format!("cluster.{key}"), value, allowed))
        };
        if !(1..=MOST_GPUS).contains(&gpus) {
            return fail("gpus", gpus, format!("must be from 1 to {MOST_GPUS}"));
        }
        if server == 0 || gpus % server != 0 {
            return fail("gpus_per_server", server, format!("must divide cluster.gpus = {gpus}"));
        }
        let nics = self.nics_per_server;
        let shared = self.host.is_some() && nics > 0 && server % nics == 0;
        if nics == 0 || (nics % server != 0 && !shared) {
            let share = match self.host {
                Some(_) => ", or divide it: as many each GPU",
                None => ": as many each GPU",
            };
            let allowed =
                format!("must be a multiple of cluster.gpus_per_server = {server}{share}");
            return fail("nics_per_server", nics, allowed);
        }
        if nics.checked_mul(self.servers()).is_none_or(|all| all > MOST_NICS) {
            let allowed =
                format!("with {} servers, must be at most {MOST_NICS} in all", self.servers());
            return fail("nics_per_server", nics, allowed);
        }
        if self.numa_nodes == 0 || nics % self.numa_nodes != 0 {
            let allowed = format!("must divide cluster.nics_per_server = {nics}");
            return fail("numa_nodes", self.numa_nodes, allowed);
        }
        FabricError::check_scale_up("cluster.scale_up_bandwidth", self.scale_up_bps)?;
        FabricError::check_delay("cluster.scale_up_delay", self.scale_up_delay_ps)?;
        self.host.as_ref().map_or(Ok(()), |host| host.validate(server, self.numa_nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_fit_name_their_key() {
        let good = Cluster::of(64, 8);
        assert_eq!(good.validate(), Ok(()));
        type Spoil = fn(&mut Cluster);
        let cases: [(&str, Spoil); 9] = [
            ("cluster.gpus = 0", |c| c.gpus = 0),
            ("cluster.gpus_per_server = 0", |c| c.gpus_per_server = 0),
            ("cluster.gpus_per_server = 7", |c| c.gpus_per_server = 7),
            ("cluster.nics_per_server = 4", |c| c.nics_per_server = 4),
            ("cluster.nics_per_server = 0", |c| c.nics_per_server = 0),
            ("cluster.nics_per_server = 4294967288", |c| c.nics_per_server = u32::MAX - 7),
            ("cluster.numa_nodes = 3", |c| c.numa_nodes = 3),
            ("cluster.scale_up_bandwidth = 0 bps", |c| c.scale_up_bps = BitRate::from_bps(0)),
            ("cluster.scale_up_delay = 2 s", |c| c.scale_up_delay_ps = Time::from_ms(2_000)),
        ];
        for (start, spoil) in cases {
            let mut bad = good.clone();
            spoil(&mut bad);
            let message = bad.validate().expect_err(start).to_string();
            assert!(message.starts_with(start), "{message}");
        }
    }

    #[test]
    fn each_numa_node_holds_equally_many_nics() {
        let cluster = Cluster { numa_nodes: 4, ..Cluster::of(16, 8) };
        let numa: Vec<u32> = (8..16).map(|nic| cluster.numa_of(NicId(nic))).collect();
        assert_eq!(numa, [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn every_gpu_owns_equally_many_nics_in_a_row() {
        for per_gpu in [1, 2, 3, 10] {
            let cluster = Cluster { nics_per_server: 8 * per_gpu, ..Cluster::of(32, 8) };
            assert_eq!(cluster.validate(), Ok(()));
            let owners: Vec<u32> =
                (0..cluster.nics()).map(|nic| cluster.gpu_of(NicId(nic)).0).collect();
            let wanted: Vec<u32> = (0..32).flat_map(|gpu| vec![gpu; per_gpu as usize]).collect();
            assert_eq!(owners, wanted);
            for gpu in (0..32).map(GpuId) {
                assert_eq!(cluster.gpu_of(cluster.nic_of(gpu)), gpu);
            }
        }
    }
}
