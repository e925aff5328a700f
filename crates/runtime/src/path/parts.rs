//! What the decisions are asked about, and what they answer.

use crate::exchange::Nic;
use lightloom_circuits::Layout;

/// What a server consists of; all are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Servers of the region.
    pub servers: u16,
    /// Ranks of a server.
    pub ranks: u16,
    /// NICs on packet switches: the first ones.
    pub packet_nics: u16,
    /// NICs on the optical switch: those after them.
    pub optical_nics: u16,
}

impl Shape {
    /// The same, for the decision on circuits.
    pub fn layout(&self) -> Layout {
        Layout::even(self.servers, self.ranks, self.packet_nics, self.optical_nics)
    }
}

/// What one rank of this server sends to one rank of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The sending rank, by its number in this server.
    pub source: u16,
    /// The receiving server.
    pub server: u16,
    /// The receiving rank, by its number there.
    pub target: u16,
    /// How much it is \[B\].
    pub bytes: u64,
}

/// A part of what goes to a server, and the NICs that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The receiving server.
    pub server: u16,
    /// The NIC here.
    pub nic: Nic,
    /// The NIC there.
    pub peer_nic: Nic,
    /// Where it begins in what goes to this server \[B\].
    pub offset: u64,
    /// How much it is, at most a chunk \[B\].
    pub length: u32,
}

/// Where each block begins in what goes to its server; blocks are sorted.
pub(super) fn begins(blocks: &[Block]) -> Vec<u64> {
    let mut at = (None, 0);
    let begin = |it: &Block| {
        at = if at.0 == Some(it.server) { at } else { (Some(it.server), 0) };
        at.1 += it.bytes;
        at.1 - it.bytes
    };
    blocks.iter().map(begin).collect()
}
