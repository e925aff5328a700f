//! Recursive doubling (Thakur, Rabenseifner and Gropp 2005): the whole buffer every step, log2 N
//! steps. Nodes beyond a power of two are folded as in [`rabenseifner`](super::rabenseifner).

use super::rabenseifner::{core, exchange, fold, rank_of};
use super::{Move, Steps};
use lightloom_units::Bytes;

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
