//! Everything that moves, under one roof: what the wheel can hold, and who is who among its ids.

use crate::conn::{Conn, Message};
use crate::link::Link;
use crate::packet::Pool;
use crate::wheel::{NONE, Timed};

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
    pub time: u64,
    pub next: u32,
    pub pending: bool,
    /// Flows that want to ask, in a ring: the last one served.
    pub ring: u32,
    /// No pull before this time \[ps\].
    pub free_at: u64,
}

impl Puller {
    pub const IDLE: Puller = Puller { time: 0, next: NONE, pending: false, ring: NONE, free_at: 0 };
}

#[derive(Debug, Default)]
pub(crate) struct Net {
    pub links: Vec<Link>,
    pub pool: Pool,
    pub conns: Vec<Conn>,
    pub messages: Vec<Message>,
    /// By link; empty unless receivers pull.
    pub pullers: Vec<Puller>,
}

impl Timed for Net {
    #[inline]
    fn time(&self, id: u32) -> u64 {
        match Thing::of(id) {
            Thing::Packet(i) => self.pool.packets[i as usize].time,
            Thing::Link(i) => self.links[i as usize].time,
            Thing::Conn(i) => self.conns[i as usize].time,
            Thing::Puller(i) => self.pullers[i as usize].time,
        }
    }
    #[inline]
    fn next(&mut self, id: u32) -> &mut u32 {
        match Thing::of(id) {
            Thing::Packet(i) => &mut self.pool.packets[i as usize].next,
            Thing::Link(i) => &mut self.links[i as usize].next,
            Thing::Conn(i) => &mut self.conns[i as usize].next,
            Thing::Puller(i) => &mut self.pullers[i as usize].next,
        }
    }
}
