//! What works at this moment, and the paths over it: [`failover`]'s decisions as links of the fabric.

use lightloom_circuits::failover::{self, Passage, Wish, Working};
use lightloom_engine::Orders;
use lightloom_engine::Patches;
use lightloom_fabric::{Cut, Fabric, GpuId, Left, LinkClass, LinkId, NicId, NodeId, ServerId};
use lightloom_units::{Bytes, Time};
use std::collections::BTreeSet;

/// The state of every NIC and circuit, kept only where something fails.
pub(crate) struct Health<'a> {
    fabric: &'a Fabric,
    /// By NIC: how many failures it suffers from. Empty if nothing ever fails.
    broken: Vec<u8>,
    /// Links that are down.
    down: BTreeSet<LinkId>,
    /// Paths over what works, if anything ever fails.
    left: Option<Left<'a>>,
    /// By server: NICs on packet switches that work.
    packet: Vec<Vec<u16>>,
    /// By NIC: the other end of its circuit, and when that can carry.
    circuit: Vec<Option<(NicId, Time)>>,
    /// NICs of one index are on one rail.
    rails: bool,
    /// What each of the engine's incidents is.
    events: Vec<FailureEvent>,
}

impl<'a> Health<'a> {
    /// All works, before the first of `events`; `rails`: NICs of one index are on one rail.
    pub fn new(fabric: &'a Fabric, rails: bool, events: Vec<FailureEvent>) -> Self {
        let nics = if events.is_empty() { 0 } else { fabric.cluster().nics() as usize };
        let (broken, circuit) = (vec![0; nics], vec![None; nics]);
        let (down, left, packet) = (BTreeSet::new(), None, vec![]);
        let mut health = Health { fabric, broken, down, left, packet, circuit, rails, events };
        if health.matters() {
            health.look_again();
            health.packet = fabric.servers().map(|server| health.working(server)).collect();
        }
        health
    }

    /// Whether anything fails in this run.
    pub fn matters(&self) -> bool {
        !self.broken.is_empty()
    }

    pub fn is_broken(&self, nic: NicId) -> bool {
        self.broken.get(nic.index()).is_some_and(|&causes| causes > 0)
    }

    /// Whether a server has no NIC on packet switches that works.
    pub fn is_stranded(&self, server: u32) -> bool {
        self.packet.get(server as usize).is_some_and(Vec::is_empty)
    }

    fn look_again(&mut self) {
        let (down, broken) = (|link| self.down.contains(&link), |nic| self.is_broken(nic));
        self.left = Some(Left::new(self.fabric, down, broken));
    }

    fn working(&self, server: ServerId) -> Vec<u16> {
        let locals = self.fabric.packet_nics(server).iter();
        let works = |&&local: &&u32| !self.is_broken(self.fabric.cluster().nic(server, local));
        locals.filter(works).map(|&local| local as u16).collect()
    }

    /// An incident has come: NICs and links break or heal.
    pub fn change(&mut self, index: u32) -> FailureEvent {
        let event = self.events[index as usize].clone();
        for &nic in &event.nics {
            let causes = &mut self.broken[nic.index()];
            *causes = if event.breaks { *causes + 1 } else { *causes - 1 };
        }
        for &nic in &event.nics {
            let server = self.fabric.cluster().server_of_nic(nic);
            self.packet[server.index()] = self.working(server);
        }
        self.down.extend(&event.down);
        self.down.retain(|link| !event.up.contains(link));
        self.look_again();
        event
    }

    /// Notes which circuits changed, and when they can carry.
    pub fn patched(&mut self, patches: &Patches, now: Time) {
        if !self.matters() {
            return;
        }
        let ready = now.saturating_add(patches.delay);
        for patch in &patches.patches {
            // RailX's circuits, which stand to the end, are between chips.
            let Some(tx) = self.nic_at(self.fabric.link(patch.tx).from) else { continue };
            let rx = patch.rx.and_then(|rx| self.nic_at(self.fabric.link(rx).to));
            self.circuit[tx.index()] = rx.map(|rx| (rx, ready));
        }
    }

    /// Appends the path from one GPU to another over what works: the fabric's own if that does.
    pub fn route(
        &self,
        from: GpuId,
        to: GpuId,
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), String> {
        let start = path.len();
        let own = self.fabric.route(from, to, key, path).map_err(|error| error.to_string());
        let Some(left) = &self.left else { return own };
        if own.is_ok() && left.holds(&path[start..]) {
            return Ok(());
        }
        let wish = self.wish(from, to, &path[start..]);
        path.truncate(start);
        let cluster = self.fabric.cluster();
        let (a, b) = (cluster.server_of(from).0, cluster.server_of(to).0);
        let passages = failover::around(self, a, b, wish);
        let laid = passages.is_some_and(|all| self.lay(from, to, &all, key, path));
        match laid || left.route(from, to, key, path) {
            true => Ok(()),
            false => Err(format!("no path is left from server {a} to server {b}")),
        }
    }

    /// Sends `bytes` from one GPU to another of a server elsewhere over all circuits between the two
    /// servers and all NICs on packet switches that work at both ends, each as fast as it is. `false` if
    /// there are none: then nothing is sent.
    pub fn spread(
        &self,
        (from, to): (GpuId, GpuId),
        bytes: u64,
        key: u64,
        orders: &mut Orders,
    ) -> bool {
        let cluster = self.fabric.cluster();
        let (a, b) = (cluster.server_of(from).0, cluster.server_of(to).0);
        let circuits = self.circuits(a).into_iter().filter(|(_, peer)| peer.0 == b);
        let circuits =
            circuits.map(|(nic, peer)| Passage { from: (a, nic), to: peer, circuit: true });
        let nics = self.packet_nics(a).iter().zip(self.packet_nics(b));
        let nics =
            nics.map(|(&exit, &entry)| Passage { from: (a, exit), to: (b, entry), circuit: false });
        let mut paths = Vec::new();
        for passage in circuits.chain(nics) {
            let mut path = Vec::new();
            if !self.lay(from, to, &[passage], key, &mut path) {
                continue;
            }
            let rate = path.iter().map(|&link| self.fabric.link(link).rate.bps()).min();
            paths.push((path, rate.unwrap_or(0)));
        }
        let all: u128 = paths.iter().map(|&(_, rate)| u128::from(rate)).sum();
        let (mut sum, mut sent) = (0, 0);
        for (path, rate) in paths {
            sum += u128::from(rate);
            let until = (u128::from(bytes) * sum / all.max(1)) as u64;
            orders.path().extend(path);
            orders.flow(Bytes::new(until - sent));
            sent = until;
        }
        sum > 0
    }

    /// All shortest paths over what works of a panel; see [`Fabric::panel_paths`].
    pub fn panel_paths(&self, a: ServerId, b: ServerId) -> Vec<Vec<LinkId>> {
        match &self.left {
            Some(left) => left.panel_paths(a, b),
            None => self.fabric.panel_paths(a, b),
        }
    }

    /// As [`Health::route`], from the GPU of one NIC to the GPU of another, by these if they work.
    pub fn nic_route(
        &self,
        from: NicId,
        to: NicId,
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), String> {
        let cluster = self.fabric.cluster();
        self.route_by(|| (cluster.gpu_of(from), cluster.gpu_of(to)), (from, to), key, path)
    }

    /// As [`Health::route`], between the GPUs that `ends` says, by these NICs of theirs if they work.
    pub fn route_by(
        &self,
        ends: impl Fn() -> (GpuId, GpuId),
        (exit, entry): (NicId, NicId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), String> {
        if !self.is_broken(exit) && !self.is_broken(entry) {
            let (start, cluster) = (path.len(), self.fabric.cluster());
            // Without a host there is no link between a GPU and its NIC.
            let inside = cluster.host.as_ref().map(|_| ends());
            if let Some((from, _)) = inside {
                cluster.to_nic(from, exit, path);
            }
            if self.between(exit, entry, key, path) {
                if let Some((_, to)) = inside {
                    cluster.from_nic(entry, to, path);
                }
                return Ok(());
            }
            path.truncate(start);
        }
        let (from, to) = ends();
        self.route(from, to, key, path)
    }

    /// Replaces a path that is gone by another with the same ends; `false` if there is none.
    ///
    /// Bytes on one circuit alone go over another of the same servers that is ready, and only then over
    /// packet switches.
    pub fn divert(&self, key: u64, now: Time, path: &mut Vec<LinkId>) -> bool {
        let (Some(&first), Some(&last)) = (path.first(), path.last()) else { return false };
        let (first, last) = (self.fabric.link(first), self.fabric.link(last));
        let ends = (self.gpu_at(first.from), self.gpu_at(last.to));
        let (Some(from), Some(to)) = ends else { return false };
        let on_way =
            |class| matches!(class, LinkClass::Circuit | LinkClass::Pcie | LinkClass::Numa);
        let alone = path.iter().all(|&link| on_way(self.fabric.link(link).class));
        path.clear();
        if alone {
            let cluster = self.fabric.cluster();
            let (a, b) = (cluster.server_of(from).0, cluster.server_of(to).0);
            let beside = failover::beside(&Ready { health: self, now }, a, b, salt(from, to, self));
            if let Some(passage) = beside {
                return self.lay(from, to, &[passage], key, path);
            }
        }
        if let (Some(a), Some(b)) = (self.nic_at(first.from), self.nic_at(last.to)) {
            return self.nic_route(a, b, key, path).is_ok();
        }
        self.route(from, to, key, path).is_ok()
    }

    /// Appends a path between two NICs over packet switches. `false` if there is none: then nothing is
    /// appended.
    fn between(&self, from: NicId, to: NicId, key: u64, path: &mut Vec<LinkId>) -> bool {
        let start = path.len();
        match &self.left {
            Some(left) => left.nic_route(from, to, key, path),
            None => {
                let found = self.fabric.nic_route(from, to, key, path);
                found.inspect_err(|_| path.truncate(start)).is_ok()
            }
        }
    }

    /// The NIC that a link to or from a switch belongs to.
    fn nic_of(&self, link: LinkId) -> Option<NicId> {
        let link = self.fabric.link(link);
        self.nic_at(link.from).or_else(|| self.nic_at(link.to))
    }

    /// The NIC that a node is.
    fn nic_at(&self, node: NodeId) -> Option<NicId> {
        let nic = node.0.checked_sub(self.fabric.nic_node(NicId(0)).0)?;
        (nic < self.fabric.cluster().nics()).then_some(NicId(nic))
    }

    /// The GPU that a node is, or whose NIC it is.
    fn gpu_at(&self, node: NodeId) -> Option<GpuId> {
        let cluster = self.fabric.cluster();
        match self.nic_at(node) {
            Some(nic) => Some(cluster.gpu_of(nic)),
            None => (node.0 < cluster.gpus).then_some(GpuId(node.0)),
        }
    }

    /// The NICs of a path that cannot be used as a whole.
    fn wish(&self, from: GpuId, to: GpuId, path: &[LinkId]) -> Wish {
        let cluster = self.fabric.cluster();
        let mut nics = path.iter().filter_map(|&link| self.nic_of(link));
        let exit = nics.next().unwrap_or(cluster.nic_of(from));
        let entry = nics.next_back().unwrap_or(cluster.nic_of(to));
        let local = |nic| cluster.local_nic(nic) as u16;
        Wish {
            exit: local(exit),
            entry: local(entry),
            rail: self.rails,
            salt: salt(from, to, self),
        }
    }

    /// Appends passages as links, with what is inside servers before, between and behind them. `false` if
    /// packet switches do not join two of the NICs: then nothing is appended.
    fn lay(
        &self,
        from: GpuId,
        to: GpuId,
        passages: &[Passage],
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> bool {
        let (cluster, start) = (self.fabric.cluster(), path.len());
        let nic = |(server, local): (u32, u16)| cluster.nic(ServerId(server), u32::from(local));
        let mut at = from;
        for (index, passage) in (1..).zip(passages) {
            let (exit, entry) = (nic(passage.from), nic(passage.to));
            cluster.to_nic(at, exit, path);
            if passage.circuit {
                path.extend(self.fabric.circuit_tx(exit));
                path.extend(self.fabric.circuit_rx(entry));
            } else if !self.between(exit, entry, key, path) {
                path.truncate(start);
                return false;
            }
            at = if index < passages.len() { cluster.gpu_of(entry) } else { to };
            cluster.from_nic(entry, at, path);
        }
        true
    }
}

/// Spreads the flows of one GPU over what is left: its peers, GPUs of one index, differ by servers.
fn salt(from: GpuId, to: GpuId, health: &Health<'_>) -> u32 {
    from.0 + to.0 + to.0 / health.fabric.cluster().gpus_per_server
}

impl Working for Health<'_> {
    fn packet_nics(&self, server: u32) -> &[u16] {
        &self.packet[server as usize]
    }

    fn circuits(&self, server: u32) -> Vec<(u16, (u32, u16))> {
        Ready { health: self, now: Time::MAX }.circuits(server)
    }
}

/// Only circuits that are ready by now.
struct Ready<'a, 'b> {
    health: &'a Health<'b>,
    now: Time,
}

impl Working for Ready<'_, '_> {
    fn packet_nics(&self, server: u32) -> &[u16] {
        self.health.packet_nics(server)
    }

    fn circuits(&self, server: u32) -> Vec<(u16, (u32, u16))> {
        let (fabric, cluster) = (self.health.fabric, self.health.fabric.cluster());
        let server = ServerId(server);
        let peer = |&local: &u32| {
            let nic = cluster.nic(server, local);
            let (to, ready) = self.health.circuit[nic.index()]?;
            let whole =
                ready <= self.now && !self.health.is_broken(nic) && !self.health.is_broken(to);
            let far = (cluster.server_of_nic(to).0, cluster.local_nic(to) as u16);
            whole.then_some((local as u16, far))
        };
        fabric.optical_nics(server).iter().filter_map(peer).collect()
    }
}

/// What one incident changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureEvent {
    pub at: Time,
    /// Index into the failures.
    pub(super) failure: usize,
    /// NICs that can be used no more, or again.
    pub nics: Vec<NicId>,
    /// Cables that carry no more, or again.
    pub cuts: Vec<Cut>,
    /// Links that carry nothing then.
    pub down: Vec<LinkId>,
    /// Links that carry again.
    pub up: Vec<LinkId>,
    /// They can be used no more.
    pub breaks: bool,
    /// Ranks that move, and the GPUs they move to.
    pub moves: Vec<(u32, u32)>,
}
