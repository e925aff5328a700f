//! Recursive doubling and halving (Thakur, Rabenseifner and Gropp 2005), log2 N steps.
//!
//! To gather, node `i` exchanges all it has with `i xor 1`, `i xor 2`, `i xor 4`...: what it has are
//! consecutive blocks, twice as many each time. To scatter a sum, the same backwards. To reduce, the
//! whole buffer is exchanged each time; nodes beyond a power of two are then folded as in
//! [`rabenseifner`](super::rabenseifner). The authors' ways around other numbers send uneven blocks in
//! one step, and are not built: the ring has none of that trouble.

use super::plug::{Primitive, Program, Registered};
use super::rabenseifner::{core, exchange, fold, rank_of};
use super::steps::{Move, Steps, block};
use lightloom_units::Bytes;
use std::sync::Arc;

const SOURCE: Option<&str> = Some("Thakur, Rabenseifner and Gropp 2005");

pub(super) static ALGORITHMS: &[Registered] = &[
    Registered::new(
        "recursive-halving-reduce-scatter",
        Primitive::ReduceScatter,
        "Halves of what is left are exchanged, nearer and nearer",
        SOURCE,
        |nodes, size, _| Arc::new(Half { nodes, size, sum: true }),
    )
    .for_powers_of_two(),
    Registered::new(
        "recursive-doubling-allgather",
        Primitive::AllGather,
        "What is there is exchanged, farther and farther, and doubles",
        SOURCE,
        |nodes, size, _| Arc::new(Half { nodes, size, sum: false }),
    )
    .for_powers_of_two(),
    Registered::new(
        "recursive-doubling-allreduce",
        Primitive::AllReduce,
        "The whole buffer is exchanged and added up, farther and farther",
        SOURCE,
        |nodes, size, _| Arc::new(Whole { nodes, size }),
    )
    .in_stages(&["recursive-doubling-allreduce"]),
];

/// The 2^bit consecutive blocks that one is among.
fn around(one: u32, bit: usize) -> Vec<u64> {
    let first = u64::from(one >> bit << bit);
    (first..first + (1 << bit)).collect()
}

/// The sum, scattered; or all blocks, gathered: those held double in every step.
#[derive(Debug)]
struct Half {
    nodes: u32,
    size: Bytes,
    sum: bool,
}

impl Half {
    /// In which bit nodes differ that exchange in a step.
    fn bit(&self, step: usize) -> usize {
        let last = self.nodes.ilog2() as usize - 1;
        if self.sum { last - step } else { step }
    }
}

impl Program for Half {
    fn steps(&self, steps: &mut Steps) {
        for bit in (0..self.nodes.ilog2()).map(|step| self.bit(step as usize)) {
            let volume = block(self.size, u64::from(self.nodes)) * (1 << bit);
            steps.push(exchange(self.nodes, 0, bit as u32), volume);
        }
    }
    fn blocks(&self) -> u64 {
        u64::from(self.nodes)
    }
    fn moves(&self, step: usize, node: u32) -> Move {
        let (bit, sum) = (self.bit(step), self.sum);
        Move { blocks: around(node ^ u32::from(sum) << bit, bit), reduce: sum }
    }
}

/// The whole buffer, the surplus folded.
#[derive(Debug)]
struct Whole {
    nodes: u32,
    size: Bytes,
}

impl Program for Whole {
    fn steps(&self, steps: &mut Steps) {
        let (core, surplus) = core(self.nodes);
        if surplus > 0 {
            steps.push(fold(self.nodes, surplus, false), self.size);
        }
        for bit in 0..core.ilog2() {
            steps.push(exchange(self.nodes, surplus, bit), self.size);
        }
        if surplus > 0 {
            steps.push(fold(self.nodes, surplus, true), self.size);
        }
    }

    fn blocks(&self) -> u64 {
        1
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let (core, surplus) = core(self.nodes);
        let step = if surplus == 0 { step + 1 } else { step };
        let last = core.ilog2() as usize + 1;
        let sends = match step {
            0 => node < 2 * surplus && node % 2 == 0,
            _ if step == last => node < 2 * surplus && node % 2 == 1,
            _ => rank_of(node, surplus).is_some(),
        };
        if sends { Move { blocks: vec![0], reduce: step < last } } else { Move::default() }
    }
}
