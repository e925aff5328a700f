//! Any graph: named servers and switches, and duplex links between them.
//!
//! Modelled: the servers are the cluster's, in the order listed. Each lane of a link at a server takes
//! the server's next NIC, so a server's lanes must be as many as its NICs; lanes between switches are
//! a bundle that shares its load perfectly. A flow takes one shortest path, by a hash among equals;
//! its own NIC, and the destination's, where they are on one. Servers pass on the traffic of others
//! only where no path avoids it.
//! Bill: a NIC for each lane at a server, a switch port for each at a switch, a transceiver at both
//! ends. Ignored: tiers (no link is known never to bind), passive copper.
//! Checked: routes by the crate's properties; each rule by a graph that breaks it
//! (`tests/all/graphs.rs`).

use crate::bill::Item;
use crate::cluster::Cluster;
use crate::error::{FabricError, RouteError};
use crate::graph::Routes;
use crate::hash::Choice;
use crate::ids::{GpuId, LinkId, NicId, NodeId, ServerId};
use crate::kind::{Capabilities, FabricKeys, FabricKind, FabricSpec, Site, example};
use crate::shortest::{Edge, Shortest};
use crate::wires::{Cable, LinkClass, Wires, back};
use lightloom_units::kind::Kind;
use lightloom_units::{BitRate, Time};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// A graph given node by node and link by link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    /// Servers and switches. The servers are the cluster's, in this order.
    pub nodes: Vec<GraphNode>,
    /// What joins them.
    pub links: Vec<GraphLink>,
}

/// A server or a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphNode {
    /// How links name it.
    pub name: String,
    /// What it is.
    pub role: Role,
}

/// What a node of a graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A server of the cluster.
    GpuServer,
    /// A packet switch.
    Switch,
}

/// A duplex link, or several parallel ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphLink {
    /// The name of one end.
    pub a: String,
    /// The name of the other.
    pub b: String,
    /// Rate of each lane and direction \[bit/s\].
    pub rate_bps: BitRate,
    /// Delay \[ps\].
    pub delay_ps: Time,
    /// How many in parallel. At a server each lane takes a NIC.
    #[serde(default = "one")]
    pub lanes: u32,
}

fn one() -> u32 {
    1
}

const ABOUT: Kind<Capabilities> = Kind {
    name: "graph",
    summary: "Any other fabric, node by node and link by link",
    source: None,
    keys: &[],
    capabilities: Capabilities {
        carriers: &[],
        failures: &["nic", "link", "switch"],
        switches: Some("fabric.links"),
        host: false,
        ..Capabilities::SWITCHED
    },
};

/// See [`GraphSpec`].
pub static KIND: FabricKind =
    FabricKind::of::<GraphSpec>(ABOUT, |n| example(n, 1, |cluster| on_leaves(cluster, 1 + n % 2)));

impl FabricKeys for GraphSpec {
    fn kind(&self) -> &'static FabricKind {
        &KIND
    }

    fn build(&self, site: &Site<'_>) -> Result<(Wires, Arc<dyn Routes>), FabricError> {
        let (cluster, mut wires) = (site.cluster, Wires::new(site.cluster));
        let vertices = vertices(cluster, self, &mut wires)?;
        let mut draft = Draft {
            edges: vec![vec![]; self.nodes.len()],
            used: vec![0; cluster.servers() as usize],
        };
        for (index, link) in self.links.iter().enumerate() {
            let ends = check(index, link, &vertices)?;
            for end in ends {
                let item = if end.switch.is_some() { Item::SwitchPort } else { Item::Nic };
                wires.bill.add(item, link.rate_bps, u64::from(link.lanes));
                wires.bill.add(Item::Transceiver, link.rate_bps, u64::from(link.lanes));
            }
            draft
                .add(cluster, link, ends, &mut wires)
                .map_err(|server| lanes_differ(self, cluster, server, "more"))?;
        }
        let short = draft.used.iter().position(|&used| used < cluster.nics_per_server);
        if let Some(server) = short {
            return Err(lanes_differ(self, cluster, server as u32, "fewer"));
        }
        // A server's edges were added in the order of its NICs.
        let of_nics = draft.edges[..draft.used.len()].iter().flatten().copied().collect();
        let graph = Shortest::new(cluster.servers(), draft.edges);
        match (1..cluster.servers()).find(|&server| !graph.reaches(server, 0)) {
            None => {
                let nics = (0..cluster.nics_per_server).collect();
                Ok((wires, Arc::new(Custom { graph, edges: of_nics, nics })))
            }
            Some(server) => {
                let (a, b) = (server_name(self, 0), server_name(self, server));
                let reason = format!("no path joins servers {a:?} and {b:?}");
                let count = format!("{} links", self.links.len());
                Err(FabricError::new("fabric.links", count, reason))
            }
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Every server's NICs shared by one or two switches, which are joined.
fn on_leaves(cluster: &Cluster, leaves: u32) -> FabricSpec {
    let node = |name: String, role| GraphNode { name, role };
    let servers = || (0..cluster.servers()).map(|s| format!("server-{s}"));
    let (rate_bps, delay_ps) = (BitRate::from_gbps(100), Time::from_us(1));
    let link = |a: String, b: String, lanes| GraphLink { a, b, rate_bps, delay_ps, lanes };
    let nics = cluster.nics_per_server;
    let leaf = |l: u32| format!("leaf-{l}");
    let between = (1..leaves).map(|l| link(leaf(0), leaf(l), nics));
    let share = move |l: u32| if leaves == 1 { nics } else { (nics + 1 - l) / 2 };
    let up = servers().flat_map(|s| (0..leaves).map(move |l| link(leaf(l), s.clone(), share(l))));
    GraphSpec {
        nodes: (servers().map(|name| node(name, Role::GpuServer)))
            .chain((0..leaves).map(|l| node(leaf(l), Role::Switch)))
            .collect(),
        links: between.chain(up).filter(|link| link.lanes > 0).collect(),
    }
    .into()
}

/// A graph, and where its NICs lead.
#[derive(Debug)]
struct Custom {
    graph: Shortest,
    /// By NIC.
    edges: Vec<Edge>,
    /// All NICs of a server.
    nics: Vec<u32>,
}

impl Routes for Custom {
    /// One shortest path.
    fn route(
        &self,
        cluster: &Cluster,
        ends: (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        self.graph.route(cluster, ends, key, true, path)
    }

    /// One shortest path that leaves by `source` and ends at `destination`.
    fn nic_route(
        &self,
        cluster: &Cluster,
        (source, destination): (NicId, NicId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        if source == destination {
            return Ok(());
        }
        let (first, last) = (self.edges[source.index()], self.edges[destination.index()]);
        if first.entry == Some(destination) {
            path.push(first.link);
            return Ok(());
        }
        let (from, to) = (cluster.server_of_nic(source), cluster.server_of_nic(destination));
        let no_path = RouteError::NoPath { from, to };
        // Packet switches alone: a NIC that leads to another server's NIC leads nowhere else.
        if first.entry.is_some() || last.entry.is_some() {
            return Err(no_path);
        }
        let start = path.len();
        path.push(first.link);
        let choice = Choice::new(source.0, destination.0, key);
        let mut relayed = false;
        let found = self.graph.walk(
            (first.to, last.to),
            choice,
            |_| false,
            |edge| {
                relayed |= edge.exit.is_some();
                path.push(edge.link);
            },
        );
        if found.is_none() || relayed {
            path.truncate(start);
            return Err(no_path);
        }
        path.push(back(last.link));
        Ok(())
    }

    fn packet_nics(&self, _: ServerId) -> &[u32] {
        &self.nics
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A node of the specification.
#[derive(Clone, Copy)]
struct Vertex {
    number: u32,
    /// The node, of a switch; none of a server, whose NICs are the nodes.
    switch: Option<NodeId>,
}

/// The graph while it is wired: edges by vertex, and how many NICs of each server are taken.
struct Draft {
    edges: Vec<Vec<Edge>>,
    used: Vec<u32>,
}

impl Draft {
    /// Adds a link lane by lane, or as a bundle between switches.
    ///
    /// # Errors
    /// The server that has no NIC left for it.
    fn add(
        &mut self,
        cluster: &Cluster,
        link: &GraphLink,
        [a, b]: [Vertex; 2],
        wires: &mut Wires,
    ) -> Result<(), u32> {
        let bundle = a.switch.is_some() && b.switch.is_some();
        let (cables, lanes) = if bundle { (1, link.lanes) } else { (link.lanes, 1) };
        let cable = Cable {
            rate: link.rate_bps * u64::from(lanes),
            delay: link.delay_ps,
            class: LinkClass::Custom,
            lanes,
        };
        for _ in 0..cables {
            let (from, exit) = self.end(cluster, a, wires)?;
            let (to, entry) = self.end(cluster, b, wires)?;
            let link = wires.duplex(from, to, cable);
            let there = Edge { to: b.number, link, exit, entry };
            let opposite = Edge { to: a.number, link: back(link), exit: entry, entry: exit };
            self.edges[a.number as usize].push(there);
            self.edges[b.number as usize].push(opposite);
        }
        Ok(())
    }

    /// Where a lane is plugged in: a switch, or the next NIC of a server.
    fn end(
        &mut self,
        cluster: &Cluster,
        vertex: Vertex,
        wires: &Wires,
    ) -> Result<(NodeId, Option<NicId>), u32> {
        if let Some(node) = vertex.switch {
            return Ok((node, None));
        }
        let used = &mut self.used[vertex.number as usize];
        if *used == cluster.nics_per_server {
            return Err(vertex.number);
        }
        let nic = cluster.nic(ServerId(vertex.number), *used);
        *used += 1;
        Ok((wires.nic(nic), Some(nic)))
    }
}

/// The two ends of a link, if its values are legal.
fn check(
    index: usize,
    link: &GraphLink,
    vertices: &HashMap<&str, Vertex>,
) -> Result<[Vertex; 2], FabricError> {
    let key = |field: &str| format!("fabric.links[{index}].{field}");
    let vertex = |field: &str, name: &String| {
        let found = vertices.get(name.as_str()).copied();
        let value = format!("{name:?}");
        found.ok_or_else(|| FabricError::new(&key(field), value, "no node of that name"))
    };
    let (a, b) = (vertex("a", &link.a)?, vertex("b", &link.b)?);
    if link.a == link.b {
        let value = format!("{:?}", link.b);
        return Err(FabricError::new(&key("b"), value, "must be another node than a"));
    }
    FabricError::check_rate(&key("rate"), link.rate_bps)?;
    FabricError::check_delay(&key("delay"), link.delay_ps)?;
    if !(1..=1 << 16).contains(&link.lanes) {
        return Err(FabricError::new(&key("lanes"), link.lanes, "must be from 1 to 65536"));
    }
    Ok([a, b])
}

/// Nodes by name: servers are numbered first, then switches.
fn vertices<'a>(
    cluster: &Cluster,
    spec: &'a GraphSpec,
    wires: &mut Wires,
) -> Result<HashMap<&'a str, Vertex>, FabricError> {
    let servers = spec.nodes.iter().filter(|node| node.role == Role::GpuServer).count();
    if servers != cluster.servers() as usize {
        let reason = format!(
            "are {} servers of {} GPUs, but fabric.nodes lists {servers} of role \"gpu-server\"",
            cluster.servers(),
            cluster.gpus_per_server
        );
        return Err(FabricError::new("cluster.gpus", cluster.gpus, reason));
    }
    let (mut next_server, mut next_switch) = (0, cluster.servers());
    let mut vertices = HashMap::new();
    for (index, node) in spec.nodes.iter().enumerate() {
        let (counter, switch) = match node.role {
            Role::GpuServer => (&mut next_server, None),
            Role::Switch => (&mut next_switch, Some(wires.switch([node.name.clone()], 0))),
        };
        let vertex = Vertex { number: *counter, switch };
        *counter += 1;
        if vertices.insert(node.name.as_str(), vertex).is_some() {
            let (key, name) = (format!("fabric.nodes[{index}].name"), format!("{:?}", node.name));
            return Err(FabricError::new(&key, name, "another node has that name"));
        }
    }
    Ok(vertices)
}

fn lanes_differ(spec: &GraphSpec, cluster: &Cluster, server: u32, than: &str) -> FabricError {
    let reason = format!(
        "server {:?} has {than} lanes than that; each takes one NIC",
        server_name(spec, server)
    );
    FabricError::new("cluster.nics_per_server", cluster.nics_per_server, reason)
}

fn server_name(spec: &GraphSpec, server: u32) -> &str {
    let mut servers = spec.nodes.iter().filter(|node| node.role == Role::GpuServer);
    servers.nth(server as usize).map_or("", |node| &node.name)
}
