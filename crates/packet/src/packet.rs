//! Packets, one cache line each, in a pool that is used again and again.

use crate::conn::Conn;
use crate::net::NONE;

/// Links of a path that a packet carries itself; longer paths are looked up at its connection, which
/// has no other then.
const INLINE: usize = 12;
const PATH: usize = 3 * INLINE;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Payload.
    Data,
    /// A data packet whose payload was cut off on its way.
    Trimmed,
    /// Packets that arrived: `seq` the last of them, or with go-back-N the next one expected.
    Ack,
    /// One that did not: `seq`.
    Nack,
    /// A congestion notification (DCQCN).
    Notice,
    /// Leave to send one more (NDP).
    Pull,
}

impl Kind {
    /// Whether it goes before data.
    #[inline]
    pub fn is_control(self) -> bool {
        self != Kind::Data
    }
}

/// A packet. It carries its path, three bytes a link.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// The one behind it in a queue.
    pub next: u32,
    /// Whose it is.
    pub conn: u32,
    pub seq: u32,
    /// When its data packet was sent \[ns\], wrapping.
    pub stamp: u32,
    /// Bytes on the wire of data; of an acknowledgement, how many packets it stands for.
    pub size: u16,
    /// The way that it took, of those that its balancer knows.
    pub way: u16,
    pub kind: Kind,
    /// Marked (ECN); on an acknowledgement: its data was.
    pub marked: bool,
    /// The link that it is on or waits for, as an index into its path.
    pub hop: u8,
    /// Links of its path, at most 255.
    pub hops: u8,
    path: [u8; PATH],
    /// Travels its path backwards.
    backwards: bool,
    /// The sender can send no more before it hears of this one.
    pub urgent: bool,
}

const FREE: Packet = Packet {
    next: NONE,
    conn: NONE,
    seq: 0,
    stamp: 0,
    size: 0,
    way: 0,
    kind: Kind::Data,
    marked: false,
    hop: 0,
    hops: 0,
    path: [0; PATH],
    backwards: false,
    urgent: false,
};

impl Packet {
    /// Gives it a path; if it is too long to carry, `long` is where it stands in the table.
    #[inline]
    pub fn take(&mut self, links: &[u32]) {
        self.hops = links.len() as u8;
        self.hop = 0;
        self.backwards = false;
        for (place, link) in self.path.chunks_exact_mut(3).zip(links) {
            place.copy_from_slice(&link.to_le_bytes()[..3]);
        }
    }

    /// The link at an index of its path.
    #[inline]
    pub fn link(&self, hop: u8, conns: &[Conn]) -> u32 {
        let at = if self.backwards { self.hops - 1 - hop } else { hop } as usize;
        let link = if self.hops as usize <= INLINE {
            let p = &self.path[3 * at..3 * at + 3];
            u32::from_le_bytes([p[0], p[1], p[2], 0])
        } else {
            conns[self.conn as usize].travelled()[at]
        };
        // The way back over a link is its neighbour by number.
        link ^ u32::from(self.backwards)
    }

    /// Sends it back where it came from.
    #[inline]
    pub fn turn(&mut self) {
        self.backwards = !self.backwards;
        self.hop = 0;
    }
}

/// All packets.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub packets: Vec<Packet>,
    free: Vec<u32>,
}

impl Pool {
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.packets.push(FREE);
            self.packets.len() as u32 - 1
        })
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
        let links: Vec<u32> = (0..10).map(|i| (1 << 24) - 2 - 4 * i).collect();
        packet.take(&links);
        let forwards: Vec<u32> = (0..10).map(|hop| packet.link(hop, &[])).collect();
        assert_eq!(forwards, links);
        packet.turn();
        let backwards: Vec<u32> = (0..10).map(|hop| packet.link(hop, &[])).collect();
        assert_eq!(backwards, links.iter().rev().map(|l| l ^ 1).collect::<Vec<_>>());
    }
}
