//! Pairwise exchange: at step s node `i` sends to `i + s` the block that is for it; N - 1 steps.

use super::plug::{Primitive, Program, Registered};
use super::steps::{Move, Pairing, Steps, block};
use lightloom_units::Bytes;
use std::sync::Arc;

pub(super) static ALGORITHMS: &[Registered] = &[Registered::new(
    "pairwise-alltoall",
    Primitive::AllToAll,
    "Each pair in its own step",
    None,
    |nodes, size, _| Arc::new(Pairwise { nodes, size, backwards: false }),
)
.or_backwards(|nodes, size, _| Arc::new(Pairwise { nodes, size, backwards: true }))];

#[derive(Debug)]
struct Pairwise {
    nodes: u32,
    size: Bytes,
    backwards: bool,
}

impl Pairwise {
    /// How far on nodes send in a step.
    fn by(&self, step: u32) -> u32 {
        if self.backwards { self.nodes - 1 - step } else { step + 1 }
    }
}

impl Program for Pairwise {
    fn steps(&self, steps: &mut Steps) {
        for by in (0..self.nodes - 1).map(|step| self.by(step)) {
            steps.push(Pairing::Shift(by), block(self.size, u64::from(self.nodes)));
        }
    }

    fn blocks(&self) -> u64 {
        u64::from(self.nodes)
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let n = u64::from(self.nodes);
        let to = (u64::from(node) + u64::from(self.by(step as u32))) % n;
        Move { blocks: vec![u64::from(node) * n + to], reduce: false }
    }
}
