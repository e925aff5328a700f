//! What is on its way to units of a shard, and what they plan; and mail to other shards.

use crate::agenda::Agenda;
use crate::ahead::{fetch, fetch_end};
use crate::layout::Place;
use crate::mail::{Letter, Mail, NEAR, Sorted};
use crate::packet::{Packet, Pool};
use crate::schedule::{Arrival, Calendar, Due};
use crate::things::Thing;
use std::ops::Range;

/// Units that are worth fetching ahead: with fewer, what a shard holds is about what a core's cache does.
const LARGE: usize = 1 << 10;

/// What happens in order of time.
#[derive(Debug)]
pub(crate) struct Unit {
    pub inbox: Vec<Arrival>,
    pub due: Due,
    /// Its one link, if that is all.
    pub link: u32,
    pub agenda: u32,
}

/// Mail to another shard. By letter the unit that it is for. Its packets come with it; what an arrival
/// says of them says nothing there.
#[derive(Debug)]
pub(crate) struct Bag {
    pub letters: Vec<(u32, Arrival)>,
    pub packets: Vec<Packet>,
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
    pub groups: Vec<u8>,
    pub agendas: Vec<Agenda>,
    /// The window that is worked off, or the last one that was.
    pub window: u64,
    /// When the next one starts, and how long windows are \[ps\].
    pub next_starts: u64,
    pub length: u64,
    /// By group.
    pub calendars: Vec<Calendar>,
    /// The unit that is worked off, if it has an agenda.
    pub current: u32,
    /// By shard: what goes there.
    pub out: Vec<Bag>,
    /// By group: what arrives here.
    pub mails: Vec<Mail>,
    /// Memory that letters had.
    pub spare: Vec<Vec<Letter>>,
    /// By group: where its units begin; and where the last one's end.
    pub begins: Vec<u32>,
}

impl Transit {
    /// A packet arrives at a unit at a time, over a link: one hop further.
    #[inline]
    pub fn deposit(&mut self, pool: &mut Pool, to: Place, arrival: Arrival) {
        if to.shard() != self.number {
            self.send_away(&pool.packets, to, arrival);
            pool.give(arrival.packet());
            return;
        }
        pool.packets[arrival.packet() as usize].hop += 1;
        if to.at() == self.current {
            self.plan(to.at(), Thing::Packet(arrival.packet()), arrival.time);
        } else {
            self.post(to.at(), arrival);
        }
    }

    /// The same at a unit of this shard that is not the one that is worked off, the hop aside.
    #[inline(always)]
    pub fn post(&mut self, unit: u32, arrival: Arrival) {
        let ahead = arrival.time.wrapping_sub(self.next_starts);
        if ahead >= NEAR * self.length {
            self.file(unit, arrival);
            return;
        }
        let windows = u64::from(ahead >= self.length);
        let mail = &mut self.mails[usize::from(self.groups[unit as usize])];
        let window = self.window + 1 + windows;
        mail.put(window, ahead - windows * self.length, (unit, arrival), &mut self.spare);
    }

    /// Puts a packet where a unit looks for what arrives.
    #[inline(never)]
    fn file(&mut self, at: u32, arrival: Arrival) {
        let unit = &mut self.units[at as usize];
        unit.inbox.push(arrival);
        if arrival.time < unit.due.next {
            let group = usize::from(self.groups[at as usize]);
            self.calendars[group].list(at, &mut unit.due, arrival.time);
        }
    }

    /// The same at a unit of another shard; the packet is no longer one of this shard's.
    #[inline(never)]
    pub fn send_away(&mut self, packets: &[Packet], to: Place, arrival: Arrival) {
        let bag = &mut self.out[to.shard()];
        // Changed in the copy: a processor waits if it reads in large what was written in small just now.
        bag.packets.push(packets[arrival.packet() as usize].one_hop_further());
        bag.letters.push((to.at(), arrival));
        bag.first = bag.first.min(arrival.time);
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

    /// A window begins.
    pub fn begin(&mut self, window: u64) {
        (self.window, self.next_starts) = (window, (window + 1) * self.length);
    }

    /// The units of a group.
    fn units_of(&self, group: usize) -> Range<u32> {
        self.begins[group]..self.begins[group + 1]
    }

    /// The units of a group that may have something to do in the window that has begun. What arrives there is
    /// sorted, if that is worth its while and the window is `whole`, and else with the units.
    pub fn open(&mut self, group: usize, whole: bool, sorted: &mut Sorted) -> Vec<u32> {
        let (window, units) = (self.window, self.units_of(group));
        sorted.clear();
        if !whole || !Sorted::is_worth(self.mails[group].of(window), &units) {
            self.read_mail(group, window);
            return self.calendars[group].open(window);
        }
        let letters = self.mails[group].take(window);
        let mut list = self.calendars[group].open(window);
        let listed = list.len();
        sorted.fill(&letters, (window * self.length, self.length), units, &mut list);
        self.spare(letters);
        // Those of which something arrives stand there twice now.
        let mut kept = 0;
        for at in 0..listed {
            if sorted.range(list[at]).is_empty() {
                list[kept] = list[at];
                kept += 1;
            }
        }
        list.drain(kept..listed);
        list
    }

    /// Files what arrives in a window at a group. Units that letters are for are fetched some letters ahead,
    /// then where they go.
    pub fn read_mail(&mut self, group: usize, window: u64) {
        const TURN: usize = 8;
        let starts = window * self.length;
        let ahead = self.is_large();
        let letters = self.mails[group].take(window);
        let Transit { units, calendars, .. } = self;
        let calendar = &mut calendars[group];
        let from = |start: usize| letters[start.min(letters.len())..].iter().take(TURN);
        for start in (0..letters.len()).step_by(TURN) {
            if ahead {
                from(start + 2 * TURN).for_each(|letter| fetch(units, letter.unit as usize));
                for letter in from(start + TURN) {
                    if let Some(unit) = units.get(letter.unit as usize) {
                        fetch_end(&unit.inbox);
                    }
                }
            }
            for letter in from(start) {
                let (at, arrival) = (letter.unit, letter.arrival(starts));
                let unit = &mut units[at as usize];
                unit.inbox.push(arrival);
                if arrival.time < unit.due.next {
                    calendar.list(at, &mut unit.due, arrival.time);
                }
            }
        }
        self.spare(letters);
    }

    /// Memory for other letters.
    fn spare(&mut self, mut letters: Vec<Letter>) {
        if letters.capacity() > 0 {
            letters.clear();
            self.spare.push(letters);
        }
    }

    /// Whether it is worth its while to fetch memory ahead: a small shard stays in the cache.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.units.len() > LARGE
    }

    /// When the next thing happens in a unit.
    pub fn next_in(&self, unit: u32) -> u64 {
        self.units[unit as usize].due.next
    }
}
