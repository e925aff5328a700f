//! Two binary trees at once (Sanders, Speck and Träff 2009), in chunks.
//!
//! Every node is inside one of the trees at most and a leaf of the other, so each tree can carry half of
//! the buffer. Edges have two colours such that no node sends or receives twice in a step of one
//! colour; steps take the colours in turn, and chunks follow each other up (and down) the trees. The
//! trees and the size of chunks are as NCCL publishes them: a node's parent differs in its lowest
//! bit, the second tree is the first one mirrored (shifted, for odd N); a chunk is halved from 2 MiB as
//! long as there are few of them for the depth. An all-reduce reduces first and broadcasts then,
//! as authors do; overlapping the two would need two configurations in one step.

use super::{Collective, Move, NO_PEER, Pairing, Steps, block};
use lightloom_units::Bytes;

/// More chunks of a tree than this are not made: they get larger.
const MOST_CHUNKS: u64 = 256;

/// An edge of a tree, of one colour. `up` and `down` are the first steps, counted within its half,
/// that carry a chunk up and down it.
#[derive(Clone, Copy, Debug)]
struct Edge {
    tree: u64,
    child: u32,
    parent: u32,
    colour: u32,
    up: u32,
    down: u32,
}

/// The parent of `index` in a tree of `n` with root 0.
fn parent(index: u32, n: u32) -> Option<u32> {
    (index > 0).then(|| {
        let bit = index & index.wrapping_neg();
        let up = (index ^ bit) | bit << 1;
        if up < n { up } else { index ^ bit }
    })
}

/// The edges of both trees, coloured and timed, and how many colours there are.
fn edges(n: u32) -> (Vec<Edge>, u32) {
    let mut edges = Vec::with_capacity(2 * n as usize);
    for tree in 0..2u64 {
        // Where a node stands in the tree, and back.
        let node = |index: u32| match tree {
            0 => index,
            _ if n % 2 == 0 => n - 1 - index,
            _ => (index + 1) % n,
        };
        for index in 0..n {
            if let Some(up) = parent(index, n) {
                let (child, parent) = (node(index), node(up));
                edges.push(Edge { tree, child, parent, colour: NO_PEER, up: 0, down: 0 });
            }
        }
    }
    // Two edges are at odds if they share a child or a parent. Chains of these alternate between the
    // two, so those that close have even length: two colours are enough.
    let mut of_child = vec![Vec::new(); n as usize];
    let mut of_parent = vec![Vec::new(); n as usize];
    for (e, edge) in edges.iter().enumerate() {
        of_child[edge.child as usize].push(e);
        of_parent[edge.parent as usize].push(e);
    }
    for first in 0..edges.len() {
        if edges[first].colour != NO_PEER {
            continue;
        }
        edges[first].colour = 0;
        let mut open = vec![first];
        while let Some(e) = open.pop() {
            let Edge { child, parent, colour, .. } = edges[e];
            for &other in of_child[child as usize].iter().chain(&of_parent[parent as usize]) {
                if edges[other].colour == NO_PEER {
                    edges[other].colour = 1 - colour;
                    open.push(other);
                }
            }
        }
    }
    let colours = edges.iter().map(|edge| edge.colour).max().map_or(1, |most| most + 1);
    let next = |after: u32, colour: u32| after + (colour + colours - after % colours) % colours;
    for tree in 0..2u64 {
        // From the leaves up; depth is bounded by the bits of n.
        let own: Vec<usize> = (0..edges.len()).filter(|&e| edges[e].tree == tree).collect();
        for _ in 0..=u32::BITS - n.leading_zeros() {
            for &e in &own {
                let below = |f: fn(&Edge) -> u32, edges: &[Edge], node: u32, of: &[Vec<usize>]| {
                    of[node as usize]
                        .iter()
                        .filter(|&&o| edges[o].tree == tree)
                        .map(|&o| f(&edges[o]) + 1)
                        .max()
                        .unwrap_or(0)
                };
                let Edge { child, parent, colour, .. } = edges[e];
                edges[e].up = next(below(|o| o.up, &edges, child, &of_parent), colour);
                edges[e].down = next(below(|o| o.down, &edges, parent, &of_child), colour);
            }
        }
    }
    (edges, colours)
}

/// Chunks of each tree.
pub(super) fn chunks(nodes: u32, size: Bytes) -> u64 {
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

/// What happens when: (whether up, step of that half); steps in which nothing moves are left out.
fn timeline(edges: &[Edge], colours: u32, chunks: u64, reduce: bool) -> Vec<(bool, u32)> {
    let mut timeline = Vec::new();
    for up in if reduce { &[true, false][..] } else { &[false] } {
        let begins = |edge: &Edge| if *up { edge.up } else { edge.down };
        let last = (chunks as u32 - 1) * colours;
        let end = edges.iter().map(|e| begins(e) + last + 1).max().unwrap_or(0);
        // Of each colour, from the first edge to begin to the last one to end.
        for t in 0..end {
            let mut own = edges.iter().filter(|e| e.colour == t % colours);
            if own.any(|e| (begins(e)..=begins(e) + last).contains(&t)) {
                timeline.push((*up, t));
            }
        }
    }
    timeline
}

pub(super) fn steps(steps: &mut Steps, nodes: u32, size: Bytes, reduce: bool) {
    let (edges, colours) = edges(nodes);
    let chunks = chunks(nodes, size);
    for (up, t) in timeline(&edges, colours, chunks, reduce) {
        let mut peers = vec![NO_PEER; nodes as usize];
        for edge in edges.iter().filter(|edge| edge.colour == t % colours) {
            let (from, to) = if up { (edge.child, edge.parent) } else { (edge.parent, edge.child) };
            peers[from as usize] = to;
        }
        steps.push(Pairing::Map(peers), block(size, 2 * chunks));
    }
}

pub(super) fn moves(collective: &Collective, reduce: bool, step: usize, node: u32) -> Move {
    let (edges, colours) = edges(collective.nodes);
    let chunks = chunks(collective.nodes, collective.size);
    let (up, t) = timeline(&edges, colours, chunks, reduce)[step];
    let mut found = Move { blocks: Vec::new(), reduce: up };
    for edge in edges.iter().filter(|edge| edge.colour == t % colours) {
        let (from, begins) = if up { (edge.child, edge.up) } else { (edge.parent, edge.down) };
        if from == node && t >= begins {
            let chunk = u64::from((t - begins) / colours);
            if chunk < chunks {
                found.blocks.push(edge.tree * chunks + chunk);
            }
        }
    }
    found
}

/// Where each tree's chunks begin, for tests: the node that has them to broadcast.
#[cfg(test)]
pub(super) fn root(nodes: u32, tree: u64) -> u32 {
    match tree {
        0 => 0,
        _ if nodes % 2 == 0 => nodes - 1,
        _ => 1,
    }
}
