//! Packets, one cache line each, in a pool that is used again and again.

use crate::ahead::fetch;
use std::collections::HashMap;

/// No index: the end of a list, an empty ring.
pub(crate) const NONE: u32 = u32::MAX;

/// Links of a path that a packet carries itself; longer ones stand in [`LongPaths`].
const INLINE: usize = 10;
const PATH: usize = 3 * INLINE;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Payload.
    Data = 0,
    /// A data packet whose payload was cut off by a switch.
    Trimmed,
    /// Packets that arrived: `seq` the last of them, or with go-back-N the next one expected.
    Ack,
    /// One that did not: `seq`.
    Nack,
    /// A congestion notification (DCQCN).
    Notice,
    /// Leave to send one more (NDP).
    Pull,
    /// A pause frame, or the end of one: no packet of a flow, and it takes no room.
    Pause,
}

/// A packet. It carries its path, three bytes a link.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// The one behind it in a queue.
    pub next: u32,
    /// Whose it is: the sender in its shard, and the receiver in its own.
    pub from: u32,
    pub to: u32,
    /// Tells the connection apart from others that had these places before.
    pub life: u32,
    pub seq: u32,
    /// When its data packet was sent \[ns\], wrapping.
    pub stamp: u32,
    /// Bytes on the wire of data, their lowest 16 bits, which are all between servers; of an
    /// acknowledgement, how many packets it stands for.
    pub size: u16,
    /// The path that it took, as an index into those that its balancer knows.
    pub alternative: u16,
    /// The bits above those of `size`.
    size_above: u8,
    /// Its kind, and what is so or is not.
    flags: u8,
    /// The link that it is on or waits for, as an index into its path.
    pub hop: u16,
    pub hops: u16,
    path: [u8; PATH],
}

/// Marked (ECN); on an acknowledgement: its data was.
const MARKED: u8 = 1;
/// Travels its path backwards.
const BACKWARDS: u8 = 2;
/// The sender can send no more before it hears of this one.
const URGENT: u8 = 4;
/// Its connection stays inside a server, where packets are larger.
const INSIDE: u8 = 8;
/// The kind stands above.
const KIND: u32 = 4;

const FREE: Packet = Packet {
    next: NONE,
    from: NONE,
    to: NONE,
    life: 0,
    seq: 0,
    stamp: 0,
    size: 0,
    alternative: 0,
    size_above: 0,
    flags: 0,
    hop: 0,
    hops: 0,
    path: [0; PATH],
};

impl Packet {
    #[inline]
    pub fn kind(&self) -> Kind {
        match self.flags >> KIND {
            0 => Kind::Data,
            1 => Kind::Trimmed,
            2 => Kind::Ack,
            3 => Kind::Nack,
            4 => Kind::Notice,
            5 => Kind::Pull,
            _ => Kind::Pause,
        }
    }
    #[inline]
    pub fn set_kind(&mut self, kind: Kind) {
        self.flags = self.flags & ((1 << KIND) - 1) | (kind as u8) << KIND;
    }
    /// Whether it goes before data.
    #[inline]
    pub fn is_control(&self) -> bool {
        self.flags >> KIND != Kind::Data as u8
    }
    /// Its payload is cut off; it was so many packets.
    pub fn trim(&mut self, packets: u32) {
        self.set_kind(Kind::Trimmed);
        self.stand_for(packets as u16);
    }
    /// Bytes on the wire of data.
    #[inline]
    pub fn bytes(&self) -> u64 {
        u64::from(self.size) | u64::from(self.size_above) << 16
    }
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        (self.size, self.size_above) = (bytes as u16, (bytes >> 16) as u8);
    }
    /// It says something about so many packets.
    #[inline]
    pub fn stand_for(&mut self, packets: u16) {
        (self.size, self.size_above) = (packets, 0);
    }
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.flags & INSIDE != 0
    }
    #[inline]
    pub fn set_inside(&mut self, inside: bool) {
        self.flags = self.flags & !INSIDE | if inside { INSIDE } else { 0 };
    }
    #[inline]
    pub fn marked(&self) -> bool {
        self.flags & MARKED != 0
    }
    #[inline]
    pub fn mark(&mut self, marked: bool) {
        self.flags = self.flags & !MARKED | if marked { MARKED } else { 0 };
    }
    #[inline]
    pub fn urgent(&self) -> bool {
        self.flags & URGENT != 0
    }
    #[inline]
    pub fn set_urgent(&mut self, urgent: bool) {
        self.flags = self.flags & !URGENT | if urgent { URGENT } else { 0 };
    }

    /// Cuts a train after so many packets, of a size: the rest of it.
    pub fn cut(&mut self, packets: u32, full: u64) -> Packet {
        let mut tail = self.clone();
        let bytes = u64::from(packets) * full;
        tail.set_bytes(self.bytes() - bytes);
        self.set_bytes(bytes);
        self.set_urgent(false);
        tail.seq += packets;
        tail
    }

    /// Gives it a path; if it is too long to carry, `long` is where it stands in [`LongPaths`].
    #[inline]
    pub fn take(&mut self, links: impl ExactSizeIterator<Item = u32>, long: u32) {
        self.hops = links.len() as u16;
        self.hop = 0;
        self.flags &= !BACKWARDS;
        if links.len() > INLINE {
            self.path[..4].copy_from_slice(&long.to_le_bytes());
            return;
        }
        for (place, link) in self.path.chunks_exact_mut(3).zip(links) {
            place.copy_from_slice(&link.to_le_bytes()[..3]);
        }
    }

    /// The link at an index of its path.
    #[inline]
    pub fn link(&self, hop: u16, long: &LongPaths) -> u32 {
        let backwards = self.flags & BACKWARDS != 0;
        let at = if backwards { self.hops - 1 - hop } else { hop } as usize;
        let link = if self.hops as usize <= INLINE {
            let p = &self.path[3 * at..3 * at + 3];
            u32::from_le_bytes([p[0], p[1], p[2], 0])
        } else {
            let p = &self.path;
            long.0[u32::from_le_bytes([p[0], p[1], p[2], p[3]]) as usize][at]
        };
        // The opposite direction of a link is its neighbour by number.
        link ^ u32::from(backwards)
    }

    /// Whether its path stands in it, the way that it goes.
    pub fn carries_path(&self) -> bool {
        usize::from(self.hops) <= INLINE && self.flags & BACKWARDS == 0
    }

    /// Another link at an index of its path.
    pub fn set_link(&mut self, hop: u16, link: u32) {
        let at = 3 * usize::from(hop);
        self.path[at..at + 3].copy_from_slice(&link.to_le_bytes()[..3]);
    }

    /// It at the next link.
    #[inline]
    pub fn one_hop_further(&self) -> Packet {
        Packet { hop: self.hop + 1, ..*self }
    }

    /// Sends it back where it came from.
    #[inline]
    pub fn turn(&mut self) {
        self.flags ^= BACKWARDS;
        self.hop = 0;
    }
}

/// Paths that are too long to carry, each once. A connection that moves leaves its packets theirs.
#[derive(Debug, Default)]
pub(crate) struct LongPaths(Vec<Vec<u32>>, HashMap<Vec<u32>, u32>);

impl LongPaths {
    /// Where a path stands; [`NONE`] if packets carry it.
    pub fn keep(&mut self, links: &[u32]) -> u32 {
        if links.len() <= INLINE {
            return NONE;
        }
        if let Some(&at) = self.1.get(links) {
            return at;
        }
        let at = self.0.len() as u32;
        self.0.push(links.to_vec());
        self.1.insert(links.to_vec(), at);
        at
    }
}

/// Packets by their number; freed ones are used again.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub packets: Vec<Packet>,
    pub free: Vec<u32>,
}

impl Pool {
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.packets.push(FREE);
            self.packets.len() as u32 - 1
        })
    }
    /// Has so many free ones.
    pub fn have(&mut self, count: usize) {
        while self.free.len() < count {
            self.packets.push(FREE);
            self.free.push(self.packets.len() as u32 - 1);
        }
    }
    /// Cuts a train after so many packets, of a size: the rest of it.
    #[cold]
    pub fn cut(&mut self, id: u32, packets: u32, full: u64) -> u32 {
        let rest = self.take();
        self.packets[rest as usize] = self.packets[id as usize].cut(packets, full);
        rest
    }
    /// The one that is taken when so many others have been will be written to soon.
    #[inline]
    pub fn fetch_free(&self, after: usize) {
        if let Some(at) = self.free.len().checked_sub(after + 1) {
            fetch(&self.packets, self.free[at] as usize);
        }
    }
    pub fn give(&mut self, packet: u32) {
        self.free.push(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_a_cache_line_and_finds_its_way_back() {
        assert_eq!(size_of::<Packet>(), 64);
        let mut packet = FREE;
        let mut long = LongPaths::default();
        for hops in [6u16, 10, 11, 30, 300, 11] {
            let links: Vec<u32> = (0..u32::from(hops)).map(|i| (1 << 24) - 2 - 4 * i).collect();
            packet.take(links.iter().copied(), long.keep(&links));
            let forwards: Vec<u32> = (0..hops).map(|hop| packet.link(hop, &long)).collect();
            assert_eq!(forwards, links);
            packet.turn();
            let backwards: Vec<u32> = (0..hops).map(|hop| packet.link(hop, &long)).collect();
            assert_eq!(backwards, links.iter().rev().map(|l| l ^ 1).collect::<Vec<_>>());
        }
        assert_eq!(long.0.len(), 3);
    }
}
