//! Everything that moves, under one roof: what the wheel can hold, and who is who among its ids.

use crate::conn::{Conn, Message};
use crate::link::{Class, Link, Origin, Tally};
use crate::packet::{LongPaths, NONE, Pool};
use lightloom_fabric::{Fabric, GpuId, LinkClass, LinkId, NicId, NodeId, NodeKind};
use lightloom_units::BitRate;

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
    /// The links of a fabric, with nothing on them.
    pub fn new(fabric: &Fabric, pulls: bool) -> Self {
        let kind = |node: NodeId| fabric.nodes()[node.0 as usize].kind;
        let mut net = Net::default();
        for link in fabric.links() {
            let at = net.class_number(Class::of(link));
            let origin = match kind(link.from) {
                NodeKind::Gpu | NodeKind::Nic if link.class == LinkClass::Pcie => Origin::Host,
                // The router on a chip that forwards what others send, too.
                NodeKind::Gpu if matches!(link.class, LinkClass::Mesh | LinkClass::Rail) => {
                    Origin::Switch
                }
                NodeKind::Switch { .. } => Origin::Switch,
                NodeKind::Nic => Origin::Nic,
                NodeKind::PcieSwitch | NodeKind::Numa => Origin::Host,
                NodeKind::Gpu | NodeKind::ScaleUp => Origin::ScaleUp,
                NodeKind::Ocs { .. } => Origin::Ocs,
            };
            let into_ocs = matches!(kind(link.to), NodeKind::Ocs { .. });
            net.links.push(Link::new(at, origin, into_ocs));
            net.tallies.push(Tally { turn: link.from.0, ..Tally::default() });
        }
        if pulls {
            net.pullers = vec![Puller::IDLE; net.links.len()];
        }
        net
    }

    fn class_number(&mut self, class: Class) -> u16 {
        let at = self.classes.iter().position(|&other| other == class).unwrap_or_else(|| {
            self.classes.push(class);
            self.classes.len() - 1
        });
        at as u16
    }

    /// A link carries at this rate from the next packet on.
    pub fn set_rate(&mut self, link: LinkId, rate: BitRate) {
        let delay = self.class(link.0).delay;
        self.links[link.index()].class = self.class_number(Class::new(rate, delay));
    }

    /// As far ahead as the slowest ordinary link needs for so many bytes; what is slower waits in the
    /// event queue.
    pub fn horizon(&self, bytes: u64) -> u64 {
        let times = self.links.iter().map(|link| {
            let class = self.classes[link.class as usize];
            let delay = class.delay.saturating_mul(1 + u64::from(link.into_ocs));
            delay.saturating_add(class.time_for(bytes))
        });
        times.filter(|&time| time < 1 << 34).max().unwrap_or(0)
    }

    /// Rate and delay of a link.
    #[inline]
    pub fn class(&self, link: u32) -> Class {
        self.classes[self.links[link as usize].class as usize]
    }

    /// The message of a connection that has not ended.
    #[inline]
    pub fn message_of(&mut self, conn: u32) -> Option<&mut Message> {
        let conn = &self.conns[conn as usize];
        if conn.done { None } else { self.messages.get_mut(conn.message as usize) }
    }

    /// The longest round trip over packet switches from the first NIC that is plugged into one, or over
    /// routers on chips from the first chip \[ps\]; 0 where there are neither.
    pub fn longest_round_trip(&self, fabric: &Fabric, packet: u64, header: u64) -> u64 {
        if self.links.iter().any(|link| link.origin == Origin::Switch && link.into_ocs) {
            return self.longest_between_chips(fabric, packet, header);
        }
        let nics = || (0..fabric.cluster().nics()).map(NicId);
        let mut path = Vec::new();
        let mut between = |from, to| {
            path.clear();
            fabric.nic_route(from, to, 0, &mut path).ok()?;
            Some(round_trip(path.iter().map(|link| self.class(link.0)), packet, header))
        };
        let first = nics().find(|&nic| between(nic, nic).is_some());
        first.and_then(|first| nics().filter_map(|nic| between(first, nic)).max()).unwrap_or(0)
    }

    fn longest_between_chips(&self, fabric: &Fabric, packet: u64, header: u64) -> u64 {
        let mut path = Vec::new();
        let trips = (0..fabric.cluster().gpus).filter_map(|chip| {
            path.clear();
            fabric.route(GpuId(0), GpuId(chip), 0, &mut path).ok()?;
            Some(round_trip(path.iter().map(|link| self.class(link.0)), packet, header))
        });
        trips.max().unwrap_or(0)
    }

    // ---- the connections that may send, in a ring a first link: each names the next

    /// A connection joins the ring of its first link, as the last.
    #[inline]
    pub fn join_ring(&mut self, id: u32) {
        let conn = &mut self.conns[id as usize];
        conn.in_ring = true;
        let at = conn.first_link();
        let last = self.links[at as usize].senders;
        if last == NONE {
            self.conns[id as usize].ready_next = id;
        } else {
            let first = self.conns[last as usize].ready_next;
            self.conns[id as usize].ready_next = first;
            self.conns[last as usize].ready_next = id;
        }
        self.links[at as usize].senders = id;
    }

    /// A connection leaves the ring of a link, whose `last` names it as the next.
    #[inline]
    pub fn leave_ring(&mut self, at: u32, last: u32, id: u32) {
        let conn = &mut self.conns[id as usize];
        conn.in_ring = false;
        let next = conn.ready_next;
        if last == id {
            self.links[at as usize].senders = NONE;
        } else {
            self.conns[last as usize].ready_next = next;
        }
    }

    /// MinRTT: whether a sub-flow of the same message should send instead.
    #[inline]
    pub fn yields(&self, id: u32, unsent: u64) -> bool {
        let conn = &self.conns[id as usize];
        let own = match conn.balancer.round_trip() {
            Some(own) if conn.sibling != id && own > 0 && unsent > 0 => own,
            _ => return false,
        };
        // What was handed to it only it can send.
        if conn.next_seq < conn.allotted || !conn.resend.is_empty() {
            return false;
        }
        let mut other = conn.sibling;
        while other != id {
            let sibling = &self.conns[other as usize];
            let faster = sibling.balancer.round_trip().is_some_and(|rtt| rtt < own);
            if faster && sibling.in_ring {
                return true;
            }
            other = sibling.sibling;
        }
        false
    }

    // ---- the flows that want to ask for packets, in a ring a receiver's link

    /// A flow of a link wants to ask once more; whether the link is to be woken.
    #[inline]
    pub fn want_pull(&mut self, id: u32) -> Option<(u32, u64)> {
        let conn = &mut self.conns[id as usize];
        if conn.pulls == 0 {
            conn.puller = *conn.links.last().expect("a path has a link");
        }
        let at = conn.puller;
        conn.pulls += 1;
        let puller = &mut self.pullers[at as usize];
        if conn.pulls == 1 {
            match puller.ring {
                NONE => conn.pull_next = id,
                last => {
                    let first = self.conns[last as usize].pull_next;
                    self.conns[id as usize].pull_next = first;
                    self.conns[last as usize].pull_next = id;
                }
            }
            puller.ring = id;
        }
        let idle = !std::mem::replace(&mut puller.pending, true);
        idle.then_some((at, puller.free_at))
    }

    /// The next flow of a link has its turn to ask: its connection. What it asks for takes `header` besides.
    #[inline]
    pub fn next_pull(&mut self, at: u32, header: u64, now: u64) -> u32 {
        let last = self.pullers[at as usize].ring;
        let id = self.conns[last as usize].pull_next;
        let conn = &mut self.conns[id as usize];
        conn.pulls -= 1;
        if conn.done {
            conn.pulls = 0;
        }
        let (done, left, next) = (conn.done, conn.pulls, conn.pull_next);
        let size = u64::from(conn.mtu) + header;
        let gap = if done { 0 } else { self.class(at).time_for(size) };
        let puller = &mut self.pullers[at as usize];
        if left > 0 {
            puller.ring = id;
        } else if last == id {
            puller.ring = NONE;
        } else {
            self.conns[last as usize].pull_next = next;
        }
        puller.pending = puller.ring != NONE;
        puller.free_at = now + gap;
        id
    }
}

/// A full packet out, store and forward, and an acknowledgement back \[ps\].
pub(crate) fn round_trip(links: impl Iterator<Item = Class>, packet: u64, header: u64) -> u64 {
    links.map(|link| 2 * link.delay + link.time_for(packet) + link.time_for(header)).sum()
}
