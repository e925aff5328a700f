//! Shortest paths between servers over links and circuits that have no tiers: the fewest relays
//! through other servers, then the fewest hops.
//!
//! Modelled: vertices are servers and switches; an edge is a link, and names the NICs at its ends
//! that are servers'. A server may pass traffic on, over its scale-up network, but only where no path
//! avoids it: relaying takes another server's NICs. Every edge has its opposite.
//! Ignored: rates and delays; distances count hops.
//! Checked: against Floyd and Warshall on random graphs; paths by the crate's properties.
//! Distances to a destination are computed when first asked for.

use crate::cluster::Cluster;
use crate::error::RouteError;
use crate::hash::Choice;
use crate::ids::{GpuId, LinkId, NicId, ServerId};
use crate::inside::relay;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;

/// The most paths between two servers that all-to-alls are spread over.
const MOST_PATHS: usize = 16;

/// A link as seen from the vertex it leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) to: u32,
    pub(crate) link: LinkId,
    /// The NIC it leaves from, if from a server.
    pub(crate) exit: Option<NicId>,
    /// The NIC it ends at, if at a server.
    pub(crate) entry: Option<NicId>,
}

/// Relays through servers count this much, hops 1.
const RELAY: u64 = 1 << 32;
const UNREACHABLE: u64 = u64::MAX;

/// A graph of servers, which are the first vertices, and switches.
#[derive(Clone, Debug)]
pub(crate) struct Shortest {
    servers: u32,
    edges: Vec<Vec<Edge>>,
    /// The same by where they lead, so that the last hop is found at once at a switch of many ports.
    by_end: Vec<Vec<Edge>>,
    /// By destination, then by vertex.
    distances: Vec<OnceLock<Box<[u64]>>>,
}

impl Shortest {
    /// `edges` by the vertex they leave; each must have its opposite.
    pub(crate) fn new(servers: u32, edges: Vec<Vec<Edge>>) -> Self {
        let distances = vec![OnceLock::new(); edges.len()];
        let mut by_end = edges.clone();
        by_end.iter_mut().for_each(|edges| edges.sort_by_key(|edge| edge.to));
        Shortest { servers, edges, by_end, distances }
    }

    pub(crate) fn edges(&self, vertex: u32) -> &[Edge] {
        &self.edges[vertex as usize]
    }

    /// The cost from every vertex to `to`.
    fn distances(&self, to: u32) -> &[u64] {
        self.distances[to as usize].get_or_init(|| {
            let mut cost = vec![UNREACHABLE; self.edges.len()];
            cost[to as usize] = 0;
            let mut queue = BinaryHeap::from([(Reverse(0), to)]);
            while let Some((Reverse(so_far), at)) = queue.pop() {
                if so_far > cost[at as usize] {
                    continue;
                }
                let through = so_far + 1 + self.relay_cost(at, to);
                for edge in self.edges(at) {
                    if through < cost[edge.to as usize] {
                        cost[edge.to as usize] = through;
                        queue.push((Reverse(through), edge.to));
                    }
                }
            }
            cost.into()
        })
    }

    fn relay_cost(&self, vertex: u32, destination: u32) -> u64 {
        if vertex < self.servers && vertex != destination { RELAY } else { 0 }
    }

    pub(crate) fn reaches(&self, from: u32, to: u32) -> bool {
        self.distances(to)[from as usize] != UNREACHABLE
    }

    /// The edges between two vertices.
    fn joining(&self, from: u32, to: u32) -> &[Edge] {
        let edges = &self.by_end[from as usize];
        let first = edges.partition_point(|edge| edge.to < to);
        let past = edges.partition_point(|edge| edge.to <= to);
        &edges[first..past]
    }

    /// The first edges of shortest paths.
    fn next(&self, from: u32, to: u32) -> impl Iterator<Item = &Edge> + Clone {
        let cost = self.distances(to);
        let edges = match cost[from as usize] {
            1 => self.joining(from, to),
            _ => self.edges(from),
        };
        edges.iter().filter(move |edge| {
            let rest = cost[edge.to as usize];
            rest != UNREACHABLE && rest + 1 + self.relay_cost(edge.to, to) == cost[from as usize]
        })
    }

    /// One shortest path between vertices, edge by edge: `prefer` picks among equals if it wants
    /// to, the hash otherwise. `None` if there is no path.
    pub(crate) fn walk(
        &self,
        (from, to): (u32, u32),
        mut choice: Choice,
        prefer: impl Fn(&Edge) -> bool,
        mut visit: impl FnMut(&Edge),
    ) -> Option<()> {
        let mut at = from;
        while at != to {
            let next = self.next(at, to);
            let edge = match next.clone().find(|edge| prefer(edge)) {
                Some(edge) => edge,
                None => match next.clone().count() {
                    0 => return None,
                    n => next.clone().nth(choice.of(n))?,
                },
            };
            visit(edge);
            at = edge.to;
        }
        Some(())
    }

    /// One shortest path between GPUs of different servers. With `own_nic` it leaves by the source's
    /// own NIC and ends at the destination's where such a path is among the shortest.
    pub(crate) fn route(
        &self,
        cluster: &Cluster,
        (source, destination): (GpuId, GpuId),
        key: u64,
        own_nic: bool,
        path: &mut Vec<LinkId>,
    ) -> Result<(), RouteError> {
        let (from, to) = (cluster.server_of(source), cluster.server_of(destination));
        let own = [Some(cluster.nic_of(source)), Some(cluster.nic_of(destination))];
        let prefer = |edge: &Edge| own_nic && (edge.exit == own[0] || edge.entry == own[1]);
        let choice = Choice::new(source.0, destination.0, key);
        let mut gpu = source;
        self.walk((from.0, to.0), choice, prefer, |edge| step(cluster, edge, &mut gpu, path))
            .ok_or(RouteError::NoPath { from, to })?;
        relay(gpu, destination, path);
        Ok(())
    }

    /// Shortest paths from server to server, from NIC to NIC, relays included. Where there are more
    /// than [`MOST_PATHS`], they are spread evenly over the choices at every hop.
    pub(crate) fn paths(&self, cluster: &Cluster, ends: (ServerId, ServerId)) -> Vec<Vec<LinkId>> {
        self.up_to(cluster, ends, MOST_PATHS)
    }

    fn up_to(
        &self,
        cluster: &Cluster,
        (from, to): (ServerId, ServerId),
        most: usize,
    ) -> Vec<Vec<LinkId>> {
        let mut all = Vec::new();
        if from != to {
            self.extend(cluster, (from.0, to.0), most, &mut Vec::new(), &mut all);
        }
        all
    }

    fn extend(
        &self,
        cluster: &Cluster,
        (at, to): (u32, u32),
        most: usize,
        so_far: &mut Vec<Edge>,
        all: &mut Vec<Vec<LinkId>>,
    ) {
        if at == to {
            let Some(mut gpu) = so_far.first().and_then(|e| e.exit).map(|n| cluster.gpu_of(n))
            else {
                return;
            };
            let mut path = Vec::with_capacity(3 * so_far.len());
            so_far.iter().for_each(|edge| step(cluster, edge, &mut gpu, &mut path));
            all.push(path);
            return;
        }
        let next: Vec<Edge> = self.next(at, to).copied().collect();
        // Start elsewhere for each pair, so that not all take the first circuits.
        let turn = Choice::new(at, to, 0).of(next.len().max(1));
        for i in 0..next.len().min(most) {
            let edge = next[(i + turn) % next.len()];
            let share = most / next.len() + usize::from(i < most % next.len());
            so_far.push(edge);
            self.extend(cluster, (edge.to, to), share, so_far, all);
            so_far.pop();
        }
    }
}

/// Goes over an edge from where the data is: to the exit's GPU first, if it leaves a server.
fn step(cluster: &Cluster, edge: &Edge, gpu: &mut GpuId, path: &mut Vec<LinkId>) {
    if let Some(nic) = edge.exit {
        relay(*gpu, cluster.gpu_of(nic), path);
    }
    path.push(edge.link);
    if let Some(nic) = edge.entry {
        *gpu = cluster.gpu_of(nic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PER_SERVER: u32 = 64;

    /// Vertices joined both ways; links are numbered in order, a server's NICs taken in order.
    fn graph(servers: u32, vertices: u32, pairs: &[(u32, u32)]) -> (Cluster, Shortest) {
        let cluster = Cluster::of(servers * PER_SERVER, PER_SERVER);
        let (mut edges, mut used) = (vec![vec![]; vertices as usize], vec![0; servers as usize]);
        for (pair, &(a, b)) in pairs.iter().enumerate() {
            let mut nic = |vertex: u32| {
                let local = used.get_mut(vertex as usize)?;
                *local += 1;
                Some(cluster.nic(ServerId(vertex), *local - 1))
            };
            let (exit, entry, link) = (nic(a), nic(b), 2 * pair as u32);
            edges[a as usize].push(Edge { to: b, link: LinkId(link), exit, entry });
            let opposite = Edge { to: a, link: LinkId(link + 1), exit: entry, entry: exit };
            edges[b as usize].push(opposite);
        }
        (cluster, Shortest::new(servers, edges))
    }

    /// (relays, hops) between all vertices, by definition.
    fn floyd_warshall(servers: u32, vertices: u32, pairs: &[(u32, u32)]) -> Vec<Vec<u64>> {
        let n = vertices as usize;
        let mut cost = vec![vec![UNREACHABLE; n]; n];
        (0..n).for_each(|v| cost[v][v] = 0);
        for &(a, b) in pairs {
            (cost[a as usize][b as usize], cost[b as usize][a as usize]) = (1, 1);
        }
        for through in 0..n {
            let relay = if (through as u32) < servers { RELAY } else { 0 };
            for a in (0..n).filter(|&a| a != through) {
                for b in (0..n).filter(|&b| b != through && b != a) {
                    let parts = cost[a][through].checked_add(cost[through][b]);
                    let whole = parts.and_then(|parts| parts.checked_add(relay));
                    cost[a][b] = cost[a][b].min(whole.unwrap_or(UNREACHABLE));
                }
            }
        }
        cost
    }

    fn pairs(vertices: u32) -> impl Strategy<Value = Vec<(u32, u32)>> {
        let pair = (0..vertices, 0..vertices).prop_filter("two ends", |(a, b)| a != b);
        prop::collection::vec(pair, 0..24)
    }

    proptest! {
        #[test]
        fn distances_are_those_of_the_definition(pairs in pairs(9), servers in 1u32..10) {
            let (_, graph) = graph(servers, 9, &pairs);
            let expected = floyd_warshall(servers, 9, &pairs);
            for to in 0..9 {
                for from in 0..9 {
                    prop_assert_eq!(
                        graph.distances(to)[from as usize],
                        expected[from as usize][to as usize]
                    );
                }
            }
        }

        /// Walks are as long as the distance says; listed paths are distinct, at most as many as
        /// asked for, and every one if there are no more.
        #[test]
        fn paths_are_shortest_distinct_and_complete(pairs in pairs(7)) {
            let (cluster, graph) = graph(7, 7, &pairs);
            for (from, to) in (0..7).flat_map(|a| (0..7).map(move |b| (a, b))) {
                let cost = graph.distances(to)[from as usize];
                let mut hops = 0;
                let choice = Choice::new(from, to, 9);
                let found = graph.walk((from, to), choice, |_| false, |_| hops += 1);
                prop_assert_eq!(found.is_some(), cost != UNREACHABLE);
                if cost != UNREACHABLE {
                    prop_assert_eq!(hops, cost % RELAY);
                }
                let all = graph.up_to(&cluster, (ServerId(from), ServerId(to)), 1 << 20);
                let some = graph.up_to(&cluster, (ServerId(from), ServerId(to)), 16);
                prop_assert_eq!(all.len() as u64, count(&graph, from, to));
                prop_assert!(some.len() <= 16.min(all.len()));
                prop_assert!(some.is_empty() == all.is_empty());
                prop_assert!(some.iter().all(|path| all.contains(path)));
                let distinct: std::collections::HashSet<_> = all.iter().collect();
                prop_assert_eq!(distinct.len(), all.len());
            }
        }
    }

    /// How many shortest paths there are; none from a server to itself.
    fn count(graph: &Shortest, from: u32, to: u32) -> u64 {
        fn through(graph: &Shortest, from: u32, to: u32) -> u64 {
            match from == to {
                true => 1,
                false => graph.next(from, to).map(|edge| through(graph, edge.to, to)).sum(),
            }
        }
        if from == to { 0 } else { through(graph, from, to) }
    }

    /// Server 1 lies between 0 and 2 in two hops, switches 3 and 4 in three: the switches it is.
    #[test]
    fn a_server_relays_only_if_it_must() {
        let detour = [(0, 1), (1, 2), (0, 3), (3, 4), (4, 2)];
        let (cluster, graph) = graph(3, 5, &detour);
        let mut path = vec![];
        let ends = (GpuId(0), GpuId(2 * PER_SERVER));
        graph.route(&cluster, ends, 0, false, &mut path).expect("joined");
        let network: Vec<u32> = path.iter().map(|link| link.0).filter(|&l| l < 10).collect();
        assert!(network.ends_with(&[4, 6, 8]), "{path:?}");
    }
}
