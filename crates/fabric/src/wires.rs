//! Nodes and links, and the list of them that each fabric adds to. Every fabric starts with the same
//! nodes: GPUs, then one scale-up switch a server, then NICs; and all but RailX with the same links:
//! GPU `g` to its scale-up switch is link `2 g`, the link back `2 g + 1`. Where a cluster says what its
//! servers are inside, the nodes and links of [`inside`] follow.

use crate::bill::Bill;
use crate::cluster::Cluster;
pub use crate::ids::back;
use crate::ids::{GpuId, LinkId, NicId, NodeId};
use crate::inside;
use lightloom_units::{BitRate, Time};
use std::fmt;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A GPU.
    Gpu,
    /// A NIC, or an optical port of a GPU.
    Nic,
    /// The scale-up network of one server.
    ScaleUp,
    /// A packet switch, or with ideal splitting all parallel ones together. Tier 1 is next to the
    /// servers; 0 where a graph has no tiers.
    Switch {
        /// Which tier, from the servers up.
        tier: u8,
    },
    /// A PCIe switch of a server.
    PcieSwitch,
    /// A NUMA node of a server.
    Numa,
    /// An optical circuit switch.
    Ocs {
        /// Which region of MixNet, which plane, or which switch of RailX.
        region: u32,
    },
}

/// A node of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
}

/// A switch that may fail, as it is named in its fabric: a packet switch, or the optical one of a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// `tor3`, `spine0`, `plane2`, or as a graph has it.
    pub name: String,
    /// The node that it is, or is part of.
    pub node: NodeId,
    /// Which part, where ideal splitting makes one node of several.
    pub part: u32,
}

/// What a link is part of; both directions have the same class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkClass {
    /// Between a GPU and its server's scale-up network.
    ScaleUp,
    /// Over PCIe, inside a server.
    Pcie,
    /// Between two NUMA nodes of a server.
    Numa,
    /// Between a NIC and the first packet switch.
    Host,
    /// Between two tiers of packet switches.
    Uplink {
        /// The lower of the two.
        tier: u8,
    },
    /// Between a NIC and an optical circuit switch.
    Circuit,
    /// From NIC to NIC through a patch panel.
    Panel,
    /// Between two chips of a RailX node.
    Mesh,
    /// Between a chip of a RailX node and an optical circuit switch.
    Rail,
    /// Of a graph given link by link.
    Custom,
}

impl LinkClass {
    /// Whether it is part of a server, so that nothing is lost on it.
    pub fn is_inside(self) -> bool {
        matches!(self, LinkClass::ScaleUp | LinkClass::Pcie | LinkClass::Numa)
    }
}

impl fmt::Display for LinkClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkClass::ScaleUp => f.write_str("scale-up"),
            LinkClass::Pcie => f.write_str("pcie"),
            LinkClass::Numa => f.write_str("numa"),
            LinkClass::Host => f.write_str("host"),
            LinkClass::Uplink { tier } => write!(f, "uplink-{tier}"),
            LinkClass::Circuit => f.write_str("circuit"),
            LinkClass::Panel => f.write_str("panel"),
            LinkClass::Mesh => f.write_str("mesh"),
            LinkClass::Rail => f.write_str("rail"),
            LinkClass::Custom => f.write_str("custom"),
        }
    }
}

/// A directed link, or a bundle of parallel ones that share their load perfectly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it starts.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// The rate of the whole bundle \[bit/s\].
    pub rate: BitRate,
    /// Propagation delay, with that of the switch it enters \[ps\].
    pub delay: Time,
    /// What it is part of.
    pub class: LinkClass,
    /// How many physical links are in the bundle.
    pub lanes: u32,
}

/// A fabric while it is being built: nodes, links, what must be bought, what a reader must know.
#[derive(Debug)]
pub struct Wires {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) switches: Vec<Switch>,
    /// What must be bought.
    pub bill: Bill,
    /// Nodes of switches that are servers, which forward what is not for them.
    pub(crate) in_servers: Vec<NodeId>,
    /// What a reader must know.
    pub notes: Vec<String>,
    first_nic: u32,
}

impl Wires {
    /// GPUs on their scale-up networks and hosts, and NICs that are not yet plugged in.
    pub fn new(cluster: &Cluster) -> Self {
        let mut wires = Wires::bare(cluster);
        for gpu in (0..cluster.gpus).map(GpuId) {
            let scale_up = NodeId(cluster.gpus + cluster.server_of(gpu).0);
            let cable = Cable {
                rate: cluster.scale_up_bps,
                delay: cluster.scale_up_delay_ps,
                class: LinkClass::ScaleUp,
                lanes: 1,
            };
            wires.duplex(NodeId(gpu.0), scale_up, cable);
        }
        wires.host(cluster);
        wires
    }

    /// The nodes and links of hosts, if any are said.
    fn host(&mut self, cluster: &Cluster) {
        let Some(host) = &cluster.host else { return };
        for _ in 0..cluster.servers() {
            (0..host.pcie_switches).for_each(|_| _ = self.node(NodeKind::PcieSwitch));
            (0..cluster.numa_nodes).for_each(|_| _ = self.node(NodeKind::Numa));
        }
        let (pcie, numa) = (LinkClass::Pcie, LinkClass::Numa);
        for (a, b, across) in inside::links(cluster) {
            let (rate, delay, class) = match across {
                true => (host.numa_bps, host.numa_delay_ps, numa),
                false => (host.pcie_bps, host.pcie_delay_ps, pcie),
            };
            self.duplex(a, b, Cable { rate, delay, class, lanes: 1 });
        }
    }

    /// The same nodes, and no links at all.
    pub(crate) fn bare(cluster: &Cluster) -> Self {
        let kinds = [
            (NodeKind::Gpu, cluster.gpus),
            (NodeKind::ScaleUp, cluster.servers()),
            (NodeKind::Nic, cluster.nics()),
        ];
        let nodes = kinds.iter().flat_map(|&(kind, n)| (0..n).map(move |_| Node { kind }));
        Wires {
            nodes: nodes.collect(),
            links: Vec::new(),
            switches: Vec::new(),
            bill: Bill::default(),
            in_servers: Vec::new(),
            notes: Vec::new(),
            first_nic: cluster.gpus + cluster.servers(),
        }
    }

    /// The node of a NIC.
    pub fn nic(&self, nic: NicId) -> NodeId {
        NodeId(self.first_nic + nic.0)
    }

    /// Adds a node.
    pub fn node(&mut self, kind: NodeKind) -> NodeId {
        self.nodes.push(Node { kind });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Adds a node that is one packet switch, or several in parallel, by their names.
    pub fn switch(&mut self, names: impl IntoIterator<Item = String>, tier: u8) -> NodeId {
        let node = self.node(NodeKind::Switch { tier });
        let parts = names.into_iter().zip(0..);
        self.switches.extend(parts.map(|(name, part)| Switch { name, node, part }));
        node
    }

    /// Adds an optical switch that fails by its name.
    pub fn optical_switch(&mut self, name: String, region: u32) -> NodeId {
        let node = self.node(NodeKind::Ocs { region });
        self.switches.push(Switch { name, node, part: 0 });
        node
    }

    /// Names the packet switches that have no name: `switch0`, `switch1`, ...
    pub(crate) fn name_the_rest(&mut self) {
        let mut named = vec![false; self.nodes.len()];
        self.switches.iter().for_each(|switch| named[switch.node.index()] = true);
        let nodes = self.nodes.iter().zip(named).zip(0..);
        let rest = nodes
            .filter(|((node, named), _)| matches!(node.kind, NodeKind::Switch { .. }) && !named);
        self.switches.extend(rest.zip(0..).map(|((_, node), number)| Switch {
            name: format!("switch{number}"),
            node: NodeId(node),
            part: 0,
        }));
    }

    /// Adds a link from `a` to `b`, which is returned, and right after it the link [`back`].
    pub fn duplex(&mut self, a: NodeId, b: NodeId, cable: Cable) -> LinkId {
        let Cable { rate, delay, class, lanes } = cable;
        let there = LinkId(self.links.len() as u32);
        self.links.push(Link { from: a, to: b, rate, delay, class, lanes });
        self.links.push(Link { from: b, to: a, rate, delay, class, lanes });
        there
    }

    /// Which links other links make redundant; see [`crate::Fabric::never_binds`].
    ///
    /// Rails out of an optical switch carry what one rail as fast carried in, and are dark when that
    /// is. Else only links between tiers are considered: upwards against the links from below that feed
    /// them, downwards against the links further down that they feed. Both chains end at the NICs'
    /// own links, which are always kept, so no link is dropped for the sake of another that is
    /// dropped for its own.
    pub(crate) fn redundant(&self) -> Vec<bool> {
        let height = |node: NodeId| match self.nodes[node.index()].kind {
            NodeKind::Switch { tier } => u32::from(tier),
            _ => 0,
        };
        // Rates summed per node over the links to what is below it, each way.
        let mut from_below = vec![0u128; self.nodes.len()];
        let mut to_below = vec![0u128; self.nodes.len()];
        for link in &self.links {
            let rate = u128::from(link.rate.bps());
            match height(link.from) < height(link.to) {
                true => from_below[link.to.index()] += rate,
                false => to_below[link.from.index()] += rate,
            }
        }
        let redundant = |link: &Link| {
            let light = matches!(self.nodes[link.from.index()].kind, NodeKind::Ocs { .. });
            if light && link.class == LinkClass::Rail {
                return true;
            }
            let others = match height(link.from) < height(link.to) {
                true => from_below[link.from.index()],
                false => to_below[link.to.index()],
            };
            matches!(link.class, LinkClass::Uplink { .. }) && u128::from(link.rate.bps()) >= others
        };
        self.links.iter().map(redundant).collect()
    }
}

/// What runs between two nodes, in each direction.
#[derive(Clone, Copy, Debug)]
pub struct Cable {
    /// Of all its lanes together \[bit/s\].
    pub rate: BitRate,
    /// With that of the switch behind it \[ps\].
    pub delay: Time,
    /// What the two links are part of.
    pub class: LinkClass,
    /// How many physical links it bundles.
    pub lanes: u32,
}
