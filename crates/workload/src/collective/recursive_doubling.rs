//! Recursive doubling and halving (Thakur, Rabenseifner and Gropp 2005), log2 N steps.
//!
//! To gather, node `i` exchanges all it has with `i xor 1`, `i xor 2`, `i xor 4`...: what it has are
//! consecutive blocks, twice as many each time. To scatter a sum, the same backwards. To reduce, the
//! whole buffer is exchanged each time; nodes beyond a power of two are then folded as in
//! [`rabenseifner`](super::rabenseifner). The authors' ways around other numbers send uneven blocks in
//! one step, and are not built: the ring has none of that trouble.

use super::rabenseifner::{core, exchange, fold, rank_of};
use super::steps::{Move, Steps, block};
use lightloom_units::Bytes;

pub(super) fn doubling(steps: &mut Steps, nodes: u32, size: Bytes) {
    for bit in 0..nodes.ilog2() {
        steps.push(exchange(nodes, 0, bit), block(size, u64::from(nodes)) * (1 << bit));
    }
}

pub(super) fn halving(steps: &mut Steps, nodes: u32, size: Bytes) {
    for bit in (0..nodes.ilog2()).rev() {
        steps.push(exchange(nodes, 0, bit), block(size, u64::from(nodes)) * (1 << bit));
    }
}

/// The 2^bit consecutive blocks that one is among.
fn around(one: u32, bit: usize) -> Vec<u64> {
    let first = u64::from(one >> bit << bit);
    (first..first + (1 << bit)).collect()
}

pub(super) fn double(step: usize, node: u32) -> Move {
    Move { blocks: around(node, step), reduce: false }
}

pub(super) fn halve(nodes: u32, step: usize, node: u32) -> Move {
    let bit = nodes.ilog2() as usize - 1 - step;
    Move { blocks: around(node ^ 1 << bit, bit), reduce: true }
}

pub(super) fn steps(steps: &mut Steps, nodes: u32, size: Bytes) {
    let (core, surplus) = core(nodes);
    if surplus > 0 {
        steps.push(fold(nodes, surplus, false), size);
    }
    for bit in 0..core.ilog2() {
        steps.push(exchange(nodes, surplus, bit), size);
    }
    if surplus > 0 {
        steps.push(fold(nodes, surplus, true), size);
    }
}

pub(super) fn moves(nodes: u32, step: usize, node: u32) -> Move {
    let (core, surplus) = core(nodes);
    let step = if surplus == 0 { step + 1 } else { step };
    let last = core.ilog2() as usize + 1;
    let sends = match step {
        0 => node < 2 * surplus && node % 2 == 0,
        _ if step == last => node < 2 * surplus && node % 2 == 1,
        _ => rank_of(node, surplus).is_some(),
    };
    if sends { Move { blocks: vec![0], reduce: step < last } } else { Move::default() }
}
