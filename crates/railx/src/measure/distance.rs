//! How far nodes are apart, by breadth-first search.
//!
//! All rows of a product have the same rings, and all columns: the graph is the Cartesian product of
//! a row and a column, and distances in those add up.

use super::graph::Graph;
use crate::topology::{Form, Topology};
use lightloom_fabric::railx::{Axis, Grid, Layout, Neighbours};

/// The most circuits on a shortest path between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diameter {
    /// Hops; `None` if some nodes do not reach each other.
    pub hops: Option<u32>,
    /// Whether it was sought from every node; if not, from some, and it is at least `hops`.
    pub exact: bool,
}

/// Arcs that are followed at most; beyond, fewer nodes are sources.
const WORK: u64 = 1_000_000_000;

impl Diameter {
    pub(super) fn of(graph: &Graph, topology: &Topology) -> Self {
        if topology.form == Form::Dragonfly {
            return Self::searched(graph);
        }
        let [x, y] = [Axis::X, Axis::Y].map(|axis| Self::searched(&line(topology, axis)));
        let hops = x.hops.zip(y.hops).map(|(x, y)| x + y);
        Diameter { hops, exact: x.exact && y.exact }
    }

    pub(super) fn searched(graph: &Graph) -> Self {
        let nodes = u64::from(graph.nodes());
        let sources = (WORK / (graph.arcs.len() as u64 + nodes)).clamp(1, nodes);
        let mut distance = vec![u32::MAX; nodes as usize];
        let mut queue = Vec::with_capacity(nodes as usize);
        let mut hops = 0;
        for source in (0..sources).map(|number| (number * nodes / sources) as u32) {
            let (farthest, reached) = search(graph, source, &mut distance, &mut queue);
            hops = hops.max(farthest);
            if reached < graph.nodes() {
                return Diameter { hops: None, exact: true };
            }
        }
        Diameter { hops: Some(hops), exact: sources == nodes }
    }
}

/// The first line of an axis.
fn line(topology: &Topology, axis: Axis) -> Graph {
    let (whole, grid) = (&topology.layout, topology.layout.grid);
    let grid = match axis {
        Axis::X => Grid { rows: 1, ..grid },
        Axis::Y => Grid { columns: 1, ..grid },
    };
    let mut layout = Layout::dark(grid);
    for rail in 0..grid.rails() {
        for ring in whole.rings(axis, 0, rail) {
            layout.add(axis, 0, rail, ring.clone());
        }
    }
    Graph::of(grid, &Neighbours::of(&layout))
}

/// The largest distance from `source`, and how many nodes it reaches.
fn search(graph: &Graph, source: u32, distance: &mut [u32], queue: &mut Vec<u32>) -> (u32, u32) {
    distance.fill(u32::MAX);
    distance[source as usize] = 0;
    queue.clear();
    queue.push(source);
    let mut next = 0;
    while next < queue.len() && queue.len() < distance.len() {
        let node = queue[next];
        next += 1;
        for &(to, _) in graph.arcs(node) {
            if distance[to as usize] == u32::MAX {
                distance[to as usize] = distance[node as usize] + 1;
                queue.push(to);
            }
        }
    }
    let last = queue[queue.len() - 1];
    (distance[last as usize], queue.len() as u32)
}
