//! What a unit can plan.

use crate::packet::NONE;

/// The two highest bits of an id say what it is.
const KIND: u32 = 0b11 << 30;
const LINK: u32 = 0b01 << 30;
const SENDER: u32 = 0b10 << 30;
const PULLER: u32 = 0b11 << 30;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    /// A packet arrives at the end of a link inside the unit.
    Packet(u32),
    /// A link falls idle.
    Link(u32),
    /// The pace of a connection lets it send.
    Sender(u32),
    /// A receiver's link may ask for one more packet.
    Puller(u32),
}

impl Thing {
    #[inline]
    pub fn id(self) -> u32 {
        match self {
            Thing::Packet(id) => id,
            Thing::Link(id) => id | LINK,
            Thing::Sender(id) => id | SENDER,
            Thing::Puller(id) => id | PULLER,
        }
    }
    /// The link that may fall idle, if that is it.
    #[inline]
    pub fn link(id: u32) -> Option<u32> {
        match Thing::of(id) {
            Thing::Link(at) => Some(at),
            _ => None,
        }
    }
    #[inline]
    pub fn of(id: u32) -> Self {
        match id & KIND {
            LINK => Thing::Link(id & !KIND),
            SENDER => Thing::Sender(id & !KIND),
            PULLER => Thing::Puller(id & !KIND),
            _ => Thing::Packet(id),
        }
    }
}

/// A receiver's link, which asks for packets at its own rate, flow by flow (NDP).
#[derive(Clone, Debug)]
pub(crate) struct Puller {
    /// It has planned its next pull.
    pub pending: bool,
    /// Flows that want to ask, in a ring: the last one served.
    pub ring: u32,
    /// No pull before this time \[ps\].
    pub free_at: u64,
}

impl Puller {
    pub const IDLE: Puller = Puller { pending: false, ring: NONE, free_at: 0 };
}
