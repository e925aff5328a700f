//! A window of a shard: units one after the other, each with all that happens in it before the window ends.

use crate::agenda::Agenda;
use crate::ahead::{fetch, fetch_whole};
use crate::common::Common;
use crate::layout::Place;
use crate::mail::Sorted;
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
        self.transit.begin(window, self.pool.packets.len());
        let whole = end == (window + 1) * self.transit.length;
        let mut sorted = std::mem::take(&mut self.sorted);
        for group in 0..self.transit.calendars.len() {
            let list = self.transit.open(group, whole, &mut sorted);
            for (turn, &at) in list.iter().enumerate() {
                if self.transit.ahead {
                    self.fetch_ahead(&list[turn..], &sorted);
                }
                let range = sorted.range(at);
                let arrivals = &mut sorted.arrivals[range];
                let unit = &mut self.transit.units[at as usize];
                let struck = self.transit.calendars[group].strike(&mut unit.due);
                if arrivals.is_empty() && !struck {
                    continue;
                }
                let next = match !arrivals.is_empty() || unit.due.next < end {
                    true => self.work_off(c, at, arrivals, end),
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
        self.sorted = sorted;
    }

    /// What happens in a unit before `end`, where these arrive, and what is filed there. When the next thing
    /// happens there.
    #[inline]
    fn work_off(&mut self, c: &Common<'_>, at: u32, arrivals: &mut [Arrival], end: u64) -> u64 {
        let unit = &mut self.transit.units[at as usize];
        if unit.inbox.is_empty() {
            sort(arrivals, c.seed);
            return self.work_arrivals(c, at, arrivals, end);
        }
        let mut inbox = std::mem::take(&mut unit.inbox);
        inbox.extend_from_slice(arrivals);
        sort(&mut inbox, c.seed);
        let due = match inbox.last() {
            Some(last) if last.time >= end => inbox.partition_point(|arrival| arrival.time < end),
            _ => inbox.len(),
        };
        let next = self.work_arrivals(c, at, &inbox[..due], end);
        let left = inbox.len() - due;
        let next = if left > 0 { next.min(inbox[due].time) } else { next };
        if due > 0 {
            inbox.copy_within(due.., 0);
            inbox.truncate(left);
        }
        self.transit.units[at as usize].inbox = inbox;
        next
    }

    /// The same with what arrives before `end`, in order of time.
    #[inline]
    fn work_arrivals(&mut self, c: &Common<'_>, at: u32, arrivals: &[Arrival], end: u64) -> u64 {
        self.counts.events += arrivals.len() as u64;
        if let Some(arrival) = arrivals.last() {
            self.last = self.last.max(arrival.time);
        }
        let Unit { link, agenda, .. } = self.transit.units[at as usize];
        match link {
            NONE => self.work_unit(c, at, agenda as usize, arrivals, end),
            _ => self.work_port(c, link, arrivals, end),
        }
    }

    /// Has the memory of the units fetched that come after the first of these: units first, then what
    /// arrives there, then the packets, then what a server looks up for these and the second one that a port
    /// has waiting.
    #[inline]
    fn fetch_ahead(&self, list: &[u32], sorted: &Sorted) {
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
        let agendas = &self.transit.agendas[..];
        let agenda = |at: u32| agendas.get(units[at as usize].agenda as usize);
        let planned_links =
            |at: u32| agenda(at).into_iter().flat_map(Agenda::waiting).filter_map(Thing::link);
        if let Some(&at) = list.get(5) {
            fetch_whole(agendas, units[at as usize].agenda as usize);
        }
        if let Some(agenda) = list.get(4).and_then(|&at| agenda(at)) {
            agenda.fetch_later();
        }
        if let Some(&unit) = list.get(3) {
            for arrival in self.arrivals(unit, sorted) {
                fetch(&self.pool.packets, arrival.packet() as usize);
            }
            if let Some(link) = self.links.get(units[unit as usize].link as usize) {
                fetch(&self.pool.packets, link.control.first() as usize);
                fetch(&self.pool.packets, link.data.first() as usize);
            }
        }
        let packets = &self.pool.packets[..];
        if let Some(&at) = list.get(2) {
            let unit = &units[at as usize];
            for at in planned_links(at) {
                fetch(&self.links, at as usize);
                fetch(&self.tallies, at as usize);
            }
            for packet in self.at_host(at, sorted) {
                match packet.is_control() {
                    true => fetch_whole(&self.senders, packet.from as usize),
                    false => fetch_whole(&self.receivers, packet.to as usize),
                }
            }
            if let Some(link) = self.links.get(unit.link as usize) {
                for queue in [link.control, link.data] {
                    if let Some(first) = packets.get(queue.first() as usize) {
                        fetch(packets, first.next as usize);
                    }
                }
            }
        }
        if let Some(&at) = list.get(1) {
            for at in planned_links(at) {
                if let Some(link) = self.links.get(at as usize) {
                    fetch(packets, link.control.first() as usize);
                    fetch(packets, link.data.first() as usize);
                }
            }
            for packet in self.at_host(at, sorted) {
                if packet.is_control() {
                    if let Some(sender) = self.senders.get(packet.from as usize) {
                        fetch_whole(&self.messages, sender.message as usize);
                    }
                } else if let Some(receiver) = self.receivers.get(packet.to as usize) {
                    fetch_whole(&self.inbounds, receiver.inbound as usize);
                    fetch(&self.pullers, receiver.puller as usize);
                    fetch(&receiver.seen, packet.seq as usize / 64);
                }
            }
        }
    }

    /// What arrives at a unit, or most of it.
    #[inline]
    fn arrivals<'u>(&'u self, unit: u32, sorted: &'u Sorted) -> &'u [Arrival] {
        match &sorted.arrivals[sorted.range(unit)] {
            [] => &self.transit.units[unit as usize].inbox,
            arrivals => arrivals,
        }
    }

    /// The first packets that arrive at a unit that is a server.
    #[inline]
    fn at_host<'u>(&'u self, at: u32, sorted: &'u Sorted) -> impl Iterator<Item = &'u Packet> + 'u {
        let host = if self.transit.units[at as usize].link == NONE { HOST } else { 0 };
        let arrivals = self.arrivals(at, sorted).iter().take(host);
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
        self.transit.wheel.turn(self.transit.window, end);
        self.transit.agendas[agenda].open(&mut self.transit.wheel);
        let mut inbox = inbox.iter();
        let mut arrival = inbox.next();
        loop {
            let planned = self.transit.wheel.next();
            match arrival {
                Some(next) if next.time <= planned => {
                    self.enter(c, at, next.packet());
                    self.arrive(c, next.packet(), next.time);
                    arrival = inbox.next();
                }
                _ if planned != u64::MAX => {
                    let thing = self.transit.wheel.pop().expect("it was looked at");
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
