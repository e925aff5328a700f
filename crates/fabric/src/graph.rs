//! [`Fabric`]: the one representation that every engine reads, and [`Routes`], what a kind of fabric
//! knows beyond nodes and links.

use crate::bill::Bill;
use crate::cluster::Cluster;
use crate::error::RouteError;
use crate::hash::Choice;
use crate::ids::{GpuId, LinkId, NicId, NodeId, ServerId};
use crate::inside::relay;
use crate::wires::{Link, LinkClass, Node, NodeKind, Switch, Wires};
use lightloom_units::BitRate;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Everything that is wired, how to route over it, and what it takes.
#[derive(Clone, Debug)]
pub struct Fabric {
    cluster: Cluster,
    nodes: Vec<Node>,
    links: Vec<Link>,
    switches: Vec<Switch>,
    redundant: Vec<bool>,
    routes: Arc<dyn Routes>,
    bill: Bill,
    in_servers: Vec<NodeId>,
    notes: Vec<String>,
}

/// What a kind of fabric knows beyond nodes and links: how to route, and what is optical.
///
/// The methods are those of [`Fabric`], which checks numbers first and takes back what a route that
/// fails has appended. What a kind has not, it leaves as it is here.
pub trait Routes: fmt::Debug + Any + Send + Sync {
    /// See [`Fabric::route`]; between two servers.
    ///
    /// # Errors
    /// No path.
    fn route(
        &self,
        cluster: &Cluster,
        ends: (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError>;

    /// See [`Fabric::nic_route`].
    ///
    /// # Errors
    /// A NIC that is not on packet switches, or no path.
    fn nic_route(
        &self,
        cluster: &Cluster,
        (source, destination): (NicId, NicId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let _ = cluster;
        match self.switches() {
            Some(switches) => switches.route(source, destination, key, path),
            None => Err(RouteError::NotOnPacketFabric { nic: source }),
        }
    }

    /// See [`Fabric::scale_up_path`].
    fn scale_up_path(&self, source: GpuId, destination: GpuId, path: &mut Vec<LinkId>) {
        relay(source, destination, path);
    }

    /// The packet switches, if their equal paths can be told apart.
    fn switches(&self) -> Option<&dyn Switches> {
        None
    }

    /// See [`Fabric::packet_nics`].
    fn packet_nics(&self, server: ServerId) -> &[u32] {
        let _ = server;
        &[]
    }

    /// See [`Fabric::optical_nics`].
    fn optical_nics(&self, server: ServerId) -> &[u32] {
        let _ = server;
        &[]
    }

    /// The links of a NIC into its optical switch and out of it.
    fn circuit(&self, nic: NicId) -> Option<(LinkId, LinkId)> {
        let _ = nic;
        None
    }

    /// See [`Fabric::region_of`].
    fn region_of(&self, server: ServerId) -> Option<u32> {
        let _ = server;
        None
    }

    /// See [`Fabric::regions`].
    fn regions(&self) -> u32 {
        0
    }

    /// See [`Fabric::panel_paths`].
    fn panel_paths(&self, cluster: &Cluster, a: ServerId, b: ServerId) -> Vec<Vec<LinkId>> {
        let _ = (cluster, a, b);
        vec![]
    }

    /// See [`Fabric::shares`].
    fn shares(&self) -> bool {
        self.switches().is_some_and(Switches::shares)
    }

    /// See [`Fabric::rings`].
    fn rings(&self, servers: &[u32]) -> Vec<Vec<u32>> {
        self.switches().map_or_else(Vec::new, |switches| switches.rings(servers))
    }

    /// See [`Fabric::standing`].
    fn standing(&self) -> Vec<(LinkId, LinkId)> {
        vec![]
    }

    /// The same over circuits that stand and work to their end, where these are all that joins servers.
    fn left(&self, works: &[bool]) -> Option<Box<dyn Routes>> {
        let _ = works;
        None
    }

    /// Itself, for whoever knows the type.
    fn as_any(&self) -> &dyn Any;
}

/// Packet switches between NICs.
pub trait Switches: fmt::Debug + Any + Send + Sync {
    /// See [`Fabric::nic_route`]. Unless a kind knows better: one of the equal paths, by a hash.
    ///
    /// # Errors
    /// A NIC that is not on these switches.
    fn route(
        &self,
        source: NicId,
        destination: NicId,
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        if source != destination {
            let paths = self.paths(source, destination) as usize;
            let index = Choice::new(source.0, destination.0, key).of(paths);
            self.path(source, destination, index as u32, path);
        }
        Ok(())
    }

    /// See [`Fabric::nic_paths`].
    fn paths(&self, source: NicId, destination: NicId) -> u32;

    /// See [`Fabric::nic_path`].
    fn path(&self, source: NicId, destination: NicId, index: u32, path: &mut Vec<LinkId>);

    /// See [`Fabric::shares`].
    fn shares(&self) -> bool {
        false
    }

    /// See [`Fabric::rings`].
    fn rings(&self, servers: &[u32]) -> Vec<Vec<u32>> {
        let _ = servers;
        vec![]
    }
}

/// The part of a path between its first NIC and its last ([`Fabric::switched`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// How many of its links come before.
    pub before: usize,
    /// How many come after.
    pub after: usize,
    /// The NIC that sends.
    pub source: NicId,
    /// The NIC that receives.
    pub destination: NicId,
}

/// Routes over packet switches that every NIC is on, from a GPU's own NIC to the destination's own.
#[derive(Debug)]
pub struct OwnNics<S> {
    switches: S,
    /// All NICs of a server.
    nics: Vec<u32>,
}

impl<S> OwnNics<S> {
    /// Over these switches, which join the NICs of this cluster.
    pub fn new(switches: S, cluster: &Cluster) -> Self {
        OwnNics { switches, nics: (0..cluster.nics_per_server).collect() }
    }
}

impl<S: Switches> Routes for OwnNics<S> {
    fn route(
        &self,
        cluster: &Cluster,
        (source, destination): (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let (exit, entry) = (cluster.nic_of(source), cluster.nic_of(destination));
        if cluster.host.is_none() {
            return self.switches.route(exit, entry, key, path);
        }
        cluster.to_nic(source, exit, path);
        self.switches.route(exit, entry, key, path)?;
        cluster.from_nic(entry, destination, path);
        Ok(())
    }

    fn switches(&self) -> Option<&dyn Switches> {
        Some(&self.switches)
    }

    fn packet_nics(&self, _: ServerId) -> &[u32] {
        &self.nics
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Fabric {
    pub(crate) fn new(cluster: &Cluster, mut wires: Wires, routes: Arc<dyn Routes>) -> Self {
        wires.name_the_rest();
        Fabric {
            cluster: cluster.clone(),
            redundant: wires.redundant(),
            nodes: wires.nodes,
            links: wires.links,
            switches: wires.switches,
            routes,
            bill: wires.bill,
            in_servers: wires.in_servers,
            notes: wires.notes,
        }
    }

    /// The same with another rate of a NIC, to and from what it is plugged into.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let spec = FabricSpec::fat_tree(BitRate::from_gbps(400), Time::from_us(1));
    /// let slow = build(&Cluster::of(16, 8), &spec, 1, &[]).unwrap();
    /// let slow = slow.with_nic_rate(NicId(3), BitRate::from_gbps(100));
    /// let mut path = Vec::new();
    /// slow.nic_route(NicId(3), NicId(15), 0, &mut path).unwrap();
    /// assert_eq!(slow.link(path[0]).rate, BitRate::from_gbps(100));
    /// ```
    #[must_use]
    pub fn with_nic_rate(mut self, nic: NicId, rate: BitRate) -> Self {
        let nic = self.nic_node(nic);
        for (link, redundant) in self.links.iter_mut().zip(&mut self.redundant) {
            let other = if link.from == nic { link.to } else { link.from };
            let ends = link.from == nic || link.to == nic;
            if ends && matches!(self.nodes[other.index()].kind, NodeKind::Switch { .. }) {
                (link.rate, *redundant) = (rate, false);
            }
        }
        self
    }

    /// The same, but links between tiers of packet switches have this rate, each way.
    ///
    /// ```
    /// # use lightloom_fabric::{build, Cluster, ClosSpec, LinkClass, RailOptimized};
    /// # use lightloom_units::{BitRate, Time};
    /// let clos = ClosSpec { tiers: 2, ..ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1)) };
    /// let rails = build(&Cluster::of(16, 8), &RailOptimized(clos).into(), 1, &[]).unwrap();
    /// let rails = rails.with_uplink_rate(BitRate::from_gbps(800));
    /// let up = |link: &&lightloom_fabric::Link| matches!(link.class, LinkClass::Uplink { .. });
    /// assert!(rails.links().iter().filter(up).all(|link| link.rate == BitRate::from_gbps(800)));
    /// ```
    #[must_use]
    pub fn with_uplink_rate(mut self, rate: BitRate) -> Self {
        let redundant = &mut self.redundant;
        for (link, redundant) in self.links.iter_mut().zip(redundant) {
            if matches!(link.class, LinkClass::Uplink { .. }) {
                (link.rate, *redundant) = (rate, false);
            }
        }
        self
    }

    /// What its kind knows beyond nodes and links, if that is of the type asked for.
    pub(crate) fn routes<R: Routes>(&self) -> Option<&R> {
        self.routes.as_any().downcast_ref()
    }

    /// See [`Routes::left`].
    pub(crate) fn routes_left(&self, works: &[bool]) -> Option<Box<dyn Routes>> {
        self.routes.left(works)
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
    /// Every switch that may fail by its name, tier by tier or in the order of a graph.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }
    /// All servers, in rising order.
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
    /// Packet switches by the ports that they use: rate of a port \[bit/s\], ports, and how many such
    /// switches there are, in rising order. A switch with ports of several rates counts at the highest;
    /// a node that is several switches in parallel, as if they had as many ports each, rounded up. What
    /// servers forward by themselves is no switch.
    ///
    /// ```
    /// # use lightloom_fabric::{build, ClosSpec, Cluster, FatTree, Splitting};
    /// # use lightloom_units::{BitRate, Time};
    /// let rate = BitRate::from_gbps(400);
    /// let clos = ClosSpec { splitting: Splitting::Ecmp, ..ClosSpec::new(rate, Time::from_us(1)) };
    /// let tree = build(&Cluster::of(16, 8), &FatTree(clos).into(), 1, &[]).unwrap();
    /// assert_eq!(tree.switch_ports(), [(rate, 4, 8 + 8 + 4)]);
    /// ```
    pub fn switch_ports(&self) -> Vec<(BitRate, u64, u64)> {
        // By node: the highest rate of a lane, and lanes.
        let mut used = vec![(0, 0u64); self.nodes.len()];
        for link in &self.links {
            let (rate, lanes) = &mut used[link.from.index()];
            *rate = (*rate).max(link.rate.bps() / u64::from(link.lanes.max(1)));
            *lanes += u64::from(link.lanes);
        }
        let mut in_server = vec![false; self.nodes.len()];
        self.in_servers.iter().for_each(|node| in_server[node.index()] = true);
        let mut parts = vec![0u64; self.nodes.len()];
        self.switches.iter().for_each(|switch| parts[switch.node.index()] += 1);
        let mut found = BTreeMap::new();
        let nodes = self.nodes.iter().zip(used).zip(parts).zip(in_server);
        for (((node, (rate, lanes)), parts), own) in nodes {
            if matches!(node.kind, NodeKind::Switch { .. }) && lanes > 0 && !own {
                let parts = parts.max(1);
                *found.entry((rate, lanes.div_ceil(parts))).or_default() += parts;
            }
        }
        let listed = found.into_iter();
        listed.map(|((rate, ports), count)| (BitRate::from_bps(rate), ports, count)).collect()
    }
    /// Optical switches that no circuit joins, such as MixNet's regions; 0 where a kind has no nodes
    /// of them.
    pub fn optical_switches(&self) -> usize {
        self.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Ocs { .. })).count()
    }
    /// What a reader of results must know: limits waived, NICs that idle.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Appends the path between two GPUs of one server: up to the scale-up switch and down again, or
    /// on RailX over the mesh, or over PCIe where the cluster's host has no NVLink between them. Nothing is appended if they are one GPU.
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
        match &self.cluster.host {
            Some(_) => self.cluster.between(source, destination, path),
            None => self.routes.scale_up_path(source, destination, path),
        }
    }

    /// Appends the fabric's default path from one GPU to another, in order of travel.
    ///
    /// Within a server: the scale-up network. Fat-tree, leaf-spine: own NIC to own NIC.
    /// Rail-optimized: over the scale-up network to the rail of the destination, then its NIC.
    /// MixNet: packet switches, by the nearest packet NIC at either end. TopoOpt, graph: a shortest
    /// path. RailX: the fewest rails, X before Y, each from the nearest chip. On planes there is none but circuits, which [`Fabric::circuit_tx`] and
    /// [`Fabric::circuit_rx`] make. `key` tells apart flows of the same two GPUs where a hash picks among equal paths; it
    /// carries the seed. Between a GPU and its own NIC there is no link but where the cluster has a host.
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
        let start = path.len();
        let found = self.routes.route(cluster, (source, destination), key, path);
        found.inspect_err(|_| path.truncate(start))
    }

    /// Appends the path over packet switches from one NIC's link up to another's link down. Nothing
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
        self.routes.nic_route(&self.cluster, (source, destination), key, path)
    }

    /// How many equal paths over packet switches [`Fabric::nic_path`] tells apart; 0 where NICs are not
    /// on packet switches, and on a graph, which routes by a hash alone.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let mut spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
    /// spec.splitting = Splitting::Ecmp;
    /// let fabric = build(&Cluster::of(128, 8), &FatTree(spec).into(), 1, &[]).unwrap();
    /// // Eight ports a switch: 4 hosts and 4 uplinks a ToR, 4 cores behind each aggregation switch.
    /// let counts = [1, 4, 127].map(|nic| fabric.nic_paths(NicId(0), NicId(nic)));
    /// assert_eq!(counts, [1, 4, 16]);
    /// let mut path = Vec::new();
    /// fabric.nic_path(NicId(0), NicId(127), 15, &mut path);
    /// assert_eq!(path.len(), 6);
    /// ```
    pub fn nic_paths(&self, source: NicId, destination: NicId) -> u32 {
        self.routes.switches().map_or(0, |switches| switches.paths(source, destination))
    }

    /// Appends one of the equal paths from one NIC's link up to another's link down, by its index
    /// below [`Fabric::nic_paths`]. Nothing is appended where there are none.
    pub fn nic_path(&self, source: NicId, destination: NicId, index: u32, path: &mut Vec<LinkId>) {
        if let Some(switches) = self.routes.switches() {
            switches.path(source, destination, index, path);
        }
    }

    /// The part of a path that has equal paths beside it: that from its first NIC to its last, over
    /// packet switches. None of a path that goes through a NIC between, or over none.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
    /// let fabric = build(&Cluster::of(128, 8), &FatTree(spec).into(), 1, &[]).unwrap();
    /// let mut path = Vec::new();
    /// fabric.route(GpuId(0), GpuId(127), 7, &mut path).unwrap();
    /// let switched = fabric.switched(&path).unwrap();
    /// assert_eq!((switched.source, switched.destination), (NicId(0), NicId(127)));
    /// assert_eq!((switched.before, switched.after), (0, 0));
    /// ```
    pub fn switched(&self, path: &[LinkId]) -> Option<Switched> {
        let host = |&link: &LinkId| self.link(link).class == LinkClass::Host;
        let first_nic = self.nic_node(NicId(0)).0;
        let nic = |node: NodeId| {
            let is_nic = self.nodes[node.0 as usize].kind == NodeKind::Nic;
            is_nic.then(|| NicId(node.0 - first_nic))
        };
        let (up, down) = (path.iter().position(host)?, path.iter().rposition(host)?);
        let source = nic(self.link(path[up]).from)?;
        let destination = nic(self.link(path[down]).to)?;
        let through = up < down && path[up + 1..down].iter().any(host);
        (!through).then(|| Switched {
            before: up,
            after: path.len() - 1 - down,
            source,
            destination,
        })
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
        self.routes.packet_nics(server)
    }

    /// A server's NICs on an optical circuit switch, by index in the server, rising. None but with
    /// MixNet and on planes, where NIC `i` is on plane `i`.
    pub fn optical_nics(&self, server: ServerId) -> &[u32] {
        self.routes.optical_nics(server)
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
        Some(self.routes.circuit(nic)?.0)
    }

    /// The link from the optical switch of its region or plane into a NIC.
    pub fn circuit_rx(&self, nic: NicId) -> Option<LinkId> {
        Some(self.routes.circuit(nic)?.1)
    }

    /// The region whose optical switch a server is on; none but with MixNet, nor there of a server that
    /// stands in for others by its packet NICs.
    pub fn region_of(&self, server: ServerId) -> Option<u32> {
        self.routes.region_of(server)
    }

    /// How many regions there are; 0 but with MixNet.
    pub fn regions(&self) -> u32 {
        self.routes.regions()
    }

    /// Circuits that stand from the beginning and are not changed, by the links into a switch and out of
    /// it. Those of RailX; of other fabrics none, whose circuits are decided during the run.
    pub fn standing(&self) -> Vec<(LinkId, LinkId)> {
        self.routes.standing()
    }

    /// Whether what one server sends another is best shared by all equal paths, NIC by NIC. Not where links
    /// that are parallel are one bundle already.
    pub fn shares(&self) -> bool {
        self.routes.shares()
    }

    /// To whom each of some servers, all different, best sends its part of a sum over them: a list of servers
    /// for each equal part. None where it is as well to send to the next of them.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let spec = TorusSpec::new(&[3, 2], BitRate::from_gbps(400), Time::from_us(1));
    /// let fabric = build(&Cluster::of(48, 8), &spec.into(), 1, &[]).unwrap();
    /// let [right, left] = [[1, 2, 0, 4, 5, 3], [2, 0, 1, 5, 3, 4]];
    /// let across = [3, 4, 5, 0, 1, 2];
    /// assert_eq!(fabric.rings(&[0, 1, 2, 3, 4, 5]), [right, left, across, across]);
    /// ```
    pub fn rings(&self, servers: &[u32]) -> Vec<Vec<u32>> {
        self.routes.rings(servers)
    }

    /// All shortest paths over TopoOpt's circuits from a NIC of one server to a NIC of another, with
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
    /// assert_eq!(paths.len(), 2); // in either direction
    /// assert_eq!(paths[0].len(), 4); // circuit, up, down, circuit
    /// ```
    pub fn panel_paths(&self, a: ServerId, b: ServerId) -> Vec<Vec<LinkId>> {
        match a.0.max(b.0) < self.cluster.servers() {
            true => self.routes.panel_paths(&self.cluster, a, b),
            false => vec![],
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
    /// assert!(kept(FatTree(tapered).into()) > 0);
    /// ```
    pub fn never_binds(&self, link: LinkId) -> bool {
        self.redundant[link.index()]
    }

    /// Whether only links inside servers and of their NICs to switches may bind, so that what some servers send
    /// each other over switches holds up nothing between others.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let cluster = Cluster::of(64, 8);
    /// let at_servers = |spec| build(&cluster, &spec, 1, &[]).unwrap().binds_at_servers();
    /// let rate = BitRate::from_gbps(400);
    /// assert!(at_servers(FabricSpec::fat_tree(rate, Time::from_us(1))));
    /// assert!(at_servers(FabricSpec::mixnet(6, rate, Time::from_us(1))));
    /// let tapered = ClosSpec { oversubscription: 3.0, ..ClosSpec::new(rate, Time::from_us(1)) };
    /// assert!(!at_servers(FatTree(tapered).into()));
    /// let torus = TorusSpec::new(&[8], rate, Time::from_us(1));
    /// assert!(!at_servers(torus.into())); // what passes a server is in its way
    /// ```
    pub fn binds_at_servers(&self) -> bool {
        let own = |link: &Link| {
            link.class.is_inside() || matches!(link.class, LinkClass::Host | LinkClass::Circuit)
        };
        self.links.iter().zip(&self.redundant).all(|(link, &redundant)| redundant || own(link))
    }
}
