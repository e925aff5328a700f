//! Bruck's all-to-all with any radix (Bruck, Ho, Kipnis, Upfal and Weathersby 1997).
//!
//! A block that has to go `d` nodes on goes there digit by digit: in the step of digit `v` at place
//! `p`, every node sends all it holds whose distance has that digit there `v r^p` nodes on. With
//! r = 2 there are log2 N steps of half the buffer, with r = N it is pairwise exchange.

use super::steps::{Move, Pairing, Steps, block};
use lightloom_units::Bytes;

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

pub(super) fn steps(steps: &mut Steps, nodes: u32, radix: u32, size: Bytes) {
    for (place, v) in digits(nodes, radix) {
        let blocks = distances(nodes, radix, place, v).count() as u64;
        steps.push(Pairing::Shift(place * v), block(size, u64::from(nodes)) * blocks);
    }
}

pub(super) fn moves(n: u32, radix: u32, step: usize, node: u32) -> Move {
    let (place, v) = digits(n, radix).nth(step).expect("the step is one of the collective's");
    let blocks = distances(n, radix, place, v)
        .map(|d| {
            // What is here has come as far as its lower digits say.
            let source = (node + n - d % place) % n;
            u64::from(source) * u64::from(n) + u64::from((source + d) % n)
        })
        .collect();
    Move { blocks, reduce: false }
}
