//! Broadcast from node 0 by a binomial tree: at step t nodes below 2^t send everything 2^t on.

use super::plug::{Primitive, Program, Registered};
use super::steps::{Move, NO_PEER, Pairing, Steps};
use lightloom_units::Bytes;
use std::sync::Arc;

pub(super) static ALGORITHMS: &[Registered] = &[Registered::new(
    "binomial-broadcast",
    Primitive::Broadcast,
    "Those that have it send it on",
    None,
    |nodes, size, _| Arc::new(Binomial { nodes, size }),
)];

#[derive(Debug)]
struct Binomial {
    nodes: u32,
    size: Bytes,
}

impl Binomial {
    fn sends(&self, bit: u32, node: u32) -> bool {
        node < 1 << bit && node + (1 << bit) < self.nodes
    }
}

impl Program for Binomial {
    fn steps(&self, steps: &mut Steps) {
        for bit in 0..self.nodes.next_power_of_two().ilog2() {
            let peer = |node| if self.sends(bit, node) { node + (1 << bit) } else { NO_PEER };
            steps.push(Pairing::Map((0..self.nodes).map(peer).collect()), self.size);
        }
    }

    fn blocks(&self) -> u64 {
        1
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let blocks = if self.sends(step as u32, node) { vec![0] } else { Vec::new() };
        Move { blocks, reduce: false }
    }
}
