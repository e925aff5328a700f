//! Where the NICs of a region are, and what is sent between its GPUs.

use crate::ports::PortMap;

/// Where a region's NICs are: the same in every server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Servers of the region.
    pub servers: u16,
    /// GPUs of a server.
    pub gpus_per_server: u16,
    /// NICs on packet switches, by index in the server. At least one.
    pub packet_nics: Vec<u16>,
    /// NICs on the optical switch: entry `p` is the NIC of optical port `p`.
    pub optical_nics: Vec<u16>,
    /// By NIC: the GPU of the server it belongs to, the first of those that share it.
    pub nic_gpu: Vec<u16>,
}

/// How [`Router::route`](super::Router::route) shares bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// Let pairs that have circuits use packet switches too, so that both end together.
    pub share_eps: bool,
    /// Rate of an optical NIC \[bit/s\]; read with `share_eps` only.
    pub optical_bps: u64,
    /// Rate of a packet NIC \[bit/s\]; read with `share_eps` only.
    pub packet_bps: u64,
}

/// What one GPU sends another, each by index in its server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) bytes: u64,
}

impl Layout {
    /// Of servers whose NICs on packet switches come first, then those on the optical switch, by port; NIC `i` of K
    /// belongs to GPU `i R / K` of R.
    ///
    /// ```
    /// use lightloom_circuits::Layout;
    /// let layout = Layout::even(2, 8, 1, 3);
    /// assert_eq!((layout.packet_nics, layout.optical_nics), (vec![0], vec![1, 2, 3]));
    /// assert_eq!(layout.nic_gpu, [0, 2, 4, 6]);
    /// ```
    pub fn even(servers: u16, gpus_per_server: u16, packet_nics: u16, optical_nics: u16) -> Self {
        let nics = packet_nics + optical_nics;
        let gpu = |nic| (u32::from(nic) * u32::from(gpus_per_server) / u32::from(nics)) as u16;
        Layout {
            servers,
            gpus_per_server,
            packet_nics: (0..packet_nics).collect(),
            optical_nics: (packet_nics..nics).collect(),
            nic_gpu: (0..nics).map(gpu).collect(),
        }
    }

    pub(super) fn check(&self, ports: &PortMap) {
        assert!(self.gpus_per_server > 0, "a server has GPUs");
        assert!(!self.packet_nics.is_empty(), "a server has a NIC on packet switches");
        let wired = (ports.servers(), ports.degree());
        assert_eq!(
            wired,
            (usize::from(self.servers), self.optical_nics.len()),
            "servers and optical ports of the circuits and of the layout"
        );
    }

    /// By GPU of a server: the nearest that a NIC belongs to, which is itself or before it.
    pub(super) fn delegates(&self) -> Vec<u16> {
        let has = |gpu: &u16| self.nic_gpu.contains(gpu);
        (0..self.gpus_per_server).map(|gpu| (0..=gpu).rev().find(has).unwrap_or(gpu)).collect()
    }
}
