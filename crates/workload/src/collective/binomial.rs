//! Broadcast from node 0 by a binomial tree: at step t nodes below 2^t send everything 2^t on.

use super::steps::{Move, NO_PEER, Pairing, Steps};
use lightloom_units::Bytes;

pub(super) fn steps(steps: &mut Steps, nodes: u32, size: Bytes) {
    for bit in 0..nodes.next_power_of_two().ilog2() {
        let peer = |node| if sends(nodes, bit, node) { node + (1 << bit) } else { NO_PEER };
        steps.push(Pairing::Map((0..nodes).map(peer).collect()), size);
    }
}

fn sends(nodes: u32, bit: u32, node: u32) -> bool {
    node < 1 << bit && node + (1 << bit) < nodes
}

pub(super) fn moves(nodes: u32, step: usize, node: u32) -> Move {
    let blocks = if sends(nodes, step as u32, node) { vec![0] } else { Vec::new() };
    Move { blocks, reduce: false }
}
