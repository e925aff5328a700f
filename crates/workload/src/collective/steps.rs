//! The steps of a collective: who sends to whom, how much, and which blocks.

use lightloom_units::Bytes;
use std::collections::HashMap;

/// In a map of peers: a node that sends nothing.
pub const NO_PEER: u32 = u32::MAX;

/// Whom each node can send to in a step: a partial permutation without fixed points.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// Node `i` to `i + shift`, modulo the number of nodes.
    Shift(u32),
    /// As listed; [`NO_PEER`] where there is none.
    Map(Vec<u32>),
}

impl Pairing {
    /// Whom `node` of `nodes` can send to.
    pub fn peer(&self, node: u32, nodes: u32) -> Option<u32> {
        match self {
            Pairing::Shift(by) => Some((node + by) % nodes),
            Pairing::Map(peers) => Some(peers[node as usize]).filter(|&peer| peer != NO_PEER),
        }
    }
}

/// A step: who sends to whom, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveStep {
    /// Its pairing, as an index of [`Collective::pairings`](super::Collective::pairings).
    pub pairing: u32,
    /// What each node that sends in this step sends \[B\].
    pub volume: Bytes,
    /// Whether it begins with the step before, and not after it: what it sends was there before both.
    pub together: bool,
    /// Which part of the buffer it is of: over a grid, parts do not wait for each other.
    pub part: u32,
    /// The dimension of the grid in whose lines nodes send.
    pub dimension: u32,
}

/// What one node sends in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    /// Numbers of blocks: of slices of the buffer (of chunks, in a double tree); in an all-to-all,
    /// `source * nodes + destination`. Over a grid each is cut further, into blocks that follow.
    pub blocks: Vec<u64>,
    /// Whether the receiver adds them to its own, or takes them in their place.
    pub reduce: bool,
}

/// Steps while they are put together.
#[derive(Default)]
pub(super) struct Steps {
    seen: HashMap<Pairing, u32>,
    pub(super) pairings: Vec<Pairing>,
    pub(super) steps: Vec<CollectiveStep>,
}

impl Steps {
    pub(super) fn push(&mut self, pairing: Pairing, volume: Bytes) {
        self.add(pairing, volume, false);
    }

    pub(super) fn add(&mut self, pairing: Pairing, volume: Bytes, together: bool) {
        let pairing = self.numbered(pairing);
        self.steps.push(CollectiveStep { pairing, volume, together, part: 0, dimension: 0 });
    }

    /// Adds a step of a part of the buffer, in the lines of a dimension.
    pub(super) fn of_part(&mut self, part: u32, dimension: u32, pairing: Pairing, volume: Bytes) {
        let pairing = self.numbered(pairing);
        self.steps.push(CollectiveStep { pairing, volume, together: false, part, dimension });
    }

    fn numbered(&mut self, pairing: Pairing) -> u32 {
        let next = self.pairings.len() as u32;
        let index = *self.seen.entry(pairing.clone()).or_insert(next);
        if index == next {
            self.pairings.push(pairing);
        }
        index
    }
}

/// `size` in so many equal blocks, padded.
pub(super) fn block(size: Bytes, blocks: u64) -> Bytes {
    Bytes::new(size.get().div_ceil(blocks))
}
