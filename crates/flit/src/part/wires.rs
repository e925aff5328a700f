//! What is under way between ports: flits, and space on its way back. What is for another part is mail.

use super::state::{BLOCK, Packet};
use crate::wheel::Wheel;

/// Flits of one packet on their way to a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flits {
    pub(super) queue: u32,
    /// Whose head is among them, by its place in the pool; or [`NOBODY`].
    pub(super) packet: u32,
    pub(super) n: u8,
    /// Length of the packet whose head is among them.
    pub(super) len: u8,
}

/// No packet.
pub(super) const NOBODY: u32 = u32::MAX;

/// Buffer space on its way back to an output's VC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    pub(super) out: u32,
    pub(super) n: u16,
}

/// What one part sends another in one cycle, each with the cycle in which it is due.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// With the packet whose head is among the flits.
    pub flits: Vec<(u64, Flits, Packet)>,
    pub credits: Vec<(u64, Credit)>,
}

/// Flits that are this many cycles under way are near.
const NEAR: u64 = 3;

/// Everything under way to the ports of a part, by stretches of [`BLOCK`] ports.
#[derive(Debug, Default)]
pub(super) struct Wires {
    /// From a queue's or an output VC's number to its block, as a shift.
    shift: u32,
    /// Flits that arrive within [`NEAR`] cycles, and the others: lists that come round soon stay in
    /// a cache.
    pub near: Wheel<Flits>,
    pub far: Wheel<Flits>,
    pub credits: Wheel<Credit>,
}

impl Wires {
    /// Between ports in so many blocks, `1 << shift` virtual channels each; flits are at most `span`
    /// cycles under way, space `back`.
    pub fn new(blocks: usize, shift: u32, span: u64, back: u64) -> Self {
        Wires {
            shift: shift + BLOCK,
            near: Wheel::new(NEAR, blocks),
            far: Wheel::new(span, blocks),
            credits: Wheel::new(back, blocks),
        }
    }
    #[inline]
    pub fn send(&mut self, now: u64, delay: u64, flits: Flits) {
        let block = (flits.queue >> self.shift) as usize;
        let wheel = if delay <= NEAR { &mut self.near } else { &mut self.far };
        wheel.push(now + delay, block, flits);
    }
    #[inline]
    pub fn give_back(&mut self, due: u64, credit: Credit) {
        self.credits.push(due, (credit.out >> self.shift) as usize, credit);
    }
    /// Flits from another part, which may be due at any time.
    pub fn deliver(&mut self, due: u64, flits: Flits) {
        self.far.push(due, (flits.queue >> self.shift) as usize, flits);
    }
}
