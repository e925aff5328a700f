//! The ring (Patarasuk and Yuan 2009): node `i` sends to `i + 1`, one block a step, N - 1 steps.

use super::plug::{Primitive, Program, Registered};
use super::steps::{Move, Pairing, Steps, block};
use lightloom_units::Bytes;
use std::sync::Arc;

const SOURCE: Option<&str> = Some("Patarasuk and Yuan 2009");

pub(super) static ALGORITHMS: &[Registered] = &[
    Registered::new(
        "ring-reduce-scatter",
        Primitive::ReduceScatter,
        "Blocks travel around a ring and are added up",
        SOURCE,
        |nodes, size, _| Arc::new(Ring { nodes, size, reduces: true, gathers: false }),
    ),
    Registered::new(
        "ring-allgather",
        Primitive::AllGather,
        "Blocks travel around a ring",
        SOURCE,
        |nodes, size, _| Arc::new(Ring { nodes, size, reduces: false, gathers: true }),
    ),
    Registered::new(
        "ring-allreduce",
        Primitive::AllReduce,
        "Blocks travel around a ring twice, and are added up the first time",
        SOURCE,
        |nodes, size, _| Arc::new(Ring { nodes, size, reduces: true, gathers: true }),
    )
    .in_stages(&["ring-reduce-scatter", "ring-allgather"]),
];

/// Once around to add up, once to gather.
#[derive(Debug)]
struct Ring {
    nodes: u32,
    size: Bytes,
    reduces: bool,
    gathers: bool,
}

impl Program for Ring {
    fn steps(&self, steps: &mut Steps) {
        let times = u32::from(self.reduces) + u32::from(self.gathers);
        for _ in 0..times * (self.nodes - 1) {
            steps.push(Pairing::Shift(1), block(self.size, u64::from(self.nodes)));
        }
    }

    fn blocks(&self) -> u64 {
        u64::from(self.nodes)
    }

    /// Node `i` is the last to add to block `i`.
    fn moves(&self, step: usize, node: u32) -> Move {
        let (n, node) = (self.nodes as usize, node as usize);
        let first = if self.reduces { n - 1 } else { 0 };
        match self.reduces && step < n - 1 {
            true => Move { blocks: vec![((node + 2 * n - step - 1) % n) as u64], reduce: true },
            false => Move { blocks: vec![((node + n + first - step) % n) as u64], reduce: false },
        }
    }
}
