//! A port of a switch, worked off window by window: what most packets meet most often.
//!
//! It needs no events but arrivals. What it sent since the last one follows from its queue: whenever it
//! falls idle, control packets first. What arrives just then is there before it chooses.
//! The rules are those of `switch.rs`, without pauses and flows of its own; what leads into an optical
//! switch, and what is dark or broken, is left to that file.

use crate::ahead::fetch;
use crate::common::Common;
use crate::link::{Class, Link, State};
use crate::packet::{Packet, Pool};
use crate::schedule::Arrival;
use crate::shard::Shard;
use crate::transit::Transit;

/// What a port sends with, and by what; `TRAINS`: packets may travel as trains.
struct Port<'s, 'c, 'd, const TRAINS: bool> {
    c: &'c Common<'d>,
    link: &'s mut Link,
    /// Those of the pool, and which of them are free.
    packets: &'s mut [Packet],
    free: &'s mut Vec<u32>,
    transit: &'s mut Transit,
    name: u32,
    class: Class,
    /// What a control packet takes \[ps\].
    control: u64,
}

impl<const TRAINS: bool> Port<'_, '_, '_, TRAINS> {
    /// A packet leaves, now that the link is idle.
    #[inline(always)]
    fn send(&mut self, id: u32, now: u64) {
        self.link.free_at = now;
        self.send_at(id, now);
    }

    /// A control packet goes between two packets of the train that the link sends, which lasts that longer.
    #[cold]
    fn send_between(&mut self, id: u32, now: u64) {
        let packet = self.class.time_for(self.c.settings.full);
        self.send_at(id, now + (self.link.free_at - now) % packet);
    }

    #[inline(always)]
    fn send_at(&mut self, id: u32, now: u64) {
        let (c, link) = (self.c, &mut *self.link);
        let packet = &mut self.packets[id as usize];
        let (size, takes, count) = if packet.is_control() {
            let headers = if TRAINS { c.settings.headers(packet.size) } else { 1 };
            (headers * c.settings.header, headers * self.control, 1)
        } else {
            let size = u64::from(packet.size);
            let count = if TRAINS { c.settings.packets_in(size, c.settings.full) } else { 1 };
            (size, self.class.time_for(size), count)
        };
        link.free_at += takes;
        link.carried += size;
        link.packets = link.packets.wrapping_add(count);
        let hop = packet.hop + 1;
        let next = if hop < packet.hops { packet.link(hop, c.long) } else { self.name ^ 1 };
        let mut time = now + takes + self.class.delay;
        if TRAINS && count > 1 && hop < packet.hops && c.class(next).is_no_faster(&self.class) {
            // A train is there as soon as its first packet is.
            time -= takes - self.class.time_for(c.settings.full);
        }
        let to = c.units[next as usize];
        let arrival = Arrival::new(time, self.name, id);
        if to.shard() == self.transit.number {
            packet.hop = hop;
            self.transit.post(to.at(), arrival);
        } else {
            self.transit.send_away(self.packets, to, arrival);
            self.free.push(id);
        }
    }

    /// What leaves before a time.
    #[inline(always)]
    fn serve(&mut self, end: u64) {
        while self.link.free_at < end {
            let now = self.link.free_at;
            if let Some(id) = self.link.control.pop(self.packets) {
                fetch(self.packets, self.link.control.first() as usize);
                self.send(id, now);
            } else if let Some(id) = self.link.data.pop(self.packets) {
                self.link.queued -= u64::from(self.packets[id as usize].size);
                fetch(self.packets, self.link.data.first() as usize);
                self.send(id, now);
            } else {
                return;
            }
        }
    }

    /// Cuts a train after so many packets: the rest of it.
    #[cold]
    fn cut(&mut self, id: u32, packets: u32, full: u64) -> u32 {
        let rest = self.free.pop().expect("a packet is free for each that arrives");
        self.packets[rest as usize] = self.packets[id as usize].cut(packets, full);
        rest
    }

    fn is_empty(&self) -> bool {
        self.link.control.is_empty() && self.link.data.is_empty()
    }
}

impl Shard<'_> {
    /// A port: what arrives, and between that what leaves. When it does something next by itself.
    #[inline]
    pub(crate) fn work_port(
        &mut self,
        c: &Common<'_>,
        at: u32,
        inbox: &[Arrival],
        end: u64,
    ) -> u64 {
        match c.settings.trains() {
            false => self.work_port_of::<false>(c, at, inbox, end),
            true => self.work_port_of::<true>(c, at, inbox, end),
        }
    }

    #[inline]
    fn work_port_of<const TRAINS: bool>(
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
        if TRAINS {
            self.pool.have(inbox.len()); // for each may be cut
        }
        let (transit, Pool { packets, free }) = (&mut self.transit, &mut self.pool);
        let mut port = Port::<TRAINS> { c, link, packets, free, transit, name, class, control };
        let mut trims = 0;
        for arrival in inbox {
            let (now, id) = (arrival.time, arrival.packet());
            port.serve(now);
            let idle = port.link.free_at <= now && port.is_empty();
            let packet = &mut port.packets[id as usize];
            if packet.is_control() {
                if idle {
                    port.send(id, now);
                } else if TRAINS && port.link.free_at > now {
                    port.send_between(id, now);
                } else {
                    port.link.control.push(id, port.packets);
                }
                continue;
            }
            let mut size = u64::from(packet.size);
            let queued = port.link.queued;
            if c.settings.queue_limit < queued + size {
                let full = c.settings.full;
                let room = (c.settings.queue_limit.saturating_sub(queued) / full) as u32;
                let packets = if TRAINS { c.settings.packets_in(size, full) } else { 1 };
                let cut = room > 0 && packets > 1;
                // What has room of a train goes on.
                let (rest, lost) = match cut {
                    true => (port.cut(id, room, full), packets - room),
                    false => (id, packets),
                };
                if c.settings.trims {
                    port.packets[rest as usize].trim(lost);
                    trims += u64::from(lost);
                    port.link.control.push(rest, port.packets);
                } else {
                    port.free.push(rest);
                    self.counts.drops += u64::from(lost);
                    self.tallies[at as usize].drops += u64::from(lost);
                }
                if !cut {
                    continue;
                }
                size = u64::from(room) * full;
            }
            let packet = &mut port.packets[id as usize];
            if queued >= c.settings.ecn_low {
                let tally = &mut self.tallies[at as usize];
                if c.marks(queued, name, tally.marks, now) {
                    packet.mark(true);
                    tally.marks += u64::from(c.settings.packets_in(size, c.settings.full));
                }
            }
            if idle {
                port.send(id, now);
            } else {
                port.link.data.push(id, port.packets);
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
            self.enqueue(c, at, arrival.packet(), arrival.time);
        }
        self.serve_until(c, at, end);
        let link = &self.links[at as usize];
        let waits = self.stands(c, at) || (link.control.is_empty() && link.data.is_empty());
        if waits { u64::MAX } else { link.free_at }
    }
}
