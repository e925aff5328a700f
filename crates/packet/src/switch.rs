//! What happens at the sending end of a link: queues, marks, trims, drops, pauses, transmission.
//!
//! Modelled: output queues in bytes, control packets before data; RED-like marking by the queue that a
//! packet finds; an input port's share of the switch, which pauses the port's sender (PFC) after the
//! delay of the reverse path. A NIC queues what it relays in host memory, without a limit, and marks like
//! a switch, as do the PCIe switches and NUMA nodes of a server; the scale-up network neither loses nor
//! marks. A packet leaves its input port's account
//! when its transmission begins. What arrives just when a link falls idle is there before it chooses.
//! A switch's queues may share a buffer, of which each has a share that shrinks as it fills.
//! Ignored: the time a switch takes inside (in the link's delay), a limit on control packets.

use crate::common::Common;
use crate::link::{Origin, State};
use crate::overflow::plug::Buffer;
use crate::packet::NONE;
use crate::schedule::Arrival;
use crate::shard::Shard;
use crate::spec::Dark;
use crate::things::Thing;
use lightloom_fabric::LinkId;

impl Shard<'_> {
    /// A packet has crossed a link.
    #[inline]
    pub(crate) fn arrive(&mut self, c: &Common<'_>, id: u32, now: u64) {
        let packet = &self.pool.packets[id as usize];
        if packet.hop >= packet.hops {
            self.deliver(c, id, now);
            return;
        }
        if c.settings.steers {
            self.steer(c, id, now);
        }
        let packet = &self.pool.packets[id as usize];
        let at = c.at(packet.link(packet.hop, c.long));
        self.enqueue(c, at, id, now);
    }

    /// How many bytes a switch's queue may hold now.
    #[inline]
    fn limit(&self, c: &Common<'_>, at: u32) -> u64 {
        match c.settings.buffer {
            None => c.settings.queue_limit,
            Some(Buffer { buffer, alpha }) => {
                let free = buffer.get() - self.held[self.switch_of[at as usize] as usize];
                ((alpha * free as f64) as u64).min(self.links[at as usize].queued + free)
            }
        }
    }

    /// A packet is at the sending end of a link of its path.
    #[inline]
    pub(crate) fn enqueue(&mut self, c: &Common<'_>, at: u32, id: u32, now: u64) {
        let link = &mut self.links[at as usize];
        if link.state == State::Down {
            self.drop_packet(c, at, id);
            return;
        }
        let packet = &mut self.pool.packets[id as usize];
        if packet.is_control() {
            let aside = link.into_ocs && link.state == State::Dark && !self.is_joined(c, at, id);
            let link = &mut self.links[at as usize];
            if aside || link.is_idle(now) {
                self.transmit(c, at, id, now);
            } else if c.settings.trains() && link.state == State::Up && link.free_at > now {
                self.transmit_between(c, at, id, now);
            } else {
                link.control.push(id, &mut self.pool.packets);
                self.kick_queue(c, at, now);
            }
            return;
        }
        let size = packet.bytes();
        let at_switch = link.origin == Origin::Switch;
        let queued = link.queued;
        if at_switch && self.limit(c, at) < queued + size {
            let room = (self.limit(c, at).saturating_sub(queued)) / c.settings.full;
            let packets = c.settings.packets_in(size, c.settings.full);
            if room > 0 && packets > 1 {
                // What has room of a train goes on.
                let rest = self.pool.cut(id, room as u32, c.settings.full);
                self.enqueue(c, at, id, now);
                self.enqueue(c, at, rest, now);
                return;
            }
            if !c.settings.trims {
                self.drop_packet(c, at, id);
                return;
            }
            self.pool.packets[id as usize].trim(packets);
            self.tallies[at as usize].trims += u64::from(packets);
            self.links[at as usize].control.push(id, &mut self.pool.packets);
            self.kick_queue(c, at, now);
            return;
        }
        if queued >= c.settings.ecn_low && self.links[at as usize].origin != Origin::ScaleUp {
            let tally = &mut self.tallies[at as usize];
            if c.marks(queued, self.names[at as usize], tally.marks, now) {
                let packet = &mut self.pool.packets[id as usize];
                packet.mark(true);
                tally.marks += u64::from(c.settings.packets_in(size, c.settings.full_of(packet)));
            }
        }
        let link = &mut self.links[at as usize];
        if link.is_idle(now) && !link.paused && link.senders == NONE {
            self.transmit(c, at, id, now);
            return;
        }
        if c.settings.pauses && at_switch && !self.hold(c, id, size, now) {
            self.drop_packet(c, at, id);
            return;
        }
        let link = &mut self.links[at as usize];
        link.data.push(id, &mut self.pool.packets);
        link.queued += size;
        link.peak = link.peak.max(link.queued);
        if at_switch && c.settings.buffer.is_some() {
            self.held[self.switch_of[at as usize] as usize] += size;
        }
        self.kick_queue(c, at, now);
    }

    /// Something waits at a link now. A port is served by whoever works it off.
    #[inline]
    fn kick_queue(&mut self, c: &Common<'_>, at: u32, now: u64) {
        if self.transit.current != NONE {
            self.kick(c, at, now);
        }
    }

    #[cold]
    pub(crate) fn drop_packet(&mut self, c: &Common<'_>, at: u32, id: u32) {
        let packet = &self.pool.packets[id as usize];
        let packets = match packet.is_control() {
            true => 1,
            false => u64::from(c.settings.packets_in(packet.bytes(), c.settings.full_of(packet))),
        };
        self.tallies[at as usize].drops += packets;
        self.counts.drops += packets;
        self.pool.give(id);
    }

    /// Whether nothing leaves a link, whatever waits.
    #[inline]
    pub(crate) fn stands(&self, c: &Common<'_>, at: u32) -> bool {
        match self.links[at as usize].state {
            State::Up => false,
            State::Dark => c.dark == Dark::Hold,
            State::Down => true,
        }
    }

    /// What a port sends before a time: whenever it falls idle, what waits then.
    #[inline]
    pub(crate) fn serve_until(&mut self, c: &Common<'_>, at: u32, end: u64) {
        loop {
            let link = &mut self.links[at as usize];
            let now = link.free_at;
            if now >= end || (link.control.is_empty() && link.data.is_empty()) {
                return;
            }
            if link.state != State::Up && self.stands(c, at) {
                return;
            }
            let link = &mut self.links[at as usize];
            let id = match link.control.pop(&self.pool.packets) {
                Some(id) => id,
                None => {
                    let id = link.data.pop(&self.pool.packets).expect("one of them is not empty");
                    link.queued -= self.pool.packets[id as usize].bytes();
                    id
                }
            };
            self.transmit(c, at, id, now);
        }
    }

    /// The link is idle: it takes the next packet, and is looked at again if there are more.
    #[inline]
    pub(crate) fn serve(&mut self, c: &Common<'_>, at: u32, now: u64) {
        if self.stands(c, at) {
            return;
        }
        let link = &mut self.links[at as usize];
        let mut next = link.control.pop(&self.pool.packets);
        if next.is_none() && !link.paused {
            let own_first = link.own_turn;
            if own_first {
                next = self.pull(c, at, now);
            }
            if next.is_none() {
                next = self.unqueue(c, at, now);
            }
            if next.is_none() && !own_first {
                next = self.pull(c, at, now);
            }
        }
        let Some(id) = next else {
            if !self.wakes.is_empty() {
                self.wake_siblings(c, now);
            }
            return;
        };
        self.transmit(c, at, id, now);
        if !self.wakes.is_empty() {
            self.wake_siblings(c, now);
        }
        let link = &mut self.links[at as usize];
        let data = !link.data.is_empty() || link.senders != NONE;
        if !link.pending && (!link.control.is_empty() || (data && !link.paused)) {
            link.pending = true;
            let time = link.free_at;
            self.transit.plan(self.unit_of[at as usize], Thing::Link(at), time);
        }
    }

    #[inline]
    pub(crate) fn unqueue(&mut self, c: &Common<'_>, at: u32, now: u64) -> Option<u32> {
        let link = &mut self.links[at as usize];
        let id = link.data.pop(&self.pool.packets)?;
        let size = self.pool.packets[id as usize].bytes();
        link.queued -= size;
        link.own_turn = true;
        if link.origin == Origin::Switch {
            if c.settings.pauses {
                self.release(c, id, size, now);
            }
            if c.settings.buffer.is_some() {
                self.held[self.switch_of[at as usize] as usize] -= size;
            }
        }
        Some(id)
    }

    /// Whether a circuit leads from a link to the next one of a packet's path.
    #[inline]
    fn is_joined(&self, c: &Common<'_>, at: u32, id: u32) -> bool {
        let packet = &self.pool.packets[id as usize];
        let out = packet.link(packet.hop + 1, c.long);
        c.circuits.leads_to(LinkId(self.names[at as usize])) == Some(LinkId(out))
    }

    #[inline]
    fn transmit(&mut self, c: &Common<'_>, at: u32, id: u32, now: u64) {
        let link = &mut self.links[at as usize];
        let start = link.free_at.max(now);
        link.free_at = start;
        self.transmit_at(c, at, id, start);
    }

    /// A control packet goes between two packets of the train that a link sends, which lasts that longer.
    fn transmit_between(&mut self, c: &Common<'_>, at: u32, id: u32, now: u64) {
        let link = &self.links[at as usize];
        let full = match link.origin {
            Origin::ScaleUp | Origin::Host => c.settings.full_inside,
            _ => c.settings.full,
        };
        let packet = c.classes[link.class as usize].time_for(full);
        let start = now + (link.free_at - now) % packet;
        self.transmit_at(c, at, id, start);
    }

    #[inline]
    fn transmit_at(&mut self, c: &Common<'_>, at: u32, id: u32, start: u64) {
        let packet = &mut self.pool.packets[id as usize];
        let link = &mut self.links[at as usize];
        let class = c.classes[link.class as usize];
        let (control, full) = (packet.is_control(), c.settings.full_of(packet));
        let (size, count) = match control {
            true => (c.settings.headers(packet.size) * c.settings.header, 1),
            false => (packet.bytes(), c.settings.packets_in(packet.bytes(), full)),
        };
        let takes = class.time_for(size);
        let end = start + takes;
        link.free_at += takes;
        link.carried += size;
        let before = link.packets;
        link.packets = link.packets.wrapping_add(count);
        if link.packets < before {
            self.tallies[at as usize].rounds += 1;
        }
        let mut arrival = end + class.delay;
        let over = packet.link(packet.hop, c.long);
        let mut last = over;
        if link.into_ocs {
            // Nothing waits in an optical switch: the path's next link is crossed at the same moment.
            let dark = link.state != State::Up;
            let out = packet.link(packet.hop + 1, c.long);
            let joined = c.circuits.leads_to(LinkId(over)) == Some(LinkId(out));
            if c.circuits.is_down(LinkId(out)) || (!control && (dark || !joined)) {
                self.drop_packet(c, at, id);
                return;
            }
            // Feedback over a circuit that is set in one direction only takes its delay all the same.
            packet.hop += 1;
            arrival += c.class(out).delay;
            let through = &mut self.through[c.at(out) as usize];
            *through = (through.0 + size, through.1 + 1);
            last = out;
        }
        let hop = packet.hop + 1;
        // Where the other direction begins this one ends.
        let next = if hop < packet.hops { packet.link(hop, c.long) } else { last ^ 1 };
        if count > 1 && hop < packet.hops {
            // A train is there as soon as its first packet is, unless the next link would overtake it.
            if c.class(next).is_no_faster(&class) {
                arrival -= takes - class.time_for(full);
            }
        }
        let arrival = Arrival::new(arrival, over, id);
        self.transit.deposit(&mut self.pool, c.units[next as usize], arrival);
    }
}
