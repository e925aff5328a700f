//! The inside of a server as a graph, where a specification says so: NVLink between some GPUs only, PCIe
//! switches, NUMA nodes and what joins them.
//!
//! Modelled: GPUs and NICs are spread evenly over the PCIe switches of a server, in order, and switches
//! over its NUMA nodes; NICs may hang on NUMA nodes themselves. Each GPU, NIC and switch has one PCIe
//! link of one rate to what is above it, and every two NUMA nodes a link. GPUs that NVLink joins use it,
//! others PCIe. A GPU reaches a NIC over PCIe, or, if the NIC hangs on another switch where a GPU sits
//! that NVLink joins to it, over that GPU. A link carries its rate each way.
//! Ignored: headers of PCIe packets, what peers reach less than memory does, memory itself.
//! Checked: every path is a chain that stays in its server; closed forms of near and far NICs, on flows
//! and on packets.

use crate::error::FabricError;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};

/// What a NIC hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NicsAt {
    /// A PCIe switch.
    Switch,
    /// A NUMA node.
    Numa,
}

/// The inside of each server.
///
/// ```
/// use lightloom_fabric::{Cluster, GpuId, Host, LinkClass, NicId, NicsAt, build};
/// use lightloom_fabric::FabricSpec;
/// use lightloom_units::{BitRate, Time};
/// let host = Host {
///     nvlink_gpus: 2,
///     pcie_switches: 4,
///     nics_at: NicsAt::Switch,
///     pcie_bps: BitRate::from_gbps(252),
///     pcie_delay_ps: Time::from_ns(150),
///     numa_bps: BitRate::from_gbps(500),
///     numa_delay_ps: Time::from_ns(150),
/// };
/// let cluster = Cluster { nics_per_server: 4, host: Some(host), ..Cluster::of(16, 8) };
/// assert_eq!(cluster.nic_of(GpuId(13)), NicId(6)); // GPUs 4 and 5 of a server have its NIC 2
/// let spec = FabricSpec::fat_tree(BitRate::from_gbps(100), Time::from_us(1));
/// let fabric = build(&cluster, &spec, 1, &[]).unwrap();
/// let classes = |from, to| {
///     let mut path = vec![];
///     fabric.route(GpuId(from), GpuId(to), 7, &mut path).unwrap();
///     path.iter().map(|&link| fabric.link(link).class).collect::<Vec<_>>()
/// };
/// use LinkClass::{Host as Cable, Numa, Pcie, ScaleUp};
/// assert_eq!(classes(0, 1), [ScaleUp, ScaleUp]);
/// assert_eq!(classes(1, 2), [Pcie, Pcie, Pcie, Pcie]);
/// assert_eq!(classes(1, 4), [Pcie, Pcie, Numa, Pcie, Pcie]);
/// assert_eq!(classes(1, 13)[..3], [Pcie, Pcie, Cable]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// So many consecutive GPUs are joined by NVLink, at the scale-up rate; 1: none.
    pub nvlink_gpus: u32,
    /// PCIe switches a server.
    pub pcie_switches: u32,
    /// What NICs hang on.
    pub nics_at: NicsAt,
    /// Of each GPU, NIC and PCIe switch, in each direction \[bit/s\].
    pub pcie_bps: BitRate,
    /// Of a PCIe link, with what is behind it \[ps\].
    pub pcie_delay_ps: Time,
    /// Between every two NUMA nodes, in each direction \[bit/s\].
    pub numa_bps: BitRate,
    /// Of a link between NUMA nodes \[ps\].
    pub numa_delay_ps: Time,
}

impl Host {
    /// Whether the numbers fit each other and a server of so many GPUs and NUMA nodes.
    pub(crate) fn validate(&self, gpus: u32, numa: u32) -> Result<(), FabricError> {
        let fail = |key: &str, value: u32, allowed: String| {
            Err(FabricError::new(&format!("cluster.host.{key}"), value, allowed))
        };
        let divides = |part: u32| part > 0 && gpus % part == 0;
        if !divides(self.nvlink_gpus) {
            let allowed = format!("must divide cluster.gpus_per_server = {gpus}");
            return fail("nvlink_gpus", self.nvlink_gpus, allowed);
        }
        if !divides(self.pcie_switches) || self.pcie_switches % numa != 0 {
            let allowed = format!(
                "must divide cluster.gpus_per_server = {gpus}, and be a multiple of \
                 cluster.numa_nodes = {numa}"
            );
            return fail("pcie_switches", self.pcie_switches, allowed);
        }
        for (key, rate) in [("pcie_bandwidth", self.pcie_bps), ("numa_bandwidth", self.numa_bps)] {
            FabricError::check_scale_up(&format!("cluster.host.{key}"), rate)?;
        }
        for (key, delay) in [("pcie_delay", self.pcie_delay_ps), ("numa_delay", self.numa_delay_ps)]
        {
            FabricError::check_delay(&format!("cluster.host.{key}"), delay)?;
        }
        Ok(())
    }
}
