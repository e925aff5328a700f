//! What happens at the sending end of a link: queues, marks, trims, drops, pauses, transmission.
//!
//! Modelled: output queues in bytes, control packets before data; RED-like marking by the queue that a
//! packet finds; an input port's share of the switch, which pauses the port's sender (PFC) after the
//! delay of the reverse path. A NIC queues what it relays in host memory, without a limit, and marks like
//! a switch, as do the PCIe switches and NUMA nodes of a server; the scale-up network neither loses nor
//! marks. A packet leaves its input port's account
//! when its transmission begins.
//! Ignored: shared buffers between ports, the time a switch takes inside (in the link's delay), a
//! limit on control packets.

use crate::link::{Origin, State};
use crate::net::Thing;
use crate::packet::{Kind, NONE};
use crate::run::{Far, Run};
use crate::spec::Dark;
use lightloom_fabric::LinkId;

impl Run<'_> {
    /// A packet has crossed a link.
    #[inline]
    pub(crate) fn arrive(&mut self, id: u32, now: u64) {
        let packet = &mut self.net.pool.packets[id as usize];
        if packet.hop + 1 == packet.hops {
            self.deliver(id, now);
            return;
        }
        packet.hop += 1;
        let link = packet.link(packet.hop, &self.net.long);
        self.enqueue(link, id, now);
    }

    /// A packet is at the sending end of a link of its path.
    #[inline]
    pub(crate) fn enqueue(&mut self, at: u32, id: u32, now: u64) {
        let link = &mut self.net.links[at as usize];
        if link.state == State::Down {
            self.drop_packet(at, id);
            return;
        }
        let packet = &mut self.net.pool.packets[id as usize];
        if packet.kind.is_control() {
            let aside = link.into_ocs && link.state == State::Dark && !self.is_joined(at, id);
            let link = &mut self.net.links[at as usize];
            if aside || link.is_idle(now) {
                self.transmit(at, id, now);
            } else {
                link.control.push(id, &mut self.net.pool.packets);
                self.kick(at, now);
            }
            return;
        }
        let size = u64::from(packet.size);
        let at_switch = link.origin == Origin::Switch;
        if at_switch && self.settings.queue_limit < link.queued + size {
            if !self.settings.trims {
                self.drop_packet(at, id);
                return;
            }
            packet.kind = Kind::Trimmed;
            self.net.tallies[at as usize].trims += 1;
            link.control.push(id, &mut self.net.pool.packets);
            self.kick(at, now);
            return;
        }
        if link.queued >= self.settings.ecn_low && link.origin != Origin::ScaleUp {
            let share = match link.queued >= self.settings.ecn_high {
                true => 1.0,
                false => (link.queued - self.settings.ecn_low) as f64 * self.settings.ecn_slope,
            };
            if share >= 1.0 || self.draw() < share {
                self.net.pool.packets[id as usize].marked = true;
                self.net.tallies[at as usize].marks += 1;
            }
        }
        let link = &mut self.net.links[at as usize];
        if link.is_idle(now) && !link.paused && link.senders == NONE {
            self.transmit(at, id, now);
            return;
        }
        if self.settings.pauses && at_switch && !self.hold(id, size, now) {
            self.drop_packet(at, id);
            return;
        }
        let link = &mut self.net.links[at as usize];
        link.data.push(id, &mut self.net.pool.packets);
        link.queued += size;
        link.peak = link.peak.max(link.queued);
        self.kick(at, now);
    }

    /// Charges a packet to the input port that it came by; false if even its headroom is full.
    fn hold(&mut self, id: u32, size: u64, now: u64) -> bool {
        let packet = &self.net.pool.packets[id as usize];
        let Some(hop) = packet.hop.checked_sub(1) else { return true };
        let input = packet.link(hop, &self.net.long);
        let back = self.net.class(input).delay;
        let port = &mut self.net.tallies[input as usize];
        if port.held + size > self.settings.xoff_and_headroom {
            return false;
        }
        port.held += size;
        if port.held > self.settings.xoff && !port.pausing {
            port.pausing = true;
            self.counts.pause_frames += 1;
            self.later(now + back, Far::Pause { link: input, on: true });
        }
        true
    }

    fn release(&mut self, id: u32, size: u64, now: u64) {
        let packet = &self.net.pool.packets[id as usize];
        let Some(hop) = packet.hop.checked_sub(1) else { return };
        let input = packet.link(hop, &self.net.long);
        let back = self.net.class(input).delay;
        let port = &mut self.net.tallies[input as usize];
        port.held -= size;
        if port.pausing && port.held <= self.settings.xon {
            port.pausing = false;
            self.later(now + back, Far::Pause { link: input, on: false });
        }
    }

    /// A pause frame, or the end of one, reaches the link's sender.
    pub(crate) fn pause(&mut self, at: u32, on: bool, now: u64) {
        let link = &mut self.net.links[at as usize];
        let tally = &mut self.net.tallies[at as usize];
        match (link.paused, on) {
            (false, true) => tally.paused_since = now,
            (true, false) => tally.paused_for += now - tally.paused_since,
            _ => {}
        }
        link.paused = on;
        if !on {
            self.kick(at, now);
        }
    }

    #[cold]
    pub(crate) fn drop_packet(&mut self, at: u32, id: u32) {
        self.net.tallies[at as usize].drops += 1;
        self.counts.drops += 1;
        self.give(id);
    }

    /// Something may wait for a link: it sends if it is idle, or as soon as it is.
    #[inline]
    pub(crate) fn kick(&mut self, at: u32, now: u64) {
        let link = &mut self.net.links[at as usize];
        if link.pending {
            return;
        }
        if link.free_at > now {
            link.pending = true;
            let time = link.free_at;
            self.soon(Thing::Link(at), time);
        } else {
            self.serve(at, now);
        }
    }

    /// The link is idle: it takes the next packet, and is looked at again if there are more.
    #[inline]
    pub(crate) fn serve(&mut self, at: u32, now: u64) {
        let link = &mut self.net.links[at as usize];
        let waits = match link.state {
            State::Up => false,
            State::Dark => self.dark == Dark::Hold,
            State::Down => true,
        };
        if waits {
            return;
        }
        let mut next = link.control.pop(&self.net.pool.packets);
        if next.is_none() && !link.paused {
            let own_first = link.own_turn;
            if own_first {
                next = self.pull(at, now);
            }
            if next.is_none() {
                next = self.unqueue(at, now);
            }
            if next.is_none() && !own_first {
                next = self.pull(at, now);
            }
        }
        let Some(id) = next else {
            if !self.wakes.is_empty() {
                self.wake_siblings(now);
            }
            return;
        };
        self.transmit(at, id, now);
        if !self.wakes.is_empty() {
            self.wake_siblings(now);
        }
        let link = &mut self.net.links[at as usize];
        let data = !link.data.is_empty() || link.senders != NONE;
        if !link.pending && (!link.control.is_empty() || (data && !link.paused)) {
            link.pending = true;
            let time = link.free_at;
            self.soon(Thing::Link(at), time);
        }
    }

    #[inline]
    pub(crate) fn unqueue(&mut self, at: u32, now: u64) -> Option<u32> {
        let link = &mut self.net.links[at as usize];
        let id = link.data.pop(&self.net.pool.packets)?;
        let size = u64::from(self.net.pool.packets[id as usize].size);
        link.queued -= size;
        link.own_turn = true;
        if self.settings.pauses && link.origin == Origin::Switch {
            self.release(id, size, now);
        }
        Some(id)
    }

    /// Whether a circuit leads from a link to the next one of a packet's path.
    #[inline]
    fn is_joined(&self, at: u32, id: u32) -> bool {
        let packet = &self.net.pool.packets[id as usize];
        let out = packet.link(packet.hop + 1, &self.net.long);
        self.ledger.circuits.leads_to(LinkId(at)) == Some(LinkId(out))
    }

    #[inline]
    fn transmit(&mut self, at: u32, id: u32, now: u64) {
        let packet = &mut self.net.pool.packets[id as usize];
        let link = &mut self.net.links[at as usize];
        let class = self.net.classes[link.class as usize];
        let control = packet.kind.is_control();
        let size = if control { self.settings.header } else { u64::from(packet.size) };
        let end = link.free_at.max(now) + class.time_for(size);
        link.free_at = end;
        link.carried += size;
        link.packets = link.packets.wrapping_add(1);
        if link.packets == 0 {
            self.net.tallies[at as usize].rounds += 1;
        }
        let mut arrival = end + class.delay;
        if link.into_ocs {
            // Nothing waits in an optical switch: the path's next link is crossed at the same moment.
            let dark = link.state != State::Up;
            let out = packet.link(packet.hop + 1, &self.net.long);
            let joined = self.ledger.circuits.leads_to(LinkId(at)) == Some(LinkId(out));
            let down = self.net.links[out as usize].state == State::Down;
            if down || (!control && (dark || !joined)) {
                self.drop_packet(at, id);
                return;
            }
            // Feedback over a circuit that is set in one direction only takes its delay all the same.
            packet.hop += 1;
            let next = &mut self.net.links[out as usize];
            arrival += self.net.classes[next.class as usize].delay;
            next.carried += size;
            next.packets = next.packets.wrapping_add(1);
            if next.packets == 0 {
                self.net.tallies[out as usize].rounds += 1;
            }
        }
        self.soon(Thing::Packet(id), arrival);
    }
}
