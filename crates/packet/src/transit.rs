//! What is on its way to units of a shard, and what they plan; and mail to other shards.

use crate::agenda::Agenda;
use crate::ahead::{fetch, fetch_end};
use crate::layout::Place;
use crate::packet::{Packet, Pool};
use crate::schedule::{Arrival, Calendar, Due};
use crate::things::Thing;

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

/// What arrives where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    pub arrival: Arrival,
    pub unit: u32,
}

/// Mail to one shard. If it is from another one, its packets come with it; `packet` says nothing then.
#[derive(Debug)]
pub(crate) struct Bag {
    pub letters: Vec<Letter>,
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
    /// By group.
    pub calendars: Vec<Calendar>,
    /// The unit that is worked off, if it has an agenda.
    pub current: u32,
    /// By shard: what goes there.
    pub out: Vec<Bag>,
    /// By group: what arrives here.
    pub own: Vec<Bag>,
}

impl Transit {
    /// A packet arrives at a unit at a time, over a link: one hop further.
    #[inline]
    pub fn deposit(&mut self, pool: &mut Pool, to: Place, arrival: Arrival) {
        if to.shard() != self.number {
            self.send_away(pool, to, arrival);
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
        let own = &mut self.own[usize::from(self.groups[unit as usize])];
        own.letters.push(Letter { arrival, unit });
        own.first = own.first.min(arrival.time);
    }

    /// The same at a unit of another shard.
    #[inline(never)]
    pub fn send_away(&mut self, pool: &mut Pool, to: Place, arrival: Arrival) {
        let bag = &mut self.out[to.shard()];
        // Changed in the copy: a processor waits if it reads in large what was written in small just now.
        bag.packets.push(pool.packets[arrival.packet() as usize].one_hop_further());
        bag.letters.push(Letter { arrival, unit: to.at() });
        bag.first = bag.first.min(arrival.time);
        pool.give(arrival.packet());
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
    pub fn read_mail(&mut self, group: usize) {
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
    pub fn is_large(&self) -> bool {
        self.units.len() > LARGE
    }

    /// When the next thing happens in a unit.
    pub fn next_in(&self, unit: u32) -> u64 {
        self.units[unit as usize].due.next
    }
}
