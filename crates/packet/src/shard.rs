//! A shard: some units of the network with all that they hold, worked off window by window.
//!
//! Nothing in it is touched by another shard while a window lasts. What goes to another shard is mail,
//! which that one reads when its next window begins.

use crate::ahead::{fetch, fetch_end};
use crate::balancer::outside::Outside;
use crate::conn::{Inbound, Message, Receiver, Sender};
use crate::layout::{Place, UnitOf};
use crate::link::{Class, Link, Tally};
use crate::packet::{LongPaths, NONE, Packet, Pool};
use crate::schedule::{Agenda, Arrival, Calendar, Due, sort};
use crate::settings::RunSettings;
use crate::spec::Dark;
use crate::things::{Puller, Thing};
use lightloom_engine::Circuits;
use lightloom_fabric::{Fabric, LinkId};
use lightloom_units::mix;

/// Units that are worth fetching ahead: with fewer, what a shard holds is about what a core's cache does.
const LARGE: usize = 1 << 10;

/// What all shards read while a window lasts.
#[derive(Clone, Copy)]
pub(crate) struct Common<'a> {
    pub settings: &'a RunSettings,
    pub fabric: &'a Fabric,
    pub circuits: &'a Circuits,
    pub classes: &'a [Class],
    /// By link: its class.
    pub class_of: &'a [u16],
    pub places: &'a [Place],
    pub units: &'a [Place],
    pub long: &'a LongPaths,
    pub dark: Dark,
    pub seed: u64,
}

impl Common<'_> {
    /// Rate and delay of a link.
    #[inline]
    pub fn class(&self, link: u32) -> Class {
        self.classes[self.class_of[link as usize] as usize]
    }
    /// Whether a packet is marked that finds so much in a queue: at random, by the link, by how many it
    /// has marked, and by the time, whatever else happens.
    pub fn marks(&self, queued: u64, link: u32, marked: u64, now: u64) -> bool {
        if queued >= self.settings.ecn_high {
            return true;
        }
        let share = (queued - self.settings.ecn_low) as f64 * self.settings.ecn_slope;
        let hash = mix(self.seed ^ mix(u64::from(link) << 32 ^ marked) ^ now);
        share >= 1.0 || ((hash >> 11) as f64 / (1u64 << 53) as f64) < share
    }
    /// A link's place in its shard.
    #[inline]
    pub fn at(&self, link: u32) -> u32 {
        self.places[link as usize].at()
    }
}

/// What a run counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub events: u64,
    pub data_packets: u64,
    pub control_packets: u64,
    pub resent: u64,
    pub drops: u64,
    pub pause_frames: u64,
    /// By how far behind the furthest one a data packet came: the number of binary digits.
    pub reorder: Reorder,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.events += other.events;
        self.data_packets += other.data_packets;
        self.control_packets += other.control_packets;
        self.resent += other.resent;
        self.drops += other.drops;
        self.pause_frames += other.pause_frames;
        for (sum, more) in self.reorder.0.iter_mut().zip(&other.reorder.0) {
            *sum += more;
        }
    }
}

/// See [`Counts::reorder`].
#[derive(Debug)]
pub(crate) struct Reorder(pub [u64; 33]);
impl Default for Reorder {
    fn default() -> Self {
        Reorder([0; 33])
    }
}

/// What happens in order of time.
#[derive(Debug)]
pub(crate) struct Unit {
    pub inbox: Vec<Arrival>,
    due: Due,
    /// Its one link, if that is all.
    link: u32,
    agenda: u32,
}

/// What arrives where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    arrival: Arrival,
    unit: u32,
}

/// Mail to one shard. If it is from another one, its packets come with it; `packet` says nothing then.
#[derive(Debug)]
pub(crate) struct Bag {
    pub letters: Vec<Letter>,
    packets: Vec<Packet>,
    /// When the first of it is due \[ps\].
    pub first: u64,
}

impl Bag {
    pub const EMPTY: Bag = Bag { letters: Vec::new(), packets: Vec::new(), first: u64::MAX };

    /// Adds what is in another.
    pub fn join(&mut self, other: Bag) {
        self.letters.extend(other.letters);
        self.packets.extend(other.packets);
        self.first = self.first.min(other.first);
    }
}

/// What is on its way and what is planned: to units here, and to other shards.
#[derive(Debug)]
pub(crate) struct Transit {
    pub number: usize,
    pub units: Vec<Unit>,
    /// By unit: its group.
    groups: Vec<u8>,
    agendas: Vec<Agenda>,
    /// By group.
    calendars: Vec<Calendar>,
    /// The unit that is worked off, if it has an agenda.
    pub current: u32,
    /// By shard: what goes there.
    pub out: Vec<Bag>,
    /// By group: what arrives here.
    own: Vec<Bag>,
}

impl Transit {
    /// A packet arrives at a unit at a time, over a link: one hop further.
    #[inline]
    pub fn deposit(&mut self, pool: &mut Pool, to: Place, arrival: Arrival) {
        if to.shard() != self.number {
            self.send_away(pool, to, arrival);
            return;
        }
        pool.packets[arrival.packet as usize].hop += 1;
        if to.at() == self.current {
            self.plan(to.at(), Thing::Packet(arrival.packet), arrival.time);
        } else {
            self.post(to.at(), arrival);
        }
    }

    /// The same at a unit of this shard that is not the one that is worked off, the hop aside.
    #[inline(always)]
    pub fn post(&mut self, unit: u32, arrival: Arrival) {
        let own = &mut self.own[usize::from(self.groups[unit as usize])];
        own.letters.push(Letter { arrival, unit });
        own.first = own.first.min(arrival.time);
    }

    /// The same at a unit of another shard.
    #[inline(never)]
    pub fn send_away(&mut self, pool: &mut Pool, to: Place, arrival: Arrival) {
        let bag = &mut self.out[to.shard()];
        // Changed in the copy: a processor waits if it reads in large what was written in small just now.
        bag.packets.push(pool.packets[arrival.packet as usize].one_hop_further());
        bag.letters.push(Letter { arrival, unit: to.at() });
        bag.first = bag.first.min(arrival.time);
        pool.give(arrival.packet);
    }

    /// A unit with an agenda does something at a time.
    #[inline]
    pub fn plan(&mut self, at: u32, thing: Thing, time: u64) {
        let unit = &mut self.units[at as usize];
        self.agendas[unit.agenda as usize].plan(thing.id(), time);
        if at != self.current && time < unit.due.next {
            let group = usize::from(self.groups[at as usize]);
            self.calendars[group].list(at, &mut unit.due, time);
        }
    }

    /// Reads what is for a group. Units that letters are for are fetched some letters ahead, then where
    /// they go.
    fn read_mail(&mut self, group: usize) {
        const TURN: usize = 8;
        let ahead = self.is_large();
        let mut bag = std::mem::replace(&mut self.own[group], Bag::EMPTY);
        let Transit { units, calendars, .. } = self;
        let calendar = &mut calendars[group];
        let all = &bag.letters[..];
        let from = |start: usize| all[start.min(all.len())..].iter().take(TURN);
        for start in (0..all.len()).step_by(TURN) {
            if ahead {
                from(start + 2 * TURN).for_each(|letter| fetch(units, letter.unit as usize));
                for letter in from(start + TURN) {
                    if let Some(unit) = units.get(letter.unit as usize) {
                        fetch_end(&unit.inbox);
                    }
                }
            }
            for &Letter { arrival, unit: at } in from(start) {
                let unit = &mut units[at as usize];
                unit.inbox.push(arrival);
                if arrival.time < unit.due.next {
                    calendar.list(at, &mut unit.due, arrival.time);
                }
            }
        }
        bag.letters.clear();
        bag.first = u64::MAX;
        self.own[group] = bag;
    }

    /// Whether it is worth its while to fetch memory ahead: a small shard stays in the cache.
    #[inline]
    fn is_large(&self) -> bool {
        self.units.len() > LARGE
    }

    /// When the next thing happens in a unit.
    pub fn next_in(&self, unit: u32) -> u64 {
        self.units[unit as usize].due.next
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Shard<'a> {
    /// The links that its units send into.
    pub links: Vec<Link>,
    /// By link: what it is called.
    pub names: Vec<u32>,
    /// By link: whose it is.
    pub unit_of: Vec<u32>,
    pub tallies: Vec<Tally>,
    /// By link: of what comes by its other direction; empty unless receivers pull.
    pub pullers: Vec<Puller>,
    pub transit: Transit,
    pub pool: Pool,
    pub senders: Vec<Sender>,
    pub receivers: Vec<Receiver>,
    pub messages: Vec<Message>,
    pub inbounds: Vec<Inbound>,
    pub free_senders: Vec<u32>,
    pub free_receivers: Vec<u32>,
    pub free_messages: Vec<u32>,
    pub free_inbounds: Vec<u32>,
    /// By link out of an optical switch: bytes and packets that came from here.
    pub through: Vec<(u64, u64)>,
    /// By shard: what came from there.
    pub inbags: Vec<Bag>,
    pub counts: Counts,
    /// When the last thing happened \[ps\].
    pub last: u64,
    // What the run must hear of after a window.
    /// Flows of which all has arrived, and when.
    pub finished: Vec<(u64, u32)>,
    /// Flows that may end in one of the next windows.
    pub ending: Vec<u32>,
    /// Senders that have begun to wait for an answer, and since when.
    pub armed: Vec<(u64, u32)>,
    /// A sender whose packet got no path from outside.
    pub no_path: Option<u32>,
    pub path: Vec<LinkId>,
    /// Senders that left a ring while others of their message wait for them.
    pub wakes: Vec<u32>,
    /// What chooses paths in place of the balancers of senders.
    pub outside: Option<Outside<'a>>,
}

impl<'a> Shard<'a> {
    /// A shard of so many; units follow by [`Shard::add_unit`].
    pub fn new(number: usize, shards: usize, through: usize) -> Self {
        let bags = || (0..shards).map(|_| Bag::EMPTY).collect();
        Shard {
            links: Vec::new(),
            names: Vec::new(),
            unit_of: Vec::new(),
            tallies: Vec::new(),
            pullers: Vec::new(),
            transit: Transit {
                number,
                units: Vec::new(),
                groups: Vec::new(),
                agendas: Vec::new(),
                calendars: Vec::new(),
                current: NONE,
                out: bags(),
                own: Vec::new(),
            },
            pool: Pool::default(),
            senders: Vec::new(),
            receivers: Vec::new(),
            messages: Vec::new(),
            inbounds: Vec::new(),
            free_senders: Vec::new(),
            free_receivers: Vec::new(),
            free_messages: Vec::new(),
            free_inbounds: Vec::new(),
            through: vec![(0, 0); through],
            inbags: bags(),
            counts: Counts::default(),
            last: 0,
            finished: Vec::new(),
            ending: Vec::new(),
            armed: Vec::new(),
            no_path: None,
            path: Vec::new(),
            wakes: Vec::new(),
            outside: None,
        }
    }

    /// One more unit, with windows of a length; where the first link of a unit is placed.
    pub fn add_unit(&mut self, unit: &UnitOf, window: u64, place: impl Fn(u32) -> u32) {
        let (UnitOf { links, port, group }, transit) = (unit, &mut self.transit);
        while transit.calendars.len() <= usize::from(*group) {
            transit.calendars.push(Calendar::new(window));
            transit.own.push(Bag::EMPTY);
        }
        transit.groups.push(*group);
        let agenda = if *port { NONE } else { transit.agendas.len() as u32 };
        if !*port {
            transit.agendas.push(Agenda::default());
        }
        let link = if *port { place(links[0]) } else { NONE };
        transit.units.push(Unit { inbox: Vec::new(), due: Due::NEVER, link, agenda });
    }

    // ---- what is due

    /// Something may wait for a link: it sends if it is idle, or as soon as it is.
    #[inline]
    pub fn kick(&mut self, c: &Common<'_>, at: u32, now: u64) {
        let link = &mut self.links[at as usize];
        if link.pending {
            return;
        }
        let number = self.unit_of[at as usize];
        if number == self.transit.current {
            if link.free_at <= now {
                self.serve(c, at, now);
                return;
            }
        } else {
            let unit = &mut self.transit.units[number as usize];
            if unit.agenda == NONE {
                if !(link.control.is_empty() && link.data.is_empty()) {
                    link.free_at = link.free_at.max(now);
                    let time = link.free_at.min(unit.due.next);
                    let group = usize::from(self.transit.groups[number as usize]);
                    self.transit.calendars[group].list(number, &mut unit.due, time);
                }
                return;
            }
        }
        link.pending = true;
        let time = link.free_at.max(now);
        self.transit.plan(number, Thing::Link(at), time);
    }

    /// Reads what other shards sent, and what units here did.
    pub fn read_mail(&mut self) {
        self.read_others_mail();
        (0..self.transit.own.len()).for_each(|group| self.transit.read_mail(group));
    }

    fn read_others_mail(&mut self) {
        let transit = &mut self.transit;
        for bag in &mut self.inbags {
            for (turn, (letter, packet)) in bag.letters.iter().zip(&bag.packets).enumerate() {
                fetch(&bag.packets, turn + 6);
                self.pool.fetch_free(6);
                let id = self.pool.take();
                self.pool.packets[id as usize] = packet.clone();
                let own = &mut transit.own[usize::from(transit.groups[letter.unit as usize])];
                let arrival = Arrival { packet: id, ..letter.arrival };
                own.letters.push(Letter { arrival, unit: letter.unit });
                own.first = own.first.min(arrival.time);
            }
            bag.letters.clear();
            bag.packets.clear();
            bag.first = u64::MAX;
        }
    }

    /// The first window with something to do, of length `window`.
    pub fn first_window(&self, window: u64) -> Option<u64> {
        let mail = self.inbags.iter().chain(&self.transit.own);
        let mail = mail.map(|bag| bag.first).min().unwrap_or(u64::MAX);
        let mail = (mail != u64::MAX).then_some(mail / window);
        let listed = self.transit.calendars.iter().filter_map(Calendar::first);
        listed.chain(mail).min()
    }

    /// When the next thing happens in a window, if anything does; reads mail.
    pub fn first_time(&mut self, window: u64) -> u64 {
        self.read_mail();
        let mut first = u64::MAX;
        let Transit { units, calendars, .. } = &mut self.transit;
        for calendar in calendars {
            let list = calendar.open(window);
            for &at in &list {
                let unit = &mut units[at as usize];
                if calendar.strike(&mut unit.due) {
                    let next = unit.due.next;
                    first = first.min(next);
                    calendar.list(at, &mut unit.due, next);
                }
            }
            calendar.close(list);
        }
        first
    }

    /// Packets that are under way to it, but for those that arrive in a later window, perhaps.
    pub fn load(&self) -> usize {
        self.inbags.iter().chain(&self.transit.own).map(|bag| bag.letters.len()).sum()
    }

    // ---- working it off

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
            inbound.entered = inbound.entered.saturating_add(u64::from(packet.size));
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
