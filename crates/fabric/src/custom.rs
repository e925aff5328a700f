//! Any graph: named servers and switches, and duplex links between them.
//!
//! Modelled: the servers are the cluster's, in the order listed. Each lane of a link at a server takes
//! the server's next NIC, so a server's lanes must be as many as its NICs; lanes between switches are
//! a bundle that shares its load perfectly. A flow takes one shortest path, by a hash among equals;
//! its own NIC, and the destination's, where they are on one. Servers pass on the traffic of others
//! only where no path avoids it.
//! Bill: a NIC for each lane at a server, a switch port for each at a switch, a transceiver at both
//! ends. Ignored: tiers (no link is known never to bind), passive copper.
//! Checked: routes by the crate's properties; each rule by a graph that breaks it.

use crate::hash::Choice;
use crate::shortest::{Edge, Shortest};
use crate::wires::{Cable, LinkClass, NodeKind, Wires, back};
use crate::{
    Bill, Cluster, FabricError, GpuId, GraphSpec, Item, LinkId, NicId, NodeId, Role, RouteError,
    ServerId,
};
use std::collections::HashMap;

/// A graph, and where its NICs lead.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    graph: Shortest,
    /// By NIC.
    edges: Vec<Edge>,
}

/// A vertex while the graph is wired.
#[derive(Clone, Copy)]
struct Vertex {
    number: u32,
    /// The node, of a switch; none of a server, whose NICs are the nodes.
    switch: Option<NodeId>,
}

impl Custom {
    pub(crate) fn build(
        cluster: &Cluster,
        spec: &GraphSpec,
        wires: &mut Wires,
        bill: &mut Bill,
    ) -> Result<Self, FabricError> {
        let vertices = vertices(cluster, spec, wires)?;
        let mut edges: Vec<Vec<Edge>> = vec![vec![]; spec.nodes.len()];
        let mut used = vec![0; cluster.servers() as usize];
        for (index, link) in spec.links.iter().enumerate() {
            let key = |field: &str| format!("fabric.links[{index}].{field}");
            let vertex = |field: &str, name: &String| {
                let found = vertices.get(name.as_str()).copied();
                let value = format!("{name:?}");
                found.ok_or_else(|| FabricError::new(&key(field), value, "no node of that name"))
            };
            let (a, b) = (vertex("a", &link.a)?, vertex("b", &link.b)?);
            if a.number == b.number {
                let value = format!("{:?}", link.b);
                return Err(FabricError::new(
                    &key("b"),
                    value,
                    "must be another node than a",
                ));
            }
            FabricError::check_rate(&key("rate"), link.rate_bps)?;
            FabricError::check_delay(&key("delay"), link.delay_ps)?;
            if !(1..=1 << 16).contains(&link.lanes) {
                let allowed = "must be from 1 to 65536";
                return Err(FabricError::new(&key("lanes"), link.lanes, allowed));
            }
            for end in [a, b] {
                let item = if end.switch.is_some() {
                    Item::SwitchPort
                } else {
                    Item::Nic
                };
                bill.add(item, link.rate_bps, u64::from(link.lanes));
                bill.add(Item::Transceiver, link.rate_bps, u64::from(link.lanes));
            }
            // Lanes between switches are one bundle, lanes at a server one NIC each.
            let bundle = a.switch.is_some() && b.switch.is_some();
            let (cables, lanes) = if bundle {
                (1, link.lanes)
            } else {
                (link.lanes, 1)
            };
            let cable = Cable {
                rate: link.rate_bps * u64::from(lanes),
                delay: link.delay_ps,
                class: LinkClass::Custom,
                lanes,
            };
            for _ in 0..cables {
                let mut end = |vertex: Vertex| -> Result<(NodeId, Option<NicId>), FabricError> {
                    if let Some(node) = vertex.switch {
                        return Ok((node, None));
                    }
                    let local = &mut used[vertex.number as usize];
                    if *local == cluster.nics_per_server {
                        return Err(lanes_differ(spec, cluster, vertex.number, "more"));
                    }
                    *local += 1;
                    let nic = cluster.nic(ServerId(vertex.number), *local - 1);
                    Ok((wires.nic(nic), Some(nic)))
                };
                let ((from, exit), (to, entry)) = (end(a)?, end(b)?);
                let there = wires.duplex(from, to, cable);
                let leave = |from: Vertex, edge: Edge, edges: &mut Vec<Vec<Edge>>| {
                    edges[from.number as usize].push(edge);
                };
                leave(
                    a,
                    Edge {
                        to: b.number,
                        link: there,
                        exit,
                        entry,
                    },
                    &mut edges,
                );
                let link = back(there);
                leave(
                    b,
                    Edge {
                        to: a.number,
                        link,
                        exit: entry,
                        entry: exit,
                    },
                    &mut edges,
                );
            }
        }
        if let Some(server) = used.iter().position(|&used| used < cluster.nics_per_server) {
            return Err(lanes_differ(spec, cluster, server as u32, "fewer"));
        }
        // A server's edges were added in the order of its NICs.
        let of_nics = edges[..used.len()].iter().flatten().copied().collect();
        let custom = Custom {
            graph: Shortest::new(cluster.servers(), edges),
            edges: of_nics,
        };
        match (1..cluster.servers()).find(|&server| !custom.graph.reaches(server, 0)) {
            None => Ok(custom),
            Some(server) => {
                let (a, b) = (server_name(spec, 0), server_name(spec, server));
                let reason = format!("no path joins servers {a:?} and {b:?}");
                let count = format!("{} links", spec.links.len());
                Err(FabricError::new("fabric.links", count, reason))
            }
        }
    }

    /// One shortest path between GPUs of different servers.
    pub(crate) fn route(
        &self,
        cluster: &Cluster,
        ends: (GpuId, GpuId),
        key: u64,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        self.graph.route(cluster, ends, key, true, path)
    }

    /// One shortest path that leaves by `source` and ends at `destination`.
    pub(crate) fn nic_route(
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
        let (from, to) = (
            cluster.server_of_nic(source),
            cluster.server_of_nic(destination),
        );
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
}

/// Nodes by name: servers are numbered first, then switches.
fn vertices<'a>(
    cluster: &Cluster,
    spec: &'a GraphSpec,
    wires: &mut Wires,
) -> Result<HashMap<&'a str, Vertex>, FabricError> {
    let servers = spec
        .nodes
        .iter()
        .filter(|node| node.role == Role::GpuServer)
        .count();
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
            Role::Switch => (
                &mut next_switch,
                Some(wires.node(NodeKind::Switch { tier: 0 })),
            ),
        };
        let vertex = Vertex {
            number: *counter,
            switch,
        };
        *counter += 1;
        if vertices.insert(node.name.as_str(), vertex).is_some() {
            let (key, name) = (
                format!("fabric.nodes[{index}].name"),
                format!("{:?}", node.name),
            );
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
    let mut servers = spec
        .nodes
        .iter()
        .filter(|node| node.role == Role::GpuServer);
    servers.nth(server as usize).map_or("", |node| &node.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fabric, FabricSpec, GraphLink, GraphNode, build};
    use lightloom_units::{BitRate, Time};

    fn link(a: &str, b: &str, lanes: u32) -> GraphLink {
        let (rate_bps, delay_ps) = (BitRate::from_gbps(100), Time::from_us(1));
        GraphLink {
            a: a.into(),
            b: b.into(),
            rate_bps,
            delay_ps,
            lanes,
        }
    }

    /// Two servers of two NICs on a switch each, the switches joined by two lanes.
    fn dumbbell() -> GraphSpec {
        let node = |name: &str, role| GraphNode {
            name: name.into(),
            role,
        };
        GraphSpec {
            nodes: vec![
                node("left", Role::Switch),
                node("a", Role::GpuServer),
                node("b", Role::GpuServer),
                node("right", Role::Switch),
            ],
            links: vec![
                link("a", "left", 2),
                link("left", "right", 2),
                link("right", "b", 2),
            ],
        }
    }

    fn with(spec: GraphSpec, gpus: u32) -> Result<Fabric, FabricError> {
        build(&Cluster::of(gpus, 2), &FabricSpec::Graph(spec), 1, &[])
    }

    #[test]
    fn a_dumbbell_is_wired_lane_by_lane() {
        let fabric = with(dumbbell(), 4).expect("valid");
        let custom = |l: &&crate::Link| l.class == LinkClass::Custom;
        let rates: Vec<u64> = fabric
            .links()
            .iter()
            .filter(custom)
            .map(|l| l.rate.bps())
            .collect();
        let (one, two) = (100_000_000_000, 200_000_000_000);
        assert_eq!(rates, [one, one, one, one, two, two, one, one, one, one]);
        let counts: Vec<_> = fabric.bill().lines().map(|l| (l.item, l.count)).collect();
        assert_eq!(
            counts,
            [
                (Item::Nic, 4),
                (Item::Transceiver, 12),
                (Item::SwitchPort, 8)
            ]
        );
    }

    /// GPU 1 leaves by its own NIC and arrives at the destination's own, for every key.
    #[test]
    fn own_nics_are_preferred() {
        let fabric = with(dumbbell(), 4).expect("valid");
        for key in 0..64 {
            let mut path = vec![];
            fabric
                .route(GpuId(1), GpuId(2), key, &mut path)
                .expect("joined");
            assert_eq!(path.len(), 3);
            assert_eq!(fabric.link(path[0]).from, fabric.nic_node(NicId(1)));
            assert_eq!(fabric.link(path[2]).to, fabric.nic_node(NicId(2)));
        }
    }

    /// Servers without switches: neighbours talk, others go through them, NICs reach only the NIC
    /// at the other end of their cable.
    #[test]
    fn a_ring_of_servers_relays() {
        let names = ["a", "b", "c", "d"];
        let node = |name: &&str| GraphNode {
            name: (*name).into(),
            role: Role::GpuServer,
        };
        let links = (0..4)
            .map(|i| link(names[i], names[(i + 1) % 4], 1))
            .collect();
        let spec = GraphSpec {
            nodes: names.iter().map(node).collect(),
            links,
        };
        let fabric = with(spec, 8).expect("valid");
        let mut path = vec![];
        fabric
            .route(GpuId(0), GpuId(4), 0, &mut path)
            .expect("joined");
        let hops = path
            .iter()
            .filter(|&&l| fabric.link(l).class == LinkClass::Custom)
            .count();
        assert_eq!(hops, 2);
        path.clear();
        assert_eq!(fabric.nic_route(NicId(0), NicId(2), 0, &mut path), Ok(()));
        assert_eq!(path.len(), 1);
        let (from, to) = (ServerId(0), ServerId(2));
        let none = Err(RouteError::NoPath { from, to });
        assert_eq!(fabric.nic_route(NicId(0), NicId(4), 0, &mut path), none);
        assert_eq!(path.len(), 1, "nothing is left behind");
    }

    #[test]
    fn each_rule_has_a_message() {
        type Change = fn(&mut GraphSpec);
        let cases: [(Change, &str); 10] = [
            (
                |g| g.links[1].a = "x".into(),
                "fabric.links[1].a = \"x\": no node of that name",
            ),
            (
                |g| g.links[1].b = "left".into(),
                "fabric.links[1].b = \"left\": must be another",
            ),
            (
                |g| g.links[0].lanes = 0,
                "fabric.links[0].lanes = 0: must be from 1 to 65536",
            ),
            (
                |g| g.links[0].rate_bps = BitRate::from_bps(1),
                "fabric.links[0].rate = 1 bps: must",
            ),
            (
                |g| g.links[0].delay_ps = Time::MAX,
                "fabric.links[0].delay = ",
            ),
            (
                |g| g.nodes[3].name = "a".into(),
                "fabric.nodes[3].name = \"a\": another node has",
            ),
            (
                |g| g.nodes[3].role = Role::GpuServer,
                "cluster.gpus = 4: are 2 servers of 2 GPUs, ",
            ),
            (
                |g| g.links[0].lanes = 1,
                "cluster.nics_per_server = 2: server \"a\" has fewer lanes",
            ),
            (
                |g| g.links[2].lanes = 3,
                "cluster.nics_per_server = 2: server \"b\" has more lanes",
            ),
            (
                |g| drop(g.links.remove(1)),
                "fabric.links = 2 links: no path joins servers \"a\"",
            ),
        ];
        for (change, start) in cases {
            let mut spec = dumbbell();
            change(&mut spec);
            let message = with(spec, 4).expect_err(start).to_string();
            assert!(message.starts_with(start), "{message}");
        }
    }
}
