//! A window of a shard: units one after the other, each with all that happens in it before the window ends.

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
