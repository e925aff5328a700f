//! Everything that moves, under one roof: what the wheel can hold, and who is who among its ids.

use crate::conn::{Conn, Message};
use crate::link::{Class, Link, Tally};
use crate::packet::{LongPaths, NONE, Pool};

/// The two highest bits of an id in the wheel say what it is.
const KIND: u32 = 0b11 << 30;
const LINK: u32 = 0b01 << 30;
const CONN: u32 = 0b10 << 30;
const PULLER: u32 = 0b11 << 30;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    /// A packet arrives at the end of a link.
    Packet(u32),
    /// A link falls idle.
    Link(u32),
    /// The pace of a connection lets it send.
    Conn(u32),
    /// A receiver's link may ask for one more packet.
    Puller(u32),
}

impl Thing {
    #[inline]
    pub fn id(self) -> u32 {
        match self {
            Thing::Packet(id) => id,
            Thing::Link(id) => id | LINK,
            Thing::Conn(id) => id | CONN,
            Thing::Puller(id) => id | PULLER,
        }
    }
    #[inline]
    pub fn of(id: u32) -> Self {
        match id & KIND {
            LINK => Thing::Link(id & !KIND),
            CONN => Thing::Conn(id & !KIND),
            PULLER => Thing::Puller(id & !KIND),
            _ => Thing::Packet(id),
        }
    }
}

/// A receiver's link, which asks for packets at its own rate, flow by flow (NDP).
#[derive(Clone, Debug)]
pub(crate) struct Puller {
    /// In the wheel.
    pub pending: bool,
    /// Flows that want to ask, in a ring: the last one served.
    pub ring: u32,
    /// No pull before this time \[ps\].
    pub free_at: u64,
}

impl Puller {
    pub const IDLE: Puller = Puller { pending: false, ring: NONE, free_at: 0 };
}

#[derive(Debug, Default)]
pub(crate) struct Net {
    pub links: Vec<Link>,
    /// By link.
    pub tallies: Vec<Tally>,
    pub classes: Vec<Class>,
    pub pool: Pool,
    pub long: LongPaths,
    pub conns: Vec<Conn>,
    pub messages: Vec<Message>,
    /// By link; empty unless receivers pull.
    pub pullers: Vec<Puller>,
}

impl Net {
    /// Rate and delay of a link.
    #[inline]
    pub fn class(&self, link: u32) -> Class {
        self.classes[self.links[link as usize].class as usize]
    }
}
