//! The two halves of a connection: what its sender knows, and what its receiver does.

use crate::balancer::AnyBalancer;
use crate::conn::Message;
use crate::packet::NONE;
use crate::transport::plug::PathInfo;
use std::collections::VecDeque;

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

/// The sending half of a sub-flow, and where its packets go.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    // What every packet and every answer touches.
    pub message: u32,
    pub next_seq: u32,
    /// Packets handed to it: their numbers are below this.
    pub allotted: u32,
    /// With go-back-N: all below arrived.
    pub unacked: u32,
    pub in_flight: u32,
    /// Full payload of a packet.
    pub mtu: u32,
    /// Packets that may travel as one.
    pub train: u32,
    /// Its packets stay inside a server.
    pub inside: bool,
    pub resend: VecDeque<u32>,
    pub not_before: u64,
    pub last_heard: u64,
    /// The next connection of the same message, in a ring.
    pub sibling: u32,
    /// The next one in the ring of its first link.
    pub ready_next: u32,
    /// Its place among the shard's links.
    pub first_link: u32,
    /// Its receiver's place in its own shard.
    pub to: u32,
    pub life: u32,
    /// Times that it waited in vain.
    pub silences: u32,
    pub in_ring: bool,
    /// Planned, for when its pace lets it send.
    pub paced: bool,
    pub armed: bool,
    pub done: bool,
    /// The alternative that its last packet took.
    pub taken: u16,
    pub path: Path,
    pub balancer: AnyBalancer,
    /// The one packet that is not full, and its payload.
    pub partial: (u32, u32),
    pub info: PathInfo,
    /// The path as the policy gave it.
    pub links: Vec<u32>,
    /// Links of it that lead, over the scale-up network, to the NIC that sends: the NIC fetches by them
    /// what it is about to send, and its packets start behind them.
    pub fetched_over: u8,
    /// Where its packets find their path if that is too long to carry.
    pub long: u32,
    /// Its own place in its shard, and what the run calls it.
    pub id: u32,
    pub conn: u32,
}

/// The receiving half.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub inbound: u32,
    /// The next connection of the same flow, in a ring.
    pub sibling: u32,
    pub life: u32,
    /// With go-back-N, the next packet; where gaps are losses, all below are accounted for.
    pub expected: u32,
    pub furthest: u32,
    pub unannounced: u16,
    pub unannounced_mark: bool,
    pub nacked: bool,
    pub done: bool,
    pub seen: Vec<u64>,
    pub quiet_until: u64,
    pub pulls: u32,
    /// In the ring of which puller it is, and the next one there.
    pub puller: u32,
    pub pull_next: u32,
    /// Its sender's place in its own shard.
    pub from: u32,
    /// Full payload of a packet.
    pub mtu: u32,
    /// What packets travel to it, unless its sender's balancer chooses, and the last link of that.
    pub links: Vec<u32>,
    pub last: u32,
    pub long: u32,
}

impl Sender {
    /// One that has sent nothing.
    pub fn new(
        conn: u32,
        life: u32,
        message: u32,
        mtu: u32,
        route: Route,
        first_link: u32,
    ) -> Self {
        let Route { links, fetched_over, long, path, info, balancer } = route;
        Sender {
            message,
            next_seq: 0,
            allotted: 0,
            unacked: 0,
            in_flight: 0,
            mtu,
            train: 1,
            inside: false,
            resend: VecDeque::new(),
            not_before: 0,
            last_heard: 0,
            sibling: NONE,
            ready_next: NONE,
            first_link,
            to: NONE,
            life,
            silences: 0,
            in_ring: false,
            paced: false,
            armed: false,
            done: false,
            taken: 0,
            path,
            balancer,
            partial: (NONE, 0),
            info,
            links,
            fetched_over,
            long,
            id: NONE,
            conn,
        }
    }

    /// Goes on along another route; its first link is at a place of its shard.
    pub fn change(&mut self, route: Route, first_link: u32) {
        let Route { links, fetched_over, long, path, info, balancer } = route;
        (self.links, self.fetched_over, self.long, self.path) = (links, fetched_over, long, path);
        (self.info, self.balancer, self.first_link) = (info, balancer, first_link);
    }

    /// All that was sent and has not arrived is to be sent again.
    pub fn send_missing_again(&mut self, receiver: &Receiver) {
        self.resend = (0..self.next_seq).filter(|&seq| !receiver.has_seen(seq)).collect();
    }

    /// Whether any of what was sent has not arrived.
    pub fn misses_any(&self, receiver: &Receiver) -> bool {
        (0..self.next_seq).any(|seq| !receiver.has_seen(seq))
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
}

impl Receiver {
    /// One that has received nothing.
    pub fn new(inbound: u32, life: u32, from: u32, sender: &Sender) -> Self {
        Receiver {
            inbound,
            sibling: NONE,
            life,
            expected: 0,
            furthest: 0,
            unannounced: 0,
            unannounced_mark: false,
            nacked: false,
            done: false,
            seen: Vec::new(),
            quiet_until: 0,
            pulls: 0,
            puller: NONE,
            pull_next: NONE,
            from,
            mtu: sender.mtu,
            links: sender.travelled().to_vec(),
            last: *sender.travelled().last().expect("a path has a link"),
            long: sender.long,
        }
    }

    /// Its sender goes on along another route.
    pub fn follow(&mut self, sender: &Sender) {
        self.links = sender.travelled().to_vec();
        self.last = *sender.travelled().last().expect("a path has a link");
        self.long = sender.long;
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

    pub fn has_seen(&self, seq: u32) -> bool {
        self.seen.get(seq as usize / 64).is_some_and(|word| word >> (seq % 64) & 1 == 1)
    }
}
