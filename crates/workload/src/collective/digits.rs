//! Digits of ranks in the prime factors of their number, the smallest first: what halvings and
//! doublings of any number of nodes go by (Ruefenacht, Bull and Booth 2017), bits of a power of two.

use super::steps::{Move, Pairing, block};
use lightloom_units::Bytes;

/// Digits of ranks below `count`, one of which differs in each hop.
#[derive(Clone, Debug)]
pub(super) struct Digits {
    pub count: u32,
    hops: Vec<Hop>,
}

/// A digit that differs, and by how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// What the digit's 1 stands for.
    pub weight: u32,
    radix: u32,
    /// How much greater it is at the peer, modulo the radix.
    by: u32,
}

impl Digits {
    pub fn new(count: u32) -> Self {
        let (mut weight, mut hops) = (1, Vec::new());
        while weight < count {
            let left = count / weight;
            let prime = (2..).take_while(|p| p * p <= left).find(|p| left % p == 0);
            let radix = prime.unwrap_or(left);
            hops.extend((1..radix).map(|by| Hop { weight, radix, by }));
            weight *= radix;
        }
        Digits { count, hops }
    }

    /// The hops of a halving, in order, or backwards.
    pub fn hops(&self, backwards: bool) -> Vec<Hop> {
        let mut hops = self.hops.clone();
        if backwards {
            hops.reverse();
        }
        hops
    }

    /// What is sent in a hop, of a buffer of `size` in as many blocks as ranks.
    pub fn volume(&self, hop: Hop, size: Bytes) -> Bytes {
        block(size, self.count.into()) * u64::from(self.count / hop.weight / hop.radix)
    }

    /// Everyone with its peer.
    pub fn pairing(&self, hop: Hop) -> Pairing {
        match hop.radix == self.count && hop.radix > 2 {
            true => Pairing::Shift(hop.by),
            false => Pairing::Map((0..self.count).map(|rank| hop.peer(rank)).collect()),
        }
    }

    /// What a rank sends in a step of a halving: what its peer is to have.
    pub fn halve(&self, step: usize, rank: u32) -> Move {
        let hop = self.hops[step];
        Move { blocks: self.blocks(hop, hop.peer(rank)), reduce: true }
    }

    /// What a rank sends in a step of a doubling: all it has.
    pub fn double(&self, step: usize, rank: u32) -> Move {
        let hop = self.hops[self.hops.len() - 1 - step];
        Move { blocks: self.blocks(hop, rank), reduce: false }
    }

    /// The blocks that agree with a rank in the digits up to a hop's.
    fn blocks(&self, hop: Hop, rank: u32) -> Vec<u64> {
        let period = hop.weight * hop.radix;
        (rank % period..self.count).step_by(period as usize).map(u64::from).collect()
    }
}

impl Hop {
    pub fn peer(self, rank: u32) -> u32 {
        let digit = rank / self.weight % self.radix;
        rank - digit * self.weight + (digit + self.by) % self.radix * self.weight
    }
}
