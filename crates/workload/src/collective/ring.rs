//! The ring (Patarasuk and Yuan 2009): node `i` sends to `i + 1`, one block a step, N - 1 steps.

use super::steps::{Move, Pairing, Steps, block};
use lightloom_units::Bytes;

/// So many times around the ring.
pub(super) fn steps(steps: &mut Steps, nodes: u32, size: Bytes, times: u32) {
    for _ in 0..times * (nodes - 1) {
        steps.push(Pairing::Shift(1), block(size, u64::from(nodes)));
    }
}

/// Node `i` is the last to add to block `i`.
pub(super) fn reduce(n: u32, step: usize, node: u32) -> Move {
    let n = n as usize;
    Move { blocks: vec![((node as usize + 2 * n - step - 1) % n) as u64], reduce: true }
}

pub(super) fn gather(n: u32, step: usize, node: u32) -> Move {
    let n = n as usize;
    Move { blocks: vec![((node as usize + n - step) % n) as u64], reduce: false }
}
