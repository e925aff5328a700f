//! Pairwise exchange: at step s node `i` sends to `i + s` the block that is for it; N - 1 steps.

use super::steps::{Move, Pairing, Steps, block};
use lightloom_units::Bytes;

pub(super) fn steps(steps: &mut Steps, nodes: u32, size: Bytes) {
    for by in 1..nodes {
        steps.push(Pairing::Shift(by), block(size, u64::from(nodes)));
    }
}

pub(super) fn moves(n: u32, step: usize, node: u32) -> Move {
    let to = (u64::from(node) + step as u64 + 1) % u64::from(n);
    Move { blocks: vec![u64::from(node) * u64::from(n) + to], reduce: false }
}
