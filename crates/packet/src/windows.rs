//! A window of a shard: units one after the other, each with all that happens in it before the window ends.

use crate::ahead::{fetch, fetch_whole};
use crate::common::Common;
use crate::layout::Place;
use crate::packet::{NONE, Packet};
use crate::schedule::{Arrival, sort};
use crate::shard::Shard;
use crate::things::Thing;
use crate::transit::Unit;

/// Of so many packets at a server it is asked what they are about.
const HOST: usize = 4;

impl Shard<'_> {
    /// All that happens in a window before `end`.
    pub fn work(&mut self, c: &Common<'_>, window: u64, end: u64) {
        self.read_others_mail();
        let ahead = self.transit.is_large();
        for group in 0..self.transit.calendars.len() {
            self.transit.read_mail(group);
            let list = self.transit.calendars[group].open(window);
            for (turn, &at) in list.iter().enumerate() {
                if ahead {
                    self.fetch_ahead(&list[turn..]);
                }
                let unit = &mut self.transit.units[at as usize];
                let calendar = &mut self.transit.calendars[group];
                if !calendar.strike(&mut unit.due) {
                    continue;
                }
                let next = match unit.due.next < end {
                    true => self.work_off(c, at, end),
                    false => unit.due.next,
                };
                let due = &mut self.transit.units[at as usize].due;
                due.next = next;
                if next != u64::MAX {
                    self.transit.calendars[group].list(at, due, next);
                }
            }
            self.transit.calendars[group].close(list);
        }
    }

    /// What happens in a unit before `end`. When the next thing happens there.
    #[inline]
    fn work_off(&mut self, c: &Common<'_>, at: u32, end: u64) -> u64 {
        let unit = &mut self.transit.units[at as usize];
        let mut inbox = std::mem::take(&mut unit.inbox);
        sort(&mut inbox, c.seed);
        let due = match inbox.last() {
            Some(last) if last.time >= end => inbox.partition_point(|arrival| arrival.time < end),
            _ => inbox.len(),
        };
        self.counts.events += due as u64;
        if let Some(arrival) = inbox[..due].last() {
            self.last = self.last.max(arrival.time);
        }
        let (link, agenda) = (unit.link, unit.agenda);
        let next = match link {
            NONE => self.work_unit(c, at, agenda as usize, &inbox[..due], end),
            _ => self.work_port(c, link, &inbox[..due], end),
        };
        let left = inbox.len() - due;
        let next = if left > 0 { next.min(inbox[due].time) } else { next };
        if due > 0 {
            inbox.copy_within(due.., 0);
            inbox.truncate(left);
        }
        self.transit.units[at as usize].inbox = inbox;
        next
    }

    /// Has the memory of the units fetched that come after the first of these: units first, then what
    /// arrives there, then the packets, then what a server looks up for these and the second one that a port
    /// has waiting.
    #[inline]
    fn fetch_ahead(&self, list: &[u32]) {
        let units = &self.transit.units;
        if let Some(&far) = list.get(10) {
            fetch(units, far as usize);
        }
        if let Some(&unit) = list.get(6) {
            let Unit { inbox, link, .. } = &units[unit as usize];
            fetch(&self.links, *link as usize);
            fetch(inbox, 0);
            fetch(inbox, 4);
            fetch(inbox, 8);
        }
        if let Some(&unit) = list.get(3) {
            let Unit { inbox, link, .. } = &units[unit as usize];
            for arrival in inbox {
                fetch(&self.pool.packets, arrival.packet() as usize);
            }
            if let Some(link) = self.links.get(*link as usize) {
                fetch(&self.pool.packets, link.control.first() as usize);
                fetch(&self.pool.packets, link.data.first() as usize);
            }
        }
        let packets = &self.pool.packets[..];
        if let Some(&unit) = list.get(2) {
            let unit = &units[unit as usize];
            fetch_whole(&self.transit.agendas, unit.agenda as usize);
            for packet in self.at_host(unit) {
                match packet.is_control() {
                    true => fetch_whole(&self.senders, packet.from as usize),
                    false => fetch_whole(&self.receivers, packet.to as usize),
                }
            }
            if let Some(link) = self.links.get(unit.link as usize)
                && let Some(first) = packets.get(link.data.first() as usize)
            {
                fetch(packets, first.next as usize);
            }
        }
        if let Some(&unit) = list.get(1) {
            for packet in self.at_host(&units[unit as usize]) {
                if packet.is_control() {
                    if let Some(sender) = self.senders.get(packet.from as usize) {
                        fetch_whole(&self.messages, sender.message as usize);
                    }
                } else if let Some(receiver) = self.receivers.get(packet.to as usize) {
                    fetch_whole(&self.inbounds, receiver.inbound as usize);
                    fetch(&receiver.seen, packet.seq as usize / 64);
                }
            }
        }
    }

    /// The first packets that arrive at a unit that is a server.
    #[inline]
    fn at_host<'u>(&'u self, unit: &'u Unit) -> impl Iterator<Item = &'u Packet> {
        let arrivals = unit.inbox.iter().take(if unit.link == NONE { HOST } else { 0 });
        arrivals.filter_map(|arrival| self.pool.packets.get(arrival.packet() as usize))
    }

    /// Any other unit: what arrives and what it has planned. When it has planned something next.
    fn work_unit(
        &mut self,
        c: &Common<'_>,
        at: u32,
        agenda: usize,
        inbox: &[Arrival],
        end: u64,
    ) -> u64 {
        self.transit.current = at;
        let mut inbox = inbox.iter();
        let mut arrival = inbox.next();
        loop {
            let planned = self.transit.agendas[agenda].next();
            match arrival {
                Some(next) if next.time <= planned => {
                    self.enter(c, at, next.packet());
                    self.arrive(c, next.packet(), next.time);
                    arrival = inbox.next();
                }
                _ if planned < end => {
                    let thing = self.transit.agendas[agenda].pop().expect("it was looked at");
                    self.counts.events += 1;
                    self.last = self.last.max(planned);
                    self.happen(c, Thing::of(thing), planned);
                }
                _ => break,
            }
        }
        self.transit.current = NONE;
        self.transit.agendas[agenda].next()
    }

    /// A packet comes into a unit; if it has some way to go there, its flow's end is near (`ends.rs`).
    #[inline]
    fn enter(&mut self, c: &Common<'_>, at: u32, id: u32) {
        let packet = &self.pool.packets[id as usize];
        if packet.hop >= packet.hops || packet.is_control() {
            return;
        }
        let end = c.units[(packet.link(packet.hops - 1, c.long) ^ 1) as usize];
        if end == Place::new(self.transit.number, at)
            && let Some(receiver) = self.receivers.get(packet.to as usize)
            && receiver.life == packet.life
            && !receiver.done
        {
            let inbound = &mut self.inbounds[receiver.inbound as usize];
            inbound.entered = inbound.entered.saturating_add(packet.bytes());
        }
    }

    #[inline]
    fn happen(&mut self, c: &Common<'_>, thing: Thing, now: u64) {
        match thing {
            Thing::Packet(id) => self.arrive(c, id, now),
            Thing::Link(at) => {
                self.links[at as usize].pending = false;
                self.kick(c, at, now);
            }
            Thing::Sender(id) => self.paced(c, id, now),
            Thing::Puller(at) => self.send_pull(c, at, now),
        }
    }
}
