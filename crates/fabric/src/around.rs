//! What a part that fails takes with it, and paths over what is left.
//!
//! Modelled: a link is as many cables as either end has parts, each from one part to one: with ideal
//! splitting a bundle up to `n` parallel switches loses an `n`th of its rate with one of them, else all.
//! Where no equal path of two NICs is left, the path is a shortest one over all that works: by other NICs
//! of the two servers, by servers and switches between.
//! Where circuits stand to the end, of RailX, paths are its own over the rails that work.
//! Ignored: shortest paths where servers are graphs inside (there is none then); that with ideal
//! splitting two parts of different groups could miss each other; spare uplinks of part-filled switches.
//! Checked: both splittings lose the same rate with a switch; paths by the crate's properties, over what
//! is left of every kind of fabric.

use crate::graph::{Fabric, Routes};
use crate::hash::Choice;
use crate::ids::{GpuId, LinkId, NicId, NodeId, ServerId};
use crate::shortest::{Edge, Shortest};
use crate::wires::{LinkClass, NodeKind, Switch};

/// One cable of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// The link.
    pub link: LinkId,
    /// Which of its cables, from 0.
    pub cable: u32,
    /// How many it has.
    pub of: u32,
}

impl Fabric {
    /// The cables of a switch.
    ///
    /// ```
    /// # use lightloom_fabric::*;
    /// # use lightloom_units::{BitRate, Time};
    /// let spec = FabricSpec::leaf_spine(BitRate::from_gbps(400), Time::from_us(1));
    /// let fabric = build(&Cluster::of(32, 8), &spec, 1, &[]).unwrap();
    /// let names: Vec<&str> = fabric.switches().iter().map(|switch| switch.name.as_str()).collect();
    /// assert_eq!(names, ["leaf0", "spine0", "spine1", "spine2", "spine3", "leaf1", "leaf2", "leaf3",
    ///                    "leaf4", "leaf5", "leaf6", "leaf7"]);
    /// // Each way to each of eight leaves, one of four cables.
    /// let cuts = fabric.cables_of(&fabric.switches()[2]);
    /// assert_eq!((cuts.len(), cuts[0].cable, cuts[0].of), (16, 1, 4));
    /// ```
    pub fn cables_of(&self, switch: &Switch) -> Vec<Cut> {
        let here = self.parts(switch.node);
        let at = |node| node == switch.node;
        let mut cuts = Vec::new();
        for (link, other) in self.links_at(at) {
            let of = here.max(self.parts(other));
            let mine = |&cable: &u32| cable * here / of == switch.part;
            cuts.extend((0..of).filter(mine).map(|cable| Cut { link, cable, of }));
        }
        cuts
    }

    /// The cables between two switches; none where they are not joined.
    pub fn cables_between(&self, a: &Switch, b: &Switch) -> Vec<Cut> {
        let far = |cut: &Cut| {
            let link = self.link(cut.link);
            let joins = link.from == b.node || link.to == b.node;
            joins && cut.cable * self.parts(b.node) / cut.of == b.part
        };
        let mut cuts = self.cables_of(a);
        cuts.retain(far);
        cuts
    }

    /// The cables between a switch and a server; none where they are not joined.
    pub fn cables_to(&self, switch: &Switch, server: ServerId) -> Vec<Cut> {
        let (cluster, first) = (self.cluster(), self.nic_node(NicId(0)).0);
        let belongs = |node: NodeId| match self.nodes()[node.index()].kind {
            NodeKind::Nic => cluster.server_of_nic(NicId(node.0 - first)) == server,
            NodeKind::Gpu => cluster.server_of(GpuId(node.0)) == server,
            _ => false,
        };
        let mut cuts = self.cables_of(switch);
        cuts.retain(|cut| {
            let link = self.link(cut.link);
            belongs(link.from) || belongs(link.to)
        });
        cuts
    }

    /// The cables of a NIC.
    pub fn cables_of_nic(&self, nic: NicId) -> Vec<Cut> {
        let node = self.nic_node(nic);
        let links = self.links_at(|other| other == node);
        links.map(|(link, _)| Cut { link, cable: 0, of: 1 }).collect()
    }

    /// NICs that are plugged into a switch.
    pub fn nics_at(&self, switch: &Switch) -> Vec<NicId> {
        let first = self.nic_node(NicId(0)).0;
        let ends = self.links_at(|node| node == switch.node).map(|(_, other)| other);
        let mut nics: Vec<NicId> =
            ends.filter(|&end| self.is_nic(end)).map(|end| NicId(end.0 - first)).collect();
        nics.sort_unstable();
        nics.dedup();
        nics
    }

    /// How many switches a node is.
    fn parts(&self, node: NodeId) -> u32 {
        let parts = self.switches().iter().filter(|switch| switch.node == node).count();
        parts.max(1) as u32
    }

    /// Links to and from a node, with the other end.
    fn links_at(&self, at: impl Fn(NodeId) -> bool) -> impl Iterator<Item = (LinkId, NodeId)> {
        let links = self.links().iter().zip(0..).filter(|(link, _)| !link.class.is_inside());
        links.filter_map(move |(link, number)| match (at(link.from), at(link.to)) {
            (true, _) => Some((LinkId(number), link.to)),
            (_, true) => Some((LinkId(number), link.from)),
            _ => None,
        })
    }

    fn is_nic(&self, node: NodeId) -> bool {
        self.nodes()[node.index()].kind == NodeKind::Nic
    }
}

/// Links and NICs that work, and paths over them but for circuits that change.
#[derive(Debug)]
pub struct Left<'a> {
    fabric: &'a Fabric,
    works: Vec<bool>,
    graph: Shortest,
    /// In place of the graph, where circuits that stand are all that joins servers.
    standing: Option<Box<dyn Routes>>,
}

impl<'a> Left<'a> {
    /// What is left without some links, and without some NICs.
    pub fn new(
        fabric: &'a Fabric,
        down: impl Fn(LinkId) -> bool,
        broken: impl Fn(NicId) -> bool,
    ) -> Self {
        let (servers, cluster) = (fabric.cluster().servers(), fabric.cluster());
        let first_nic = fabric.nic_node(NicId(0)).0;
        let nic = |node: NodeId| fabric.is_nic(node).then(|| NicId(node.0 - first_nic));
        let vertex = |node: NodeId| match nic(node) {
            Some(nic) => cluster.server_of_nic(nic).0,
            None => servers + node.0 - first_nic - cluster.nics(),
        };
        let switches = fabric.nodes().len() - (first_nic + cluster.nics()) as usize;
        let mut edges = vec![vec![]; servers as usize + switches];
        let mut works = Vec::with_capacity(fabric.links().len());
        for (link, number) in fabric.links().iter().zip(0..) {
            let ends = [link.from, link.to];
            let gone = ends.iter().any(|&end| nic(end).is_some_and(&broken));
            works.push(!gone && !down(LinkId(number)));
            let travels = matches!(
                link.class,
                LinkClass::Host | LinkClass::Uplink { .. } | LinkClass::Panel | LinkClass::Custom
            );
            if travels && works[number as usize] {
                let (exit, entry) = (nic(link.from), nic(link.to));
                let edge = Edge { to: vertex(link.to), link: LinkId(number), exit, entry };
                edges[vertex(link.from) as usize].push(edge);
            }
        }
        let standing = fabric.routes_left(&works);
        Left { fabric, works, graph: Shortest::new(servers, edges), standing }
    }

    /// Whether all links of a path work.
    pub fn holds(&self, path: &[LinkId]) -> bool {
        path.iter().all(|link| self.works[link.index()])
    }

    /// Whether any link leads from a server to others, but for circuits that change.
    pub fn leaves(&self, server: ServerId) -> bool {
        self.standing.is_some() || !self.graph.edges(server.0).is_empty()
    }

    /// Whether there is a path from one server to another, but for circuits that change.
    pub fn joins(&self, a: ServerId, b: ServerId) -> bool {
        let cluster = self.fabric.cluster();
        match &self.standing {
            Some(routes) => {
                let ends = (cluster.gpu(a, 0), cluster.gpu(b, 0));
                a == b || routes.route(cluster, ends, 0, &mut Vec::new()).is_ok()
            }
            None => self.graph.reaches(a.0, b.0),
        }
    }

    /// Appends one of the equal paths between two NICs that are left, each as likely as another.
    /// `false` if there is none: then nothing is appended.
    pub fn nic_route(&self, from: NicId, to: NicId, key: u64, path: &mut Vec<LinkId>) -> bool {
        let start = path.len();
        if self.fabric.nic_route(from, to, key, path).is_ok() && self.holds(&path[start..]) {
            return true;
        }
        let whole = |&index: &u32| {
            let mut path = Vec::new();
            self.fabric.nic_path(from, to, index, &mut path);
            self.holds(&path)
        };
        path.truncate(start);
        let left: Vec<u32> = (0..self.fabric.nic_paths(from, to)).filter(whole).collect();
        if left.is_empty() {
            return false;
        }
        let chosen = left[Choice::new(from.0, to.0, key).of(left.len())];
        self.fabric.nic_path(from, to, chosen, path);
        true
    }

    /// Appends a shortest path between GPUs of two servers, by their own NICs where it can be. `false`
    /// if there is none.
    pub fn route(&self, from: GpuId, to: GpuId, key: u64, path: &mut Vec<LinkId>) -> bool {
        if self.fabric.cluster().host.is_some() {
            return false;
        }
        let (start, cluster) = (path.len(), self.fabric.cluster());
        let found = match &self.standing {
            Some(routes) => routes.route(cluster, (from, to), key, path),
            None => self.graph.route(cluster, (from, to), key, true, path),
        };
        found.inspect_err(|_| path.truncate(start)).is_ok()
    }

    /// As [`Fabric::panel_paths`].
    pub fn panel_paths(&self, a: ServerId, b: ServerId) -> Vec<Vec<LinkId>> {
        self.graph.paths(self.fabric.cluster(), (a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clos::{ClosSpec, Splitting};
    use crate::cluster::Cluster;
    use crate::kind::build;
    use crate::kinds::fat_tree::FatTree;
    use lightloom_units::{BitRate, Time};

    /// One of `k` switches above the ToRs takes a `k`th of each uplink with it, whether they are one node
    /// or one each; and so does a core of the links above.
    #[test]
    fn both_splittings_lose_the_same() {
        for (tiers, oversubscription) in [(2, 1.0), (3, 1.0), (3, 2.0)] {
            let fabric = |splitting| {
                let spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
                let spec = ClosSpec { tiers, oversubscription, splitting, ..spec };
                build(&Cluster::of(128, 8), &FatTree(spec).into(), 1, &[]).expect("it fits")
            };
            let [ideal, ecmp] = [Splitting::Ideal, Splitting::Ecmp].map(fabric);
            let names = |fabric: &Fabric| {
                let mut names: Vec<_> = fabric.switches().iter().map(|s| s.name.clone()).collect();
                names.sort();
                names
            };
            assert_eq!(names(&ideal), names(&ecmp));
            for name in names(&ideal) {
                let lost = |fabric: &Fabric| {
                    let switch = fabric.switches().iter().find(|switch| switch.name == name);
                    let cuts = fabric.cables_of(switch.expect("in both"));
                    let rate = |cut: &Cut| fabric.link(cut.link).rate.bps() / u64::from(cut.of);
                    cuts.iter().map(rate).sum::<u64>()
                };
                assert_eq!(lost(&ideal), lost(&ecmp), "{name} of {tiers} tiers");
            }
        }
    }

    #[test]
    fn cables_are_between_those_they_join() {
        let mut spec = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
        for splitting in [Splitting::Ideal, Splitting::Ecmp] {
            spec.splitting = splitting;
            let fabric = build(&Cluster::of(128, 8), &FatTree(spec.clone()).into(), 1, &[]);
            let fabric = fabric.expect("it fits");
            let named = |name: &str| {
                fabric.switches().iter().find(|switch| switch.name == name).expect("named so")
            };
            let between = |a, b| fabric.cables_between(named(a), named(b)).len();
            // Radix 8: pods of four ToRs and four aggregation switches, four cores a group.
            assert_eq!(between("tor0", "agg3"), 2);
            assert_eq!(between("agg3", "tor0"), 2);
            assert_eq!(between("tor0", "agg4"), 0);
            assert_eq!(between("agg1", "core4"), 2);
            assert_eq!(between("agg5", "core7"), 2);
            assert_eq!(between("agg1", "core3"), 0);
            assert_eq!(between("tor0", "core0"), 0);
            assert_eq!(fabric.nics_at(named("tor1")).len(), 4);
            assert_eq!(fabric.nics_at(named("agg1")).len(), 0);
        }
    }
}
