//! Two binary trees at once (Sanders, Speck and Träff 2009), in chunks.
//!
//! Both trees have node 0 as their root. Every other node has children in one of them at most and is
//! a leaf of the other, so each tree can carry half of the buffer. Edges have two colors such that no
//! node sends or receives twice over those of one color. In a round every edge carries a chunk, up
//! and, in an all-reduce, down as well: up to four steps that run together, a color and a direction
//! each. Chunks follow each other up and down the trees, and go down as soon as the root has them.
//! Where both halves are in turn, it is two steps: the same messages in another order. The steps of one
//! round come in the reverse order of the next, so that whoever takes them one after the other changes
//! pairings less often.
//!
//! The first tree is NCCL's: a node's parent differs from it in the lowest bits, odd nodes are leaves.
//! The second is the first one shifted by a node (the authors shift or mirror). Chunks are as large as
//! NCCL's for two channels: halved from 2 MiB as long as there are few of them for the depth; beyond
//! 256 of them a tree, 1 GiB in all, they get larger instead.

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
        "Reduced up two binary trees and broadcast down them at once, in chunks",
        SOURCE,
        |nodes, size, _| Arc::new(Trees::new(nodes, size, Halves::Both)),
    )
    .with_orders(&["phased-double-tree-allreduce"]),
    Registered::new(
        "phased-double-tree-allreduce",
        Primitive::AllReduce,
        "Reduced up two binary trees, then broadcast down them, in chunks",
        SOURCE,
        |nodes, size, _| Arc::new(Trees::new(nodes, size, Halves::InTurn)),
    ),
    Registered::new(
        "double-tree-broadcast",
        Primitive::Broadcast,
        "Broadcast down two binary trees, in chunks",
        SOURCE,
        |nodes, size, _| Arc::new(Trees::new(nodes, size, Halves::Down)),
    ),
];

/// The most chunks of a tree.
const MOST_CHUNKS: u64 = 256;
/// Of edges.
const COLORS: u32 = 2;

/// What is done of reducing and broadcasting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halves {
    /// Both at once.
    Both,
    /// One after the other: half the pairings at a time, for few planes.
    InTurn,
    /// Broadcasting only.
    Down,
}

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
    steps: Vec<TreeStep>,
}

/// What edges of a color carry in a round, in one direction.
#[derive(Clone, Copy, Debug)]
struct TreeStep {
    round: u32,
    up: bool,
    color: u32,
}

/// `up` and `down` are the rounds that carry the first chunk.
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
        let mut before = None;
        for &TreeStep { round, up, color } in &self.steps {
            let mut peers = vec![NO_PEER; self.nodes as usize];
            for edge in self.edges.iter().filter(|edge| edge.color == color) {
                let (from, to) = edge.ends(up);
                peers[from as usize] = to;
            }
            let together = before.replace(round) == Some(round);
            steps.add(Pairing::Map(peers), block(self.size, self.blocks()), together);
        }
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let TreeStep { round, up, color } = self.steps[step];
        let sends = match (up, node) {
            (true, 0) => Vec::new(),
            (true, _) => vec![self.to(0, node), self.to(1, node)],
            (false, _) => self.of_parent[node as usize].clone(),
        };
        let edges = sends.into_iter().map(|e| self.edges[e]).filter(|edge| edge.color == color);
        Move { blocks: edges.filter_map(|edge| self.chunk(edge, up, round)).collect(), reduce: up }
    }
}

impl Trees {
    fn new(nodes: u32, size: Bytes, halves: Halves) -> Self {
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
        trees.time(halves);
        let begins = |edge: &Edge| edge.down.max(edge.up);
        let rounds = trees.edges.iter().map(begins).max().unwrap_or(0) + trees.chunks;
        let directions = if halves == Halves::Down { &[false][..] } else { &[true, false] };
        for round in 0..rounds {
            let of_up = |&up| (0..COLORS).map(move |color| TreeStep { round, up, color });
            let mut steps: Vec<TreeStep> = directions.iter().flat_map(of_up).collect();
            steps.retain(|step| trees.moving(*step));
            if round % 2 == 1 {
                steps.reverse();
            }
            trees.steps.extend(steps);
        }
        trees
    }

    fn moving(&self, TreeStep { round, up, color }: TreeStep) -> bool {
        self.edges.iter().any(|e| e.color == color && self.chunk(*e, up, round).is_some())
    }

    /// The block that an edge carries in a round.
    fn chunk(&self, edge: Edge, up: bool, round: u32) -> Option<u64> {
        let chunk = round.checked_sub(edge.begins(up)).filter(|&chunk| chunk < self.chunks)?;
        Some(u64::from(edge.tree * self.chunks + chunk))
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

    /// When each edge carries its first chunk: as soon as that is there; at the root of an all-reduce,
    /// once it has been reduced, or once all have.
    fn time(&mut self, halves: Halves) {
        let orders = [0, 1].map(|tree| self.parents_first(tree));
        let root = orders.each_ref().map(|order| self.time_up(order));
        let reduced = root[0].max(root[1]);
        for (order, root) in orders.iter().zip(root) {
            let mut there = vec![0; self.nodes as usize];
            there[0] = match halves {
                Halves::Both => root,
                // With the last chunk, of either tree.
                Halves::InTurn => reduced + self.chunks - 1,
                Halves::Down => 0,
            };
            for &e in order {
                let Edge { child, parent, .. } = self.edges[e];
                self.edges[e].down = there[parent as usize];
                there[child as usize] = self.edges[e].down + 1;
            }
        }
    }

    /// Edges of a tree, those to parents before those to their children.
    fn parents_first(&self, tree: u32) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.nodes as usize);
        let mut open = VecDeque::from([0]);
        while let Some(node) = open.pop_front() {
            for &e in &self.of_parent[node as usize] {
                if self.edges[e].tree == tree {
                    open.push_back(self.edges[e].child);
                    order.push(e);
                }
            }
        }
        order
    }

    /// When each edge of a tree carries its first chunk up; when the root has that.
    fn time_up(&mut self, order: &[usize]) -> u32 {
        let mut complete = vec![0; self.nodes as usize];
        for &e in order.iter().rev() {
            let Edge { child, parent, .. } = self.edges[e];
            let up = complete[child as usize];
            self.edges[e].up = up;
            let above = &mut complete[parent as usize];
            *above = (up + 1).max(*above);
        }
        complete[0]
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
            let trees = Trees::new(n, Bytes::new(1 << 20), Halves::Both);
            assert!(trees.edges.iter().all(|edge| edge.color < COLORS));
            for node in 1..n {
                let children = &trees.of_parent[node as usize];
                assert!(children.len() <= 2, "{n}: {node} has {children:?}");
                let of = |tree| children.iter().any(|&e| trees.edges[e].tree == tree);
                assert!(!(of(0) && of(1)), "{n}: {node} is inside both trees");
            }
            let depth = n.ilog2() + 1;
            for edge in &trees.edges {
                assert!(edge.up <= depth && edge.down <= 2 * depth, "{n}: {edge:?}");
            }
        }
    }
}
