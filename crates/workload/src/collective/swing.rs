//! Swing (De Sensi, Bonato, Saam and Hoefler, NSDI 2024): an all-reduce whose peers are near each other
//! on a ring or torus.
//!
//! In step s even nodes exchange with the node rho(s) on, odd ones with the node rho(s) back, where
//! rho(s) = 1 - 2 + 4 - ... = (1 - (-2)^(s+1)) / 3: distances 1, 1, 3, 5, 11. What is sent halves in each
//! step of the reduce-scatter, and doubles in those of the all-gather, which go backwards: the authors'
//! bandwidth-optimal variant. A node sends what its peer will answer for after the steps to come.
//! Ignored: the authors' latency-optimal variant, collectives side by side on the ports of a torus of
//! several dimensions, and numbers of nodes that are no power of two.

use super::plug::{Primitive, Program, Registered};
use super::steps::{Move, Pairing, Steps, block};
use lightloom_units::Bytes;
use std::sync::Arc;

pub(super) static ALGORITHMS: &[Registered] = &[Registered::new(
    "swing-allreduce",
    Primitive::AllReduce,
    "Halves are exchanged with near nodes on alternating sides, then gathered backwards",
    Some("De Sensi et al., NSDI 2024"),
    |nodes, size, _| Arc::new(Swing { nodes, size }),
)
.for_powers_of_two()];

#[derive(Debug)]
struct Swing {
    nodes: u32,
    size: Bytes,
}

impl Swing {
    /// With whom a node exchanges in a step of the reduce-scatter.
    fn peer(&self, node: u32, step: u32) -> u32 {
        let rho = (1 - (-2i64).pow(step + 1)) / 3;
        let by = if node % 2 == 0 { rho } else { -rho };
        (i64::from(node) + by).rem_euclid(i64::from(self.nodes)) as u32
    }

    /// The nodes whose blocks a node answers for before a step: its own, and those of all that it will
    /// yet exchange with.
    fn reach(&self, node: u32, step: u32) -> Vec<u64> {
        let mut reached = vec![node];
        for later in (step..self.nodes.ilog2()).rev() {
            reached.extend(reached.clone().into_iter().map(|other| self.peer(other, later)));
        }
        let mut blocks: Vec<u64> = reached.into_iter().map(u64::from).collect();
        blocks.sort_unstable();
        blocks
    }
}

impl Program for Swing {
    fn steps(&self, steps: &mut Steps) {
        let bits = self.nodes.ilog2();
        for step in (0..bits).chain((0..bits).rev()) {
            let peers = (0..self.nodes).map(|node| self.peer(node, step)).collect();
            let blocks = u64::from(self.nodes >> (step + 1));
            steps.push(Pairing::Map(peers), block(self.size, u64::from(self.nodes)) * blocks);
        }
    }

    fn blocks(&self) -> u64 {
        u64::from(self.nodes)
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let (step, bits) = (step as u32, self.nodes.ilog2());
        if step < bits {
            return Move { blocks: self.reach(self.peer(node, step), step + 1), reduce: true };
        }
        Move { blocks: self.reach(node, 2 * bits - step), reduce: false }
    }
}
