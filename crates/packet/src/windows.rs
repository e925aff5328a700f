//! A window of a shard: units one after the other, each with all that happens in it before the window ends.

use crate::ahead::fetch;
use crate::common::Common;
use crate::layout::Place;
use crate::packet::NONE;
use crate::schedule::{Arrival, sort};
use crate::shard::Shard;
use crate::things::Thing;
use crate::transit::Unit;

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
    /// arrives there, then the packets.
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
                fetch(&self.pool.packets, arrival.packet as usize);
            }
            if let Some(link) = self.links.get(*link as usize) {
                fetch(&self.pool.packets, link.control.first() as usize);
                fetch(&self.pool.packets, link.data.first() as usize);
            }
        }
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
                Some(&Arrival { time, packet, .. }) if time <= planned => {
                    self.enter(c, at, packet);
                    self.arrive(c, packet, time);
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
