//! Messages and the connections that carry them. A flow of one lane is a message with one connection;
//! of several lanes, a message whose packets are handed out to whichever connection can send next. The
//! window is the message's: its lanes share it.

use crate::balancer::AnyBalancer;
use crate::packet::NONE;
use crate::transport::AnyTransport;
use crate::transport::plug::PathInfo;
use std::collections::VecDeque;

/// What a flow sends.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The track it is part of.
    pub track: u32,
    pub bytes: u64,
    /// Not yet handed to a connection.
    pub unsent: u64,
    pub received: u64,
    pub start: u64,
    /// No flow on its lanes could arrive sooner than this after its start \[ps\].
    pub ideal: u64,
    pub control: AnyTransport,
    /// Packets in flight on all of its lanes.
    pub in_flight: u32,
    /// Its pace lets no lane send before \[ps\].
    pub not_before: u64,
}

impl Message {
    /// Whether its window, or its credit, lets it send one more packet of so many bytes.
    #[inline]
    pub fn has_room(&self, packet: f64) -> bool {
        self.control.may_send(self.in_flight, packet)
    }
}

/// Where the packets of a connection go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// How many equal paths replace the part between the NICs; 1: it goes as it stands.
    pub alternatives: u16,
    /// Links before the first NIC's own and after the last NIC's.
    pub before: u8,
    pub after: u8,
    pub source: u32,
    pub destination: u32,
}

/// Where a connection sends, and what it knows of that: all that changes when it goes elsewhere.
#[derive(Debug)]
pub(crate) struct Route {
    pub links: Vec<u32>,
    pub fetched_over: u8,
    pub long: u32,
    pub path: Path,
    pub info: PathInfo,
    pub balancer: AnyBalancer,
}

/// One sub-flow: its sender, its receiver, and where its packets go.
#[derive(Clone, Debug)]
pub(crate) struct Conn {
    pub message: u32,
    /// Which lane of the orders it carries.
    pub lane: u32,
    /// The next connection of the same message, in a ring.
    pub sibling: u32,
    /// The path as the policy gave it.
    pub links: Vec<u32>,
    /// Links of it that lead, over the scale-up network, to the NIC that sends: the NIC fetches by them
    /// what it is about to send, and its packets start behind them.
    pub fetched_over: u8,
    /// Where its packets find their path if that is too long to carry.
    pub long: u32,
    pub path: Path,
    /// The alternative that its last packet took.
    pub taken: u16,
    /// Full payload of a packet.
    pub mtu: u32,
    pub info: PathInfo,

    // The sender.
    /// The next one in the ring of its first link.
    pub ready_next: u32,
    pub in_ring: bool,
    /// In the wheel, for when its pace lets it send.
    pub paced: bool,
    pub armed: bool,
    pub done: bool,
    /// Told apart from the connections that had this place before.
    pub generation: u32,
    pub not_before: u64,
    pub next_seq: u32,
    /// Packets handed to it: their numbers are below this.
    pub allotted: u32,
    /// With go-back-N: all below arrived.
    pub unacked: u32,
    pub in_flight: u32,
    pub resend: VecDeque<u32>,
    /// The one packet that is not full, and its payload.
    pub partial: (u32, u32),
    pub balancer: AnyBalancer,
    pub last_heard: u64,
    pub silences: u32,

    // The receiver.
    pub expected: u32,
    pub furthest: u32,
    pub seen: Vec<u64>,
    pub nacked: bool,
    pub unannounced: u16,
    pub unannounced_mark: bool,
    pub quiet_until: u64,
    pub pulls: u32,
    /// In the ring of which puller it is, and the next one there.
    pub puller: u32,
    pub pull_next: u32,

    /// Its packets that are anywhere in the network.
    pub in_network: u32,
}

impl Conn {
    pub fn new(message: u32, lane: u32, mtu: u32, route: Route) -> Self {
        let Route { links, fetched_over, long, path, info, balancer } = route;
        Conn {
            message,
            lane,
            links,
            fetched_over,
            long,
            sibling: NONE,
            path,
            taken: 0,
            mtu,
            info,
            ready_next: NONE,
            in_ring: false,
            paced: false,
            armed: false,
            done: false,
            generation: 0,
            not_before: 0,
            next_seq: 0,
            allotted: 0,
            unacked: 0,
            in_flight: 0,
            resend: VecDeque::new(),
            partial: (NONE, 0),
            balancer,
            last_heard: 0,
            silences: 0,
            expected: 0,
            furthest: 0,
            seen: Vec::new(),
            nacked: false,
            unannounced: 0,
            unannounced_mark: false,
            quiet_until: 0,
            pulls: 0,
            puller: NONE,
            pull_next: NONE,
            in_network: 0,
        }
    }

    /// Goes on along another route: what did not arrive is sent again there, at once.
    pub fn change(&mut self, route: Route, go_back_n: bool) {
        let Route { links, fetched_over, long, path, info, balancer } = route;
        (self.links, self.fetched_over, self.long, self.path) = (links, fetched_over, long, path);
        (self.info, self.balancer) = (info, balancer);
        if go_back_n {
            self.next_seq = self.unacked;
        } else {
            self.send_missing_again();
        }
    }

    /// All that was sent and has not arrived is to be sent again.
    pub fn send_missing_again(&mut self) {
        self.resend = (0..self.next_seq).filter(|&seq| !self.has_seen(seq)).collect();
    }

    /// The link that its packets start with.
    #[inline]
    pub fn first_link(&self) -> u32 {
        self.links[self.fetched_over as usize]
    }

    /// What its packets travel, unless its balancer chooses.
    #[inline]
    pub fn travelled(&self) -> &[u32] {
        &self.links[self.fetched_over as usize..]
    }

    /// Payload of one of its packets.
    #[inline]
    pub fn payload(&self, seq: u32) -> u32 {
        if seq == self.partial.0 { self.partial.1 } else { self.mtu }
    }

    /// So many of its packets are in flight now.
    #[inline]
    pub fn count_in_flight(&mut self, message: &mut Message, count: u32) {
        message.in_flight = message.in_flight + count - self.in_flight;
        self.in_flight = count;
    }

    /// Whether there is something to send, given what its message has left.
    #[inline]
    pub fn has_data(&self, unsent: u64) -> bool {
        unsent > 0 || self.next_seq < self.allotted || !self.resend.is_empty()
    }

    /// Notes that a packet arrived; false if it had arrived before.
    #[inline]
    pub fn see(&mut self, seq: u32) -> bool {
        let (word, bit) = (seq as usize / 64, 1u64 << (seq % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }

    /// Whether any of what was sent has not arrived.
    pub fn misses_any(&self) -> bool {
        (0..self.next_seq).any(|seq| !self.has_seen(seq))
    }

    pub fn has_seen(&self, seq: u32) -> bool {
        self.seen.get(seq as usize / 64).is_some_and(|word| word >> (seq % 64) & 1 == 1)
    }
}
