//! A port of a switch, worked off window by window: what most packets meet most often.
//!
//! It needs no events but arrivals. What it sent since the last one follows from its queue: whenever it
//! falls idle, control packets first. What arrives just then is there before it chooses.
//! The rules are those of `switch.rs`, without pauses and flows of its own; what leads into an optical
//! switch, and what is dark or broken, is left to that file.

use crate::ahead::fetch;
use crate::link::{Class, Link, State};
use crate::packet::{Packet, Pool};
use crate::schedule::Arrival;
use crate::shard::{Common, Shard, Transit};

/// What a port sends with, and by what.
struct Port<'s, 'c, 'd> {
    c: &'c Common<'d>,
    link: &'s mut Link,
    pool: &'s mut Pool,
    transit: &'s mut Transit,
    name: u32,
    class: Class,
    /// What a control packet takes \[ps\].
    control: u64,
}

impl Port<'_, '_, '_> {
    /// A packet leaves, at `now` at the earliest.
    #[inline(always)]
    fn send(&mut self, id: u32, now: u64) {
        let (c, link) = (self.c, &mut *self.link);
        let packet = &mut self.pool.packets[id as usize];
        let (size, takes) = match packet.is_control() {
            true => (c.settings.header, self.control),
            false => (u64::from(packet.size), self.class.time_for(u64::from(packet.size))),
        };
        let end = now + takes;
        link.free_at = end;
        link.carried += size;
        link.packets = link.packets.wrapping_add(1);
        let hop = packet.hop + 1;
        let next = if hop < packet.hops { packet.link(hop, c.long) } else { self.name ^ 1 };
        let to = c.units[next as usize];
        let arrival = Arrival { time: end + self.class.delay, link: self.name, packet: id };
        if to.shard() == self.transit.number {
            packet.hop = hop;
            self.transit.post(to.at(), arrival);
        } else {
            self.transit.send_away(self.pool, to, arrival);
        }
    }

    /// What leaves before a time.
    #[inline(always)]
    fn serve(&mut self, end: u64) {
        while self.link.free_at < end {
            let now = self.link.free_at;
            let packets: &[Packet] = &self.pool.packets;
            if let Some(id) = self.link.control.pop(packets) {
                fetch(packets, self.link.control.first() as usize);
                self.send(id, now);
            } else if let Some(id) = self.link.data.pop(packets) {
                self.link.queued -= u64::from(packets[id as usize].size);
                fetch(packets, self.link.data.first() as usize);
                self.send(id, now);
            } else {
                return;
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.link.control.is_empty() && self.link.data.is_empty()
    }
}

impl Shard<'_> {
    /// A port: what arrives, and between that what leaves. When it does something next by itself.
    pub(crate) fn work_port(
        &mut self,
        c: &Common<'_>,
        at: u32,
        inbox: &[Arrival],
        end: u64,
    ) -> u64 {
        let link = &mut self.links[at as usize];
        if link.into_ocs || link.state != State::Up {
            return self.work_slow_port(c, at, inbox, end);
        }
        let class = c.classes[link.class as usize];
        let (name, before) = (self.names[at as usize], link.packets);
        let control = class.time_for(c.settings.header);
        let (pool, transit) = (&mut self.pool, &mut self.transit);
        let mut port = Port { c, link, pool, transit, name, class, control };
        let mut trims = 0;
        for &Arrival { time: now, packet: id, .. } in inbox {
            port.serve(now);
            let idle = port.link.free_at <= now && port.is_empty();
            let packet = &mut port.pool.packets[id as usize];
            if packet.is_control() {
                match idle {
                    true => port.send(id, now),
                    false => port.link.control.push(id, &mut port.pool.packets),
                }
                continue;
            }
            let size = u64::from(packet.size);
            let queued = port.link.queued;
            if c.settings.queue_limit < queued + size {
                if c.settings.trims {
                    packet.trim();
                    trims += 1;
                    port.link.control.push(id, &mut port.pool.packets);
                } else {
                    port.pool.give(id);
                    self.counts.drops += 1;
                    self.tallies[at as usize].drops += 1;
                }
                continue;
            }
            if queued >= c.settings.ecn_low {
                let tally = &mut self.tallies[at as usize];
                if c.marks(queued, name, tally.marks, now) {
                    packet.mark(true);
                    tally.marks += 1;
                }
            }
            if idle {
                port.send(id, now);
            } else {
                port.link.data.push(id, &mut port.pool.packets);
                port.link.queued = queued + size;
                port.link.peak = port.link.peak.max(queued + size);
            }
        }
        port.serve(end);
        let next = if port.is_empty() { u64::MAX } else { port.link.free_at };
        let wrapped = port.link.packets < before;
        if trims > 0 || wrapped {
            let tally = &mut self.tallies[at as usize];
            tally.trims += trims;
            tally.rounds += u64::from(wrapped);
        }
        next
    }

    /// The same for a port that leads into an optical switch, or is dark or broken.
    #[cold]
    fn work_slow_port(&mut self, c: &Common<'_>, at: u32, inbox: &[Arrival], end: u64) -> u64 {
        for arrival in inbox {
            self.serve_until(c, at, arrival.time);
            self.enqueue(c, at, arrival.packet, arrival.time);
        }
        self.serve_until(c, at, end);
        let link = &self.links[at as usize];
        let waits = self.stands(c, at) || (link.control.is_empty() && link.data.is_empty());
        if waits { u64::MAX } else { link.free_at }
    }
}
