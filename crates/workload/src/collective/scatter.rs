//! A broadcast of large buffers (Barnett et al. 1994; Thakur, Rabenseifner and Gropp 2005): the buffer is
//! scattered, and the blocks are gathered by doubling.
//!
//! Whoever has blocks sends those that its peer is to have, nearest nodes first, so that the ranks of a
//! server share its NICs; the authors scatter to the farthest first.

use super::digits::Digits;
use super::plug::{Primitive, Program, Registered};
use super::steps::{Move, NO_PEER, Pairing, Steps};
use lightloom_units::Bytes;
use std::sync::Arc;

pub(super) static ALGORITHMS: &[Registered] = &[Registered::new(
    "scatter-allgather-broadcast",
    Primitive::Broadcast,
    "Scattered, and gathered by everyone",
    Some("Thakur, Rabenseifner and Gropp 2005"),
    |nodes, size, _| Arc::new(Scatter { size, digits: Digits::new(nodes) }),
)];

#[derive(Debug)]
struct Scatter {
    size: Bytes,
    digits: Digits,
}

impl Program for Scatter {
    fn steps(&self, steps: &mut Steps) {
        let Scatter { size, digits } = self;
        for hop in digits.hops(false) {
            let peer = |rank| if rank < hop.weight { hop.peer(rank) } else { NO_PEER };
            steps.push(
                Pairing::Map((0..digits.count).map(peer).collect()),
                digits.volume(hop, *size),
            );
        }
        for hop in digits.hops(true) {
            steps.push(digits.pairing(hop), digits.volume(hop, *size));
        }
    }

    fn blocks(&self) -> u64 {
        self.digits.count.into()
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let hops = self.digits.hops(false);
        match hops.get(step) {
            None => self.digits.double(step - hops.len(), node),
            Some(hop) if node < hop.weight => {
                Move { reduce: false, ..self.digits.halve(step, node) }
            }
            Some(_) => Move::default(),
        }
    }
}
