//! Recursive halving and doubling (Rabenseifner, ICCS 2004; Thakur, Rabenseifner and Gropp 2005).
//!
//! At step t of the halving node `i` holds the blocks that agree with it in their last t bits, and
//! sends those that differ in bit t to the node that differs in that bit alone; so nearest nodes
//! exchange most, as in SWOT, Section 2.1.2. Doubling is the same backwards. An all-reduce does both,
//! and need not care who ends with which block between: it numbers them so that what is sent is
//! consecutive, the authors' vector halving. If nodes are no power of two, it folds the surplus
//! first: of the first 2 r nodes the even ones give all they have to their odd neighbors and get the
//! result in the end, as the authors do. The halves alone take digits in the prime factors of the
//! number of nodes, the smallest first, in place of bits (Ruefenacht, Bull and Booth 2017): a digit of
//! p values takes p - 1 steps.

use super::digits::Digits;
use super::plug::{Primitive, Program, Registered};
use super::steps::{Move, NO_PEER, Pairing, Steps, block};
use lightloom_units::Bytes;
use std::sync::Arc;

pub(super) static ALGORITHMS: &[Registered] = &[
    Registered::new(
        "rabenseifner-reduce-scatter",
        Primitive::ReduceScatter,
        "Halves of what is left are exchanged, farther and farther",
        Some("Rabenseifner, ICCS 2004"),
        |nodes, size, _| Arc::new(Half { size, digits: Digits::new(nodes), gathers: false }),
    ),
    Registered::new(
        "rabenseifner-allgather",
        Primitive::AllGather,
        "What is there is exchanged, nearer and nearer, and doubles",
        Some("Rabenseifner, ICCS 2004"),
        |nodes, size, _| Arc::new(Half { size, digits: Digits::new(nodes), gathers: true }),
    ),
    Registered::new(
        "rabenseifner-allreduce",
        Primitive::AllReduce,
        "Halves are exchanged and added up, then gathered backwards",
        Some("Rabenseifner, ICCS 2004"),
        |nodes, size, _| Arc::new(Both { nodes, size, digits: Digits::new(core(nodes).0) }),
    )
    .in_stages(&["rabenseifner-reduce-scatter", "rabenseifner-allgather"]),
];

/// The sum, scattered; or blocks, gathered.
#[derive(Debug)]
struct Half {
    size: Bytes,
    digits: Digits,
    gathers: bool,
}

impl Program for Half {
    fn steps(&self, steps: &mut Steps) {
        for hop in self.digits.hops(self.gathers) {
            steps.push(self.digits.pairing(hop), self.digits.volume(hop, self.size));
        }
    }
    fn blocks(&self) -> u64 {
        self.digits.count.into()
    }
    fn moves(&self, step: usize, node: u32) -> Move {
        if self.gathers { self.digits.double(step, node) } else { self.digits.halve(step, node) }
    }
}

/// Both, one after the other, the surplus folded.
#[derive(Debug)]
struct Both {
    nodes: u32,
    size: Bytes,
    /// Of those that are not folded.
    digits: Digits,
}

impl Program for Both {
    fn steps(&self, steps: &mut Steps) {
        let Both { nodes, size, ref digits } = *self;
        let (core, surplus) = core(nodes);
        let all = block(size, u64::from(core)) * u64::from(core);
        if surplus > 0 {
            steps.push(fold(nodes, surplus, false), all);
        }
        for hop in digits.hops(false).into_iter().chain(digits.hops(true)) {
            let pairing = exchange(nodes, surplus, hop.weight.ilog2());
            steps.push(pairing, digits.volume(hop, size));
        }
        if surplus > 0 {
            steps.push(fold(nodes, surplus, true), all);
        }
    }

    fn blocks(&self) -> u64 {
        u64::from(core(self.nodes).0)
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let (core, surplus) = core(self.nodes);
        let bits = core.ilog2() as usize;
        let all = || (0..u64::from(core)).collect();
        let folded = node < 2 * surplus;
        let step = if surplus == 0 { step + 1 } else { step };
        match step {
            0 if folded && node % 2 == 0 => Move { blocks: all(), reduce: true },
            _ if step == 2 * bits + 1 && folded && node % 2 == 1 => {
                Move { blocks: all(), reduce: false }
            }
            _ if step == 0 || step == 2 * bits + 1 => Move::default(),
            _ => match rank_of(node, surplus) {
                None => Move::default(),
                Some(rank) if step <= bits => consecutive(core, self.digits.halve(step - 1, rank)),
                Some(rank) => consecutive(core, self.digits.double(step - 1 - bits, rank)),
            },
        }
    }
}

/// The largest power of two up to `nodes`, and how many nodes are left over.
pub(super) fn core(nodes: u32) -> (u32, u32) {
    let core = 1 << nodes.ilog2();
    (core, nodes - core)
}

/// The node with so great a number among those that take part.
pub(super) fn node_of(rank: u32, surplus: u32) -> u32 {
    if rank < surplus { 2 * rank + 1 } else { rank + surplus }
}

/// The number of a node among those that take part; `None` if it is folded.
pub(super) fn rank_of(node: u32, surplus: u32) -> Option<u32> {
    match node {
        _ if node >= 2 * surplus => Some(node - surplus),
        _ if node % 2 == 1 => Some(node / 2),
        _ => None,
    }
}

/// Each node that takes part with the one whose number differs in one bit.
pub(super) fn exchange(nodes: u32, surplus: u32, bit: u32) -> Pairing {
    let peer = |node| rank_of(node, surplus).map_or(NO_PEER, |r| node_of(r ^ 1 << bit, surplus));
    Pairing::Map((0..nodes).map(peer).collect())
}

/// Even nodes of the surplus to their neighbours, or back.
pub(super) fn fold(nodes: u32, surplus: u32, back: bool) -> Pairing {
    let peer = |node: u32| match node {
        _ if node >= 2 * surplus || (node % 2 == 1) != back => NO_PEER,
        _ => node ^ 1,
    };
    Pairing::Map((0..nodes).map(peer).collect())
}

/// Blocks that agree in their last bits, by numbers that agree in their first bits.
fn consecutive(core: u32, mut moved: Move) -> Move {
    let unused = u64::BITS - core.ilog2(); // Two nodes or more: at least a bit is used.
    for block in &mut moved.blocks {
        *block = block.reverse_bits() >> unused;
    }
    moved.blocks.sort_unstable();
    moved
}
