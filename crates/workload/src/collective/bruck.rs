//! Bruck's all-to-all with any radix (Bruck, Ho, Kipnis, Upfal and Weathersby 1997).
//!
//! A block that has to go `d` nodes on goes there digit by digit: in the step of digit `v` at place
//! `p`, every node sends all it holds whose distance has that digit there `v r^p` nodes on. With
//! r = 2 there are log2 N steps of half the buffer, with r = N it is pairwise exchange.

use super::plug::{Primitive, Program, Registered};
use super::steps::{Move, Pairing, Steps, block};
use lightloom_units::Bytes;
use std::sync::Arc;

pub(super) static ALGORITHMS: &[Registered] = &[Registered::new(
    "bruck-alltoall",
    Primitive::AllToAll,
    "Blocks travel by the digits of their distance",
    Some("Bruck et al. 1997"),
    |nodes, size, radix| Arc::new(Bruck { nodes, size, radix, backwards: false }),
)
.or_backwards(|nodes, size, radix| Arc::new(Bruck { nodes, size, radix, backwards: true }))
.with_radix()];

#[derive(Debug)]
struct Bruck {
    nodes: u32,
    size: Bytes,
    radix: u32,
    /// The greatest digits first.
    backwards: bool,
}

impl Bruck {
    /// (r^p, v) of every step, in order.
    fn order(&self) -> Vec<(u32, u32)> {
        let mut order: Vec<_> = digits(self.nodes, self.radix).collect();
        if self.backwards {
            order.reverse();
        }
        order
    }
}

/// (r^p, v) of every step.
fn digits(nodes: u32, radix: u32) -> impl Iterator<Item = (u32, u32)> {
    let places = std::iter::successors(Some(1u32), move |place| place.checked_mul(radix))
        .take_while(move |&place| place < nodes);
    places.flat_map(move |place| {
        (1..radix)
            .take_while(move |v| u64::from(*v) * u64::from(place) < u64::from(nodes))
            .map(move |v| (place, v))
    })
}

/// Distances with this digit.
fn distances(nodes: u32, radix: u32, place: u32, v: u32) -> impl Iterator<Item = u32> {
    (0..nodes).filter(move |d| d / place % radix == v)
}

impl Program for Bruck {
    fn steps(&self, steps: &mut Steps) {
        let Bruck { nodes, size, radix, .. } = *self;
        for (place, v) in self.order() {
            let blocks = distances(nodes, radix, place, v).count() as u64;
            steps.push(Pairing::Shift(place * v), block(size, u64::from(nodes)) * blocks);
        }
    }

    fn blocks(&self) -> u64 {
        u64::from(self.nodes)
    }

    fn moves(&self, step: usize, node: u32) -> Move {
        let (n, radix) = (self.nodes, self.radix);
        let (place, v) = self.order()[step];
        let blocks = distances(n, radix, place, v)
            .map(|d| {
                // What is here has come as far as its lower digits say, or its higher ones.
                let come = if self.backwards { d - d % place - v * place } else { d % place };
                let source = (node + n - come) % n;
                u64::from(source) * u64::from(n) + u64::from((source + d) % n)
            })
            .collect();
        Move { blocks, reduce: false }
    }
}
