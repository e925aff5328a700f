//! An operation that is under way here.

use super::flow::{Flow, Flows};
use super::name::Endpoint;
use super::plan::{Chunk, Operation};
use super::ranges::Ranges;
use std::ops::Range;

/// What goes to one peer.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub peer: Endpoint,
    pub bytes: u64,
    /// Its chunks.
    pub chunks: Range<usize>,
    /// They are on their lanes: the peer is ready, or they go early.
    pub released: bool,
}

/// What comes from one peer.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
    pub peer: Endpoint,
    pub bytes: u64,
    pub got: Ranges,
}

/// An operation that is under way here.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub group: u32,
    pub number: u64,
    /// By peer, and of each peer in the order of the plan.
    pub chunks: Vec<Chunk>,
    /// Those of them whose lane is chosen when their turn comes.
    pub flows: Flows,
    /// By peer, of those that get something.
    pub sends: Vec<Sending>,
    /// By peer, of those that send something.
    pub receives: Vec<Receiving>,
    /// Not acknowledged \[B\].
    pub unacknowledged: u64,
    /// Not here \[B\].
    pub missing: u64,
    /// Lanes to relays that are in the midst of a chunk of it: these go on when a relayed connection ends.
    pub lent: usize,
}

impl Running {
    /// An operation whose plan was checked, and its flows.
    pub fn new(operation: Operation, flows: Vec<Flow>) -> Self {
        let Operation { group, number, mut sends, mut receives, plan: mut chunks } = operation;
        let mut order: Vec<u32> = (0..chunks.len() as u32).collect();
        order.sort_by_key(|&at| chunks[at as usize].peer);
        let flows = Flows::new(flows, &order);
        chunks.sort_by_key(|chunk| chunk.peer);
        sends.retain(|send| send.bytes > 0);
        sends.sort_by_key(|send| send.peer);
        receives.retain(|receive| receive.bytes > 0);
        receives.sort_by_key(|receive| receive.peer);
        let range = |peer| {
            let start = chunks.partition_point(|chunk| chunk.peer < peer);
            start..chunks.partition_point(|chunk| chunk.peer <= peer)
        };
        let unacknowledged = sends.iter().map(|send| send.bytes).sum();
        let missing = receives.iter().map(|receive| receive.bytes).sum();
        let sends = sends.iter().map(|send| Sending {
            peer: send.peer,
            bytes: send.bytes,
            chunks: range(send.peer),
            released: false,
        });
        let sends = sends.collect();
        let receives = receives.iter().map(|it| Receiving {
            peer: it.peer,
            bytes: it.bytes,
            got: Ranges::default(),
        });
        let receives = receives.collect();
        Running { group, number, chunks, flows, sends, receives, unacknowledged, missing, lent: 0 }
    }

    /// What comes from a peer.
    pub fn receiving(&self, peer: Endpoint) -> Option<&Receiving> {
        let at = self.receives.binary_search_by_key(&peer, |receive| receive.peer).ok()?;
        Some(&self.receives[at])
    }

    pub fn receiving_mut(&mut self, peer: Endpoint) -> Option<&mut Receiving> {
        let at = self.receives.binary_search_by_key(&peer, |receive| receive.peer).ok()?;
        Some(&mut self.receives[at])
    }

    /// What goes to a peer.
    pub fn sending_mut(&mut self, peer: Endpoint) -> Option<&mut Sending> {
        let at = self.sends.binary_search_by_key(&peer, |send| send.peer).ok()?;
        Some(&mut self.sends[at])
    }
}
