//! Two binary trees at once (Sanders, Speck and Träff 2009), in chunks.
//!
//! Both trees have node 0 as their root. Every other node has children in one of them at most and is
//! a leaf of the other, so each tree can carry half of the buffer. Edges have two colors such that no
//! node sends or receives twice in a step of one color; steps take the colors in turn, and chunks
//! follow each other up (and down) the trees, each as early as the colors allow.
//!
//! The first tree is NCCL's: a node's parent differs from it in the lowest bits, odd nodes are leaves.
//! The second is the first one shifted by a node (the authors shift or mirror). Chunks are as large as
//! NCCL's for two channels: halved from 2 MiB as long as there are few of them for the depth; beyond
//! 256 of them a tree, 1 GiB in all, they get larger instead. An all-reduce reduces first and
//! broadcasts then: doing both at once would need two pairings in one step.

use super::plug::{Primitive, Program, Registered};
use super::steps::{Move, NO_PEER, Pairing, Steps, block};
use lightloom_units::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

const SOURCE: Option<&str> = Some("Sanders, Speck and Träff 2009");

pub(super) static ALGORITHMS: &[Registered] = &[
    Registered::new(
        "double-tree-allreduce",
        Primitive::AllReduce,
        "Reduced up two binary trees and broadcast down them, in chunks",
        SOURCE,
        |nodes, size, _| Arc::new(Trees::new(nodes, size, true)),
    ),
    Registered::new(
        "double-tree-broadcast",
        Primitive::Broadcast,
        "Broadcast down two binary trees, in chunks",
        SOURCE,
        |nodes, size, _| Arc::new(Trees::new(nodes, size, false)),
    ),
];

/// The most chunks of a tree.
const MOST_CHUNKS: u64 = 256;
/// Of edges, and so of steps.
const COLORS: u32 = 2;

/// Both trees of a collective, and what happens when.
#[derive(Debug)]
struct Trees {
    nodes: u32,
    size: Bytes,
    chunks: u32,
    /// Of the first tree, by child; then of the second.
    edges: Vec<Edge>,
    /// Edges to the children that a node has in both trees.
    of_parent: Vec<Vec<usize>>,
    /// Whether up, and the step of that half; steps in which nothing moves are left out.
    steps: Vec<(bool, u32)>,
}

/// `up` and `down` are the steps, counted within their half, that carry the first chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    tree: u32,
    child: u32,
    parent: u32,
    color: u32,
    up: u32,
    down: u32,
}

/// The parent of a node, not 0, in the first tree of `n` nodes.
fn parent(node: u32, n: u32) -> u32 {
    let bit = node & node.wrapping_neg();
    let above = (node ^ bit) | bit << 1;
    if above < n { above } else { node ^ bit }
}

/// Chunks of each tree.
fn chunks(nodes: u32, size: Bytes) -> u64 {
    let half = size.get().div_ceil(2);
    let depth = u64::from(nodes.ilog2());
    let mut chunk: u64 = 2 << 20;
    for (times, least) in [(8, 128 << 10), (4, 64 << 10), (1, 32 << 10)] {
        while half / chunk < depth * times && chunk > least {
            chunk /= 2;
        }
    }
    half.div_ceil(chunk).min(MOST_CHUNKS)
}

impl Program for Trees {
    /// Blocks of the buffer: each tree's chunks.
    fn blocks(&self) -> u64 {
        2 * u64::from(self.chunks)
    }

    fn steps(&self, steps: &mut Steps) {
        for &(up, step) in &self.steps {
            let mut peers = vec![NO_PEER; self.nodes as usize];
            for edge in self.edges.iter().filter(|edge| edge.color == step % COLORS) {
                let (from, to) = edge.ends(up);
                peers[from as usize] = to;
            }
            steps.push(Pairing::Map(peers), block(self.size, self.blocks()));
        }
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let (up, step) = self.steps[step];
        let sends = match (up, node) {
            (true, 0) => Vec::new(),
            (true, _) => vec![self.to(0, node), self.to(1, node)],
            (false, _) => self.of_parent[node as usize].clone(),
        };
        let blocks = sends.into_iter().filter_map(|e| self.chunk(self.edges[e], up, step));
        Move { blocks: blocks.collect(), reduce: up }
    }
}

impl Trees {
    /// To broadcast, or to reduce and broadcast.
    fn new(nodes: u32, size: Bytes, reduce: bool) -> Self {
        let mut trees = Trees {
            nodes,
            size,
            chunks: chunks(nodes, size) as u32,
            edges: Vec::with_capacity(2 * nodes as usize),
            of_parent: vec![Vec::new(); nodes as usize],
            steps: Vec::new(),
        };
        // Shifted, nodes 1 to n - 1 are 2 to n - 1 and 1.
        let shifted = |node: u32| if node == 0 { 0 } else { node % (nodes - 1) + 1 };
        let back = |node: u32| if node == 1 { nodes - 1 } else { node - 1 };
        for child in 1..nodes {
            trees.join(0, child, parent(child, nodes));
        }
        for child in 1..nodes {
            trees.join(1, child, shifted(parent(back(child), nodes)));
        }
        trees.color();
        trees.time();
        for up in if reduce { &[true, false][..] } else { &[false] } {
            let busy = trees.busy(*up);
            trees.steps.extend(busy.into_iter().map(|step| (*up, step)));
        }
        trees
    }

    /// The block that an edge carries in a step.
    fn chunk(&self, edge: Edge, up: bool, step: u32) -> Option<u64> {
        let since = step.checked_sub(edge.begins(up))?;
        let (chunk, off) = (since / COLORS, since % COLORS);
        let carries = off == 0 && chunk < self.chunks;
        carries.then(|| u64::from(edge.tree * self.chunks + chunk))
    }

    fn join(&mut self, tree: u32, child: u32, parent: u32) {
        self.of_parent[parent as usize].push(self.edges.len());
        self.edges.push(Edge { tree, child, parent, color: NO_PEER, up: 0, down: 0 });
    }

    /// The edge of a tree to a node that is not the root.
    fn to(&self, tree: u32, child: u32) -> usize {
        (tree * (self.nodes - 1) + child - 1) as usize
    }

    /// Two edges are at odds if they share a child or a parent. A node is a child twice and a parent
    /// twice at most, so these chains alternate between the two, and those that close have even
    /// length: two colors are enough.
    fn color(&mut self) {
        for first in 0..self.edges.len() {
            if self.edges[first].color != NO_PEER {
                continue;
            }
            self.edges[first].color = 0;
            let mut open = vec![first];
            while let Some(e) = open.pop() {
                let Edge { tree, child, parent, color, .. } = self.edges[e];
                let twin = [self.to(1 - tree, child)];
                for &other in twin.iter().chain(&self.of_parent[parent as usize]) {
                    if self.edges[other].color == NO_PEER {
                        self.edges[other].color = 1 - color;
                        open.push(other);
                    }
                }
            }
        }
    }

    /// When each edge carries its first chunk: as soon as that is there, in a step of its color.
    fn time(&mut self) {
        let next = |after: u32, color: u32| after + (after + color) % COLORS;
        for tree in 0..2 {
            // Edges, parents before children.
            let mut order = Vec::with_capacity(self.nodes as usize);
            let mut open = VecDeque::from([(0, 0)]);
            while let Some((node, there)) = open.pop_front() {
                for &e in &self.of_parent[node as usize] {
                    if self.edges[e].tree == tree {
                        let down = next(there, self.edges[e].color);
                        self.edges[e].down = down;
                        open.push_back((self.edges[e].child, down + 1));
                        order.push(e);
                    }
                }
            }
            let mut complete = vec![0; self.nodes as usize];
            for e in order.into_iter().rev() {
                let Edge { child, parent, color, .. } = self.edges[e];
                let up = next(complete[child as usize], color);
                self.edges[e].up = up;
                let above = &mut complete[parent as usize];
                *above = (up + 1).max(*above);
            }
        }
    }

    /// Steps of one half in which some edge carries a chunk.
    fn busy(&self, up: bool) -> Vec<u32> {
        let last = (self.chunks - 1) * COLORS;
        let end = self.edges.iter().map(|edge| edge.begins(up) + last + 1).max().unwrap_or(0);
        let mut busy = vec![false; end as usize];
        // Edges of a color that begin in the same step do the same.
        let mut begins: Vec<u32> = self.edges.iter().map(|edge| edge.begins(up)).collect();
        begins.sort_unstable();
        begins.dedup();
        for first in begins {
            (first..=first + last)
                .step_by(COLORS as usize)
                .for_each(|step| busy[step as usize] = true);
        }
        (0..end).filter(|&step| busy[step as usize]).collect()
    }
}

impl Edge {
    fn begins(&self, up: bool) -> u32 {
        if up { self.up } else { self.down }
    }

    /// Who sends, and who receives.
    fn ends(&self, up: bool) -> (u32, u32) {
        if up { (self.child, self.parent) } else { (self.parent, self.child) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_children_in_one_tree_and_are_few_levels_deep() {
        for n in (2..=130).chain([255, 256, 1000, 4096]) {
            let trees = Trees::new(n, Bytes::new(1 << 20), true);
            assert!(trees.edges.iter().all(|edge| edge.color < COLORS));
            for node in 1..n {
                let children = &trees.of_parent[node as usize];
                assert!(children.len() <= 2, "{n}: {node} has {children:?}");
                let of = |tree| children.iter().any(|&e| trees.edges[e].tree == tree);
                assert!(!(of(0) && of(1)), "{n}: {node} is inside both trees");
            }
            // An edge may have to wait a step for its color.
            let most = 2 * (n.ilog2() + 1);
            for edge in &trees.edges {
                assert!(edge.up <= most && edge.down <= most, "{n}: {edge:?}");
            }
        }
    }
}
