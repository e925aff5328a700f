//! The nodes of a topology and the circuits between them, as a graph.

use lightloom_fabric::railx::{Grid, Neighbours};

/// Nodes and how many circuits join them.
pub(super) struct Graph {
    first: Vec<u32>,
    /// By node: another node, and the circuits between the two.
    pub(super) arcs: Vec<(u32, u32)>,
}

impl Graph {
    pub(super) fn of(grid: Grid, neighbours: &Neighbours) -> Self {
        let mut graph = Graph { first: vec![0], arcs: Vec::new() };
        for node in 0..grid.nodes() {
            let mut next: Vec<u32> = neighbours.ends(node).map(|(.., next)| next).collect();
            next.sort_unstable();
            let same = next.chunk_by(|a, b| a == b);
            graph.arcs.extend(same.map(|circuits| (circuits[0], circuits.len() as u32)));
            graph.first.push(graph.arcs.len() as u32);
        }
        graph
    }
    pub(super) fn nodes(&self) -> u32 {
        self.first.len() as u32 - 1
    }
    pub(super) fn arcs(&self, node: u32) -> &[(u32, u32)] {
        let [from, to] = [node, node + 1].map(|n| self.first[n as usize] as usize);
        &self.arcs[from..to]
    }
}
