//! [`Fabric`]: the one representation that every engine reads, and [`build`], which makes it.

use crate::clos::Clos;
use crate::custom::Custom;
use crate::mixnet::MixNet;
use crate::planes::Planes;
use crate::railx::{Layout, Wired};
use crate::shortest::Shortest;
use crate::wires::{Wires, relay};
use crate::{
    Bill, Cluster, FabricError, FabricSpec, GpuId, Link, LinkId, NicId, Node, NodeId, RouteError,
    ServerId, fat_tree, rail_optimized, topoopt,
};
use lightloom_units::{BitRate, Time};

/// Everything that is wired, how to route over it, and what it takes.
#[derive(Clone, Debug)]
pub struct Fabric {
    cluster: Cluster,
    nodes: Vec<Node>,
    links: Vec<Link>,
    redundant: Vec<bool>,
    wiring: Wiring,
    /// NICs of each server on packet switches, by index in the server.
    packet_nics: Vec<u32>,
    bill: Bill,
    notes: Vec<String>,
}

/// What each kind of fabric knows beyond nodes and links.
#[derive(Clone, Debug)]
enum Wiring {
    FatTree(Clos),
    RailOptimized(Clos),
    MixNet(MixNet),
    TopoOpt(Shortest),
    Planes(Planes),
    RailX(Wired),
    Custom(Custom),
}

/// The most paths that [`Fabric::panel_paths`] returns.
const MOST_PATHS: usize = 16;

/// Builds a fabric.
///
/// `region_servers` is how many consecutive servers make a region of MixNet; others ignore it.
/// `panel` holds TopoOpt's circuits, each a pair of servers, several for a pair that has several;
/// others ignore it, and without it TopoOpt has a bill but no routes. RailX needs more:
/// [`Fabric::railx`] builds it.
///
/// # Errors
/// Names a key and its value as in the specification, and what is allowed.
///
/// ```
/// use lightloom_fabric::{Cluster, FabricSpec, build};
/// use lightloom_units::{BitRate, Time};
/// let spec = FabricSpec::mixnet(8, BitRate::from_gbps(400), Time::from_us(1));
/// let error = build(&Cluster::of(64, 8), &spec, 4, &[]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "fabric.optical_nics = 8: must be from 1 to 7, as one of cluster.nics_per_server = 8 stays \
///      on packets"
/// );
/// ```
pub fn build(
    cluster: &Cluster,
    spec: &FabricSpec,
    region_servers: u32,
    panel: &[(ServerId, ServerId)],
) -> Result<Fabric, FabricError> {
    cluster.validate()?;
    one_nic_each(cluster, spec)?;
    let (mut wires, mut bill, mut notes) = (Wires::new(cluster), Bill::default(), vec![]);
    let (w, b, n) = (&mut wires, &mut bill, &mut notes);
    let wiring = match spec {
        FabricSpec::FatTree(spec) => Wiring::FatTree(fat_tree::build(cluster, spec, w, b)?),
        FabricSpec::LeafSpine(spec) => {
            Wiring::FatTree(fat_tree::build(cluster, &fat_tree::two_tiers(spec), w, b)?)
        }
        FabricSpec::RailOptimized(spec) => {
            Wiring::RailOptimized(rail_optimized::build(cluster, spec, w, b)?)
        }
        FabricSpec::MixNet(spec) => {
            Wiring::MixNet(MixNet::build(cluster, spec, region_servers, w, b, n)?)
        }
        FabricSpec::TopoOpt(spec) => {
            Wiring::TopoOpt(topoopt::build(cluster, spec, panel, w, b, n)?)
        }
        FabricSpec::Planes(spec) => Wiring::Planes(Planes::build(cluster, spec, w, b)?),
        FabricSpec::RailX(_) => {
            let reason = "needs its circuits, which Fabric::railx is given";
            return Err(FabricError::new("fabric.kind", "railx", reason));
        }
        FabricSpec::Graph(spec) => Wiring::Custom(Custom::build(cluster, spec, w, b)?),
    };
    let packet_nics = match &wiring {
        Wiring::MixNet(_) | Wiring::TopoOpt(_) | Wiring::Planes(_) | Wiring::RailX(_) => vec![],
        _ => (0..cluster.nics_per_server).collect(),
    };
    Ok(Fabric { packet_nics, bill, notes, ..Fabric::bare(cluster, wires, wiring) })
}

/// Only MixNet knows what to do with further NICs of a GPU: it puts them on circuits.
fn one_nic_each(cluster: &Cluster, spec: &FabricSpec) -> Result<(), FabricError> {
    if cluster.nics_per_gpu() == 1 || matches!(spec, FabricSpec::MixNet(_)) {
        return Ok(());
    }
    let allowed = format!(
        "fabric \"{}\" has a NIC each GPU: must equal cluster.gpus_per_server = {}",
        spec.kind(),
        cluster.gpus_per_server
    );
    Err(FabricError::new("cluster.nics_per_server", cluster.nics_per_server, allowed))
}

impl Fabric {
    fn bare(cluster: &Cluster, wires: Wires, wiring: Wiring) -> Self {
        Fabric {
            cluster: cluster.clone(),
            redundant: wires.redundant(),
            nodes: wires.nodes,
            links: wires.links,
            wiring,
            packet_nics: vec![],
            bill: Bill::default(),
            notes: vec![],
        }
    }

    /// `nodes` servers with a NIC on each of `planes` optical planes, as a collective's plan has
    /// them. A circuit takes exactly `latency`; any rate and latency will do, and there is no bill.
    ///
    /// # Errors
    /// No nodes or planes, or more than 2^20 NICs.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let fabric = Fabric::planes(8, 4, BitRate::from_gbps(200), Time::from_us(5)).unwrap();
    /// let nic = |node, plane| fabric.cluster().nic(ServerId(node), plane);
    /// let path = [fabric.circuit_tx(nic(2, 3)).unwrap(), fabric.circuit_rx(nic(7, 3)).unwrap()];
    /// assert_eq!(fabric.link(path[0]).to, fabric.link(path[1]).from); // both on plane 3
    /// ```
    pub fn planes(
        nodes: u32,
        planes: u32,
        rate: BitRate,
        latency: Time,
    ) -> Result<Fabric, FabricError> {
        let nics = nodes.saturating_mul(planes);
        let cluster = Cluster { numa_nodes: 1, ..Cluster::of(nics, planes) };
        cluster.validate()?;
        let mut wires = Wires::new(&cluster);
        let half = Time::from_ps(latency.ps() / 2);
        let wired = Planes::wire(&cluster, rate, [latency.saturating_sub(half), half], &mut wires);
        Ok(Fabric::bare(&cluster, wires, Wiring::Planes(wired)))
    }

    /// RailX with the circuits of a layout; a server is one of its nodes.
    ///
    /// # Errors
    /// As [`build`]; if the layout cannot be set, or is of another grid than the cluster.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_fabric::railx::{Axis, Grid, Layout};
    /// # use lightloom_units::{BitRate, Time};
    /// let (rate, delay) = (BitRate::from_gbps(400), Time::from_ns(150));
    /// let spec = RailXSpec::new(RailXTopology::Torus, rate, delay);
    /// let mut layout = Layout::dark(Grid::new(4, 2, 128, 3, 1));
    /// layout.add(Axis::X, 0, 5, vec![0, 1, 2]);
    /// let fabric = Fabric::railx(&Cluster::of(48, 16), &spec, &layout).unwrap();
    /// let mut path = Vec::new();
    /// fabric.route(GpuId(8), GpuId(16), 7, &mut path).unwrap(); // column 0, row 2 to node 1
    /// let hops: Vec<_> = path.iter().map(|&l| fabric.link(l).class.to_string()).collect();
    /// assert_eq!(hops, ["mesh", "mesh", "mesh", "rail", "rail", "mesh", "mesh"]);
    /// ```
    pub fn railx(
        cluster: &Cluster,
        spec: &crate::RailXSpec,
        layout: &Layout,
    ) -> Result<Fabric, FabricError> {
        cluster.validate()?;
        one_nic_each(cluster, &FabricSpec::RailX(spec.clone()))?;
        let (mut wires, mut bill, mut notes) = (Wires::bare(cluster), Bill::default(), vec![]);
        let wired = Wired::build(cluster, spec, layout, &mut wires, &mut bill, &mut notes)?;
        Ok(Fabric { bill, notes, ..Fabric::bare(cluster, wires, Wiring::RailX(wired)) })
    }

    /// The links of RailX, by what they join; none of other fabrics.
    pub fn wired(&self) -> Option<&Wired> {
        match &self.wiring {
            Wiring::RailX(wired) => Some(wired),
            _ => None,
        }
    }

    /// Servers, GPUs and NICs.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
    /// Every node: GPUs first, then a scale-up switch a server, then NICs, then the rest.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
    /// Every link, by [`LinkId`].
    pub fn links(&self) -> &[Link] {
        &self.links
    }
    /// A link of this fabric.
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.index()]
    }
    /// The servers.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = ServerId> + use<> {
        (0..self.cluster.servers()).map(ServerId)
    }
    /// The node of a GPU.
    pub fn gpu_node(&self, gpu: GpuId) -> NodeId {
        NodeId(gpu.0)
    }
    /// The node of a NIC.
    pub fn nic_node(&self, nic: NicId) -> NodeId {
        NodeId(self.cluster.gpus + self.cluster.servers() + nic.0)
    }
    /// What must be bought.
    pub fn bill(&self) -> &Bill {
        &self.bill
    }
    /// What a reader of results must know: limits waived, NICs that idle.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Appends the way between two GPUs of one server: up to the scale-up switch and down again, or
    /// on RailX over the mesh. Nothing is appended if they are one GPU.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// # let spec = FabricSpec::fat_tree(BitRate::from_gbps(400), Time::from_us(1));
    /// # let fabric = build(&Cluster::of(16, 8), &spec, 1, &[]).unwrap();
    /// let mut path = Vec::new();
    /// fabric.scale_up_path(GpuId(9), GpuId(12), &mut path);
    /// assert_eq!(fabric.link(path[0]).from, fabric.gpu_node(GpuId(9)));
    /// assert_eq!(fabric.link(path[1]).to, fabric.gpu_node(GpuId(12)));
    /// ```
    pub fn scale_up_path(&self, source: GpuId, destination: GpuId, path: &mut Vec<LinkId>) {
        debug_assert_eq!(self.cluster.server_of(source), self.cluster.server_of(destination));
        match &self.wiring {
            Wiring::RailX(wired) => {
                let ((node, from), (_, to)) = (wired.place(source), wired.place(destination));
                wired.mesh_path(node, from, to, path);
            }
            _ => relay(source, destination, path),
        }
    }

    /// Appends the fabric's default way from one GPU to another, in order of travel.
    ///
    /// Within a server: the scale-up network. Fat-tree, leaf-spine: own NIC to own NIC.
    /// Rail-optimized: over the scale-up network to the rail of the destination, then its NIC.
    /// MixNet: packet switches, by the nearest packet NIC at either end. TopoOpt, graph: a shortest
    /// path. RailX: the fewest rails, X before Y, each from the nearest chip. On planes there is none but circuits, which [`Fabric::circuit_tx`] and
    /// [`Fabric::circuit_rx`] make. `key` tells apart flows of the same two GPUs where a hash picks among equal paths; it
    /// carries the seed. Between a GPU and its own NIC there is no link.
    ///
    /// # Errors
    /// No such GPU, or no path: then nothing is appended.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let spec = FabricSpec::rail_optimized(BitRate::from_gbps(400), Time::from_us(1));
    /// let fabric = build(&Cluster::of(16, 8), &spec, 1, &[]).unwrap();
    /// let mut path = Vec::new();
    /// fabric.route(GpuId(0), GpuId(9), 7, &mut path).unwrap();
    /// assert_eq!(fabric.link(path[1]).to, fabric.gpu_node(GpuId(1))); // to rail 1 over NVLink
    /// assert_eq!(fabric.link(path[2]).from, fabric.nic_node(NicId(1)));
    /// assert!(fabric.route(GpuId(0), GpuId(16), 7, &mut path).is_err());
    /// ```
    pub fn route(
        &self,
        source: GpuId,
        destination: GpuId,
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let (cluster, gpus) = (&self.cluster, self.cluster.gpus);
        if let Some(&gpu) = [source, destination].iter().find(|gpu| gpu.0 >= gpus) {
            return Err(RouteError::UnknownGpu { gpu, gpus });
        }
        if cluster.server_of(source) == cluster.server_of(destination) {
            self.scale_up_path(source, destination, path);
            return Ok(());
        }
        let (ends, start) = ((source, destination), path.len());
        let found = match &self.wiring {
            Wiring::FatTree(clos) => fat_tree::route(clos, cluster, ends, key, path),
            Wiring::RailOptimized(clos) => rail_optimized::route(clos, cluster, ends, key, path),
            Wiring::MixNet(mixnet) => mixnet.route(cluster, ends, key, path),
            Wiring::TopoOpt(circuits) => circuits.route(cluster, ends, key, false, path),
            Wiring::Planes(_) => Err(RouteError::NotOnPacketFabric { nic: cluster.nic_of(source) }),
            Wiring::RailX(wired) => wired.route(ends, key, path),
            Wiring::Custom(custom) => custom.route(cluster, ends, key, path),
        };
        found.inspect_err(|_| path.truncate(start))
    }

    /// Appends the way over packet switches from one NIC's link up to another's link down. Nothing
    /// is appended if they are one NIC.
    ///
    /// # Errors
    /// No such NIC, one that is not on packet switches, or (of a graph) no path that starts and
    /// ends at these NICs: then nothing is appended.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let spec = FabricSpec::mixnet(6, BitRate::from_gbps(400), Time::from_us(1));
    /// let fabric = build(&Cluster::of(64, 8), &spec, 4, &[]).unwrap();
    /// let mut path = Vec::new();
    /// fabric.nic_route(NicId(4), NicId(60), 7, &mut path).unwrap();
    /// assert_eq!(fabric.link(path[0]).from, fabric.nic_node(NicId(4)));
    /// let optical = fabric.nic_route(NicId(5), NicId(60), 7, &mut path);
    /// assert_eq!(optical, Err(RouteError::NotOnPacketFabric { nic: NicId(5) }));
    /// ```
    pub fn nic_route(
        &self,
        source: NicId,
        destination: NicId,
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let nics = self.cluster.nics();
        if let Some(&nic) = [source, destination].iter().find(|nic| nic.0 >= nics) {
            return Err(RouteError::UnknownNic { nic, nics });
        }
        match &self.wiring {
            Wiring::FatTree(clos) | Wiring::RailOptimized(clos) => {
                clos.route(source, destination, key, path)
            }
            Wiring::MixNet(mixnet) => mixnet.eps.route(source, destination, key, path),
            Wiring::TopoOpt(_) | Wiring::Planes(_) | Wiring::RailX(_) => {
                Err(RouteError::NotOnPacketFabric { nic: source })
            }
            Wiring::Custom(custom) => {
                custom.nic_route(&self.cluster, (source, destination), key, path)
            }
        }
    }

    /// How many equal ways over packet switches [`Fabric::nic_way`] tells apart; 0 where NICs are not
    /// on packet switches, and on a graph, which routes by a hash alone.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let mut spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
    /// spec.splitting = Splitting::Ecmp;
    /// let fabric = build(&Cluster::of(128, 8), &FabricSpec::FatTree(spec), 1, &[]).unwrap();
    /// // Eight ports a switch: 4 hosts and 4 uplinks a ToR, 4 cores behind each aggregation switch.
    /// let ways = [1, 4, 127].map(|nic| fabric.nic_ways(NicId(0), NicId(nic)));
    /// assert_eq!(ways, [1, 4, 16]);
    /// let mut path = Vec::new();
    /// fabric.nic_way(NicId(0), NicId(127), 15, &mut path);
    /// assert_eq!(path.len(), 6);
    /// ```
    pub fn nic_ways(&self, source: NicId, destination: NicId) -> u32 {
        self.switches().map_or(0, |clos| clos.ways(source, destination))
    }

    /// Appends one of the equal ways from one NIC's link up to another's link down, by its index
    /// below [`Fabric::nic_ways`]. Nothing is appended where there are none.
    pub fn nic_way(&self, source: NicId, destination: NicId, index: u32, path: &mut Vec<LinkId>) {
        if let Some(clos) = self.switches() {
            clos.way(source, destination, index, path);
        }
    }

    fn switches(&self) -> Option<&Clos> {
        match &self.wiring {
            Wiring::FatTree(clos) | Wiring::RailOptimized(clos) => Some(clos),
            Wiring::MixNet(mixnet) => Some(&mixnet.eps),
            Wiring::TopoOpt(_) | Wiring::Planes(_) | Wiring::RailX(_) | Wiring::Custom(_) => None,
        }
    }

    /// A server's NICs on packet switches, by index in the server, rising. None with TopoOpt and
    /// on planes.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let spec = FabricSpec::mixnet(6, BitRate::from_gbps(400), Time::from_us(1));
    /// let fabric = build(&Cluster::of(64, 8), &spec, 4, &[]).unwrap();
    /// assert_eq!(fabric.packet_nics(ServerId(0)), [0, 4]); // one a NUMA node
    /// assert_eq!(fabric.optical_nics(ServerId(0)), [1, 2, 3, 5, 6, 7]);
    /// assert_eq!(fabric.region_of(ServerId(5)), Some(1));
    /// ```
    pub fn packet_nics(&self, server: ServerId) -> &[u32] {
        match &self.wiring {
            Wiring::MixNet(mixnet) => mixnet.packet_nics(server),
            _ => &self.packet_nics,
        }
    }

    /// A server's NICs on an optical circuit switch, by index in the server, rising. None but with
    /// MixNet and on planes, where NIC `i` is on plane `i`.
    pub fn optical_nics(&self, server: ServerId) -> &[u32] {
        match &self.wiring {
            Wiring::MixNet(mixnet) => mixnet.optical_nics(server),
            Wiring::Planes(planes) => &planes.optical,
            _ => &[],
        }
    }

    /// The link from a NIC into the optical switch of its region or plane.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let spec = FabricSpec::mixnet(6, BitRate::from_gbps(400), Time::from_us(1));
    /// let fabric = build(&Cluster::of(64, 8), &spec, 4, &[]).unwrap();
    /// // A circuit from NIC 1 of server 0 to NIC 3 of server 2, once the switch is set so.
    /// let path = [fabric.circuit_tx(NicId(1)).unwrap(), fabric.circuit_rx(NicId(19)).unwrap()];
    /// assert_eq!(fabric.link(path[0]).to, fabric.link(path[1]).from);
    /// assert_eq!(fabric.circuit_tx(NicId(0)), None); // a packet NIC
    /// ```
    pub fn circuit_tx(&self, nic: NicId) -> Option<LinkId> {
        match &self.wiring {
            Wiring::MixNet(mixnet) => Some(mixnet.circuit(nic)?.0),
            Wiring::Planes(planes) => Some(planes.circuit(nic)?.0),
            _ => None,
        }
    }

    /// The link from the optical switch of its region or plane into a NIC.
    pub fn circuit_rx(&self, nic: NicId) -> Option<LinkId> {
        match &self.wiring {
            Wiring::MixNet(mixnet) => Some(mixnet.circuit(nic)?.1),
            Wiring::Planes(planes) => Some(planes.circuit(nic)?.1),
            _ => None,
        }
    }

    /// The region whose optical switch a server is on; none but with MixNet, nor there of a server that
    /// stands in for others by its packet NICs.
    pub fn region_of(&self, server: ServerId) -> Option<u32> {
        match &self.wiring {
            Wiring::MixNet(mixnet) => mixnet.region_of(server),
            _ => None,
        }
    }

    /// How many regions there are; 0 but with MixNet.
    pub fn regions(&self) -> u32 {
        match &self.wiring {
            Wiring::MixNet(mixnet) => mixnet.regions,
            _ => 0,
        }
    }

    /// All shortest ways over TopoOpt's circuits from a NIC of one server to a NIC of another, with
    /// the scale-up hops of servers between; at most 16, then spread over the choices at each hop.
    /// None if the servers are one, if no circuits join them, and but with TopoOpt.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let spec = FabricSpec::topoopt(2, BitRate::from_gbps(400), Time::from_us(1));
    /// let ring = [0, 1, 2, 3].map(|s| (ServerId(s), ServerId((s + 1) % 4)));
    /// let fabric = build(&Cluster::of(32, 8), &spec, 1, &ring).unwrap();
    /// let paths = fabric.panel_paths(ServerId(0), ServerId(2));
    /// assert_eq!(paths.len(), 2); // either way round
    /// assert_eq!(paths[0].len(), 4); // circuit, up, down, circuit
    /// ```
    pub fn panel_paths(&self, a: ServerId, b: ServerId) -> Vec<Vec<LinkId>> {
        let inside = a.0.max(b.0) < self.cluster.servers();
        match &self.wiring {
            Wiring::TopoOpt(circuits) if inside => {
                circuits.paths(&self.cluster, (a, b), MOST_PATHS)
            }
            _ => vec![],
        }
    }

    /// Whether a link can be left out when rates are computed, because other links that are not
    /// left out already keep its load within its rate: a link up that is as fast as all links from
    /// below that can feed it, or a link down that is as fast as all it can feed. Exact for routes
    /// of this fabric, which go up, then down.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let cluster = Cluster::of(64, 8);
    /// let kept = |spec| {
    ///     let fabric = build(&cluster, &spec, 1, &[]).unwrap();
    ///     (0..fabric.links().len() as u32)
    ///         .map(LinkId)
    ///         .filter(|&l| !fabric.never_binds(l))
    ///         .filter(|&l| matches!(fabric.link(l).class, LinkClass::Uplink { .. }))
    ///         .count()
    /// };
    /// let rate = BitRate::from_gbps(400);
    /// assert_eq!(kept(FabricSpec::fat_tree(rate, Time::from_us(1))), 0);
    /// let tapered = ClosSpec { oversubscription: 3.0, ..ClosSpec::new(rate, Time::from_us(1)) };
    /// assert!(kept(FabricSpec::FatTree(tapered)) > 0);
    /// ```
    pub fn never_binds(&self, link: LinkId) -> bool {
        self.redundant[link.index()]
    }
}
