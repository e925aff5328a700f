//! Links and the queues at their sending ends.

use crate::packet::{NONE, Packet};
use lightloom_fabric::{Fabric, LinkClass, NodeKind};
use lightloom_units::BitRate;

/// Where a link starts, as far as its queue cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A packet switch, or the router on a chip: its queue is limited.
    Switch,
    /// A NIC: host memory queues what it relays.
    Nic,
    /// A GPU or a server's scale-up network, which loses nothing and marks nothing.
    ScaleUp,
    /// PCIe of a server, which loses nothing but marks.
    Host,
    /// An optical switch: nothing queues, light goes through.
    Ocs,
}

/// Whether a link carries anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Up,
    /// An optical switch is being reconfigured: what waits is held or lost, as [`crate::Dark`] says.
    Dark,
    /// Broken: what comes to it is lost.
    Down,
}

/// One link and what waits for it: what every packet touches, in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Link {
    /// It has sent the last byte of what it sends \[ps\].
    pub free_at: u64,
    /// Bytes of data that wait.
    pub queued: u64,
    /// The most that ever waited.
    pub peak: u64,
    pub carried: u64,
    pub data: Fifo,
    pub control: Fifo,
    /// The flows that send into it, in a ring: the one served last.
    pub senders: u32,
    /// Packets carried, modulo 2^32; see [`Tally::rounds`].
    pub packets: u32,
    /// Which [`Class`] it is of.
    pub class: u16,
    pub origin: Origin,
    /// It is planned to be looked at when it falls idle.
    pub pending: bool,
    /// Stands still by a pause frame: data waits.
    pub paused: bool,
    pub state: State,
    /// Leads into an optical switch.
    pub into_ocs: bool,
    /// Whose turn it is if both its queue and its own flows have something.
    pub own_turn: bool,
}

/// What links of one rate and delay share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub delay: u64,
    /// Picoseconds a byte, in units of 2^-20.
    cost: u64,
}

/// What is counted of a link, and what few packets touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// How often [`Link::packets`] has come round.
    pub rounds: u64,
    pub marks: u64,
    pub drops: u64,
    pub trims: u64,
    /// Packets of its NIC's flows that chose a path, from a start of its own.
    pub turn: u32,
    /// Bytes that came over the other direction of this link and wait in the switch where that ends.
    pub held: u64,
    /// The sender of that direction must stand still.
    pub pausing: bool,
    pub paused_since: u64,
    pub paused_for: u64,
}

/// A queue of packets, linked through themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

/// Where the links of a fabric start.
pub(crate) fn origins(fabric: &Fabric) -> Vec<Origin> {
    let of = |link: &lightloom_fabric::Link| match fabric.nodes()[link.from.index()].kind {
        NodeKind::Gpu | NodeKind::Nic if link.class == LinkClass::Pcie => Origin::Host,
        // The router on a chip that forwards what others send, too.
        NodeKind::Gpu if matches!(link.class, LinkClass::Mesh | LinkClass::Rail) => Origin::Switch,
        NodeKind::Switch { .. } => Origin::Switch,
        NodeKind::Nic => Origin::Nic,
        NodeKind::PcieSwitch | NodeKind::Numa => Origin::Host,
        NodeKind::Gpu | NodeKind::ScaleUp => Origin::ScaleUp,
        NodeKind::Ocs { .. } => Origin::Ocs,
    };
    fabric.links().iter().map(of).collect()
}

impl Fifo {
    pub const EMPTY: Fifo = Fifo { head: NONE, tail: NONE };

    #[inline]
    pub fn is_empty(self) -> bool {
        self.head == NONE
    }
    /// The next one to leave; no number of a packet if there is none.
    #[inline]
    pub fn first(self) -> u32 {
        self.head
    }
    #[inline]
    pub fn push(&mut self, id: u32, packets: &mut [Packet]) {
        packets[id as usize].next = NONE;
        match self.tail {
            NONE => self.head = id,
            tail => packets[tail as usize].next = id,
        }
        self.tail = id;
    }
    #[inline]
    pub fn pop(&mut self, packets: &[Packet]) -> Option<u32> {
        if self.head == NONE {
            return None;
        }
        let id = self.head;
        self.head = packets[id as usize].next;
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(id)
    }
}

impl Class {
    pub fn of(link: &lightloom_fabric::Link) -> Self {
        Class::new(link.rate, link.delay.ps())
    }

    /// Of a rate and a delay \[ps\].
    pub fn new(rate: BitRate, delay: u64) -> Self {
        // 8e12 bit * ps / s over the rate; at 1 bit/s this still fits into 64 bits.
        let cost = (8_000_000_000_000u128 << 20).div_ceil(u128::from(rate.bps().max(1)));
        Class { delay, cost: cost as u64 }
    }

    /// How long so many bytes take \[ps\]; rounded up, so that no link is faster than it is.
    #[inline]
    pub fn time_for(&self, bytes: u64) -> u64 {
        ((u128::from(bytes) * u128::from(self.cost) + ((1 << 20) - 1)) >> 20) as u64
    }

    /// Whether a byte takes at least as long as on another.
    #[inline]
    pub fn is_no_faster(&self, other: &Class) -> bool {
        self.cost >= other.cost
    }

    /// How many bytes come in a time \[ps\], at most.
    pub fn bytes_in(&self, time: u64) -> u64 {
        ((u128::from(time) << 20) / u128::from(self.cost.max(1)) + 1).min(1 << 60) as u64
    }
}

impl Link {
    pub fn new(class: u16, origin: Origin, into_ocs: bool) -> Self {
        Link {
            free_at: 0,
            queued: 0,
            peak: 0,
            carried: 0,
            data: Fifo::EMPTY,
            control: Fifo::EMPTY,
            senders: NONE,
            packets: 0,
            class,
            origin,
            pending: false,
            paused: false,
            state: State::Up,
            into_ocs,
            own_turn: false,
        }
    }

    /// Whether it can send at once: nothing is in flight or waits before it.
    #[inline]
    pub fn is_idle(&self, now: u64) -> bool {
        self.free_at <= now
            && !self.pending
            && self.state == State::Up
            && self.control.is_empty()
            && self.data.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::NodeId;
    use lightloom_units::{BitRate, Bytes, Time};
    use proptest::prelude::*;

    #[test]
    fn a_link_is_a_cache_line() {
        assert_eq!(size_of::<Link>(), 64);
    }

    proptest! {
        /// Never less than the exact time, and at most a picosecond more.
        #[test]
        fn serialisation_is_exact_to_a_picosecond(bps in 1_000_000_000u64..4_000_000_000_000, bytes in 1u64..65_536) {
            let rate = BitRate::from_bps(bps);
            let link = lightloom_fabric::Link {
                from: NodeId(0), to: NodeId(1), rate, delay: Time::ZERO, class: LinkClass::Host, lanes: 1,
            };
            let (got, exact) = (Class::of(&link).time_for(bytes), rate.time_for(Bytes::new(bytes)).ps());
            prop_assert!(got >= exact && got <= exact + 1, "{} {}", got, exact);
        }
    }
}
