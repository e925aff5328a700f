//! What is on its way to units of a shard, and what they plan; and mail to other shards.

use crate::agenda::{Agenda, Wheel};
use crate::ahead::{fetch, fetch_end};
use crate::layout::Place;
use crate::link::Link;
use crate::mail::{Letter, Mail, NEAR, Sorted};
use crate::packet::{NONE, Packet, Pool};
use crate::schedule::{Arrival, Calendar, Due};
use crate::things::Thing;
use std::ops::Range;

/// With fewer bytes of units, links and packets than this, in all shards, nothing is fetched ahead: caches
/// near a core hold most of that, and to ask for it costs more than it saves.
const LARGE: usize = 5 << 19;

/// What happens in order of time.
#[derive(Debug)]
pub(crate) struct Unit {
    pub inbox: Vec<Arrival>,
    pub due: Due,
    /// Its one link, if that is all.
    pub link: u32,
    pub agenda: u32,
}

/// Mail to another shard, with its packets; by which number an arrival knows its packet says nothing there.
#[derive(Debug)]
pub(crate) struct Bag {
    /// By unit: what arrives.
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
    pub wheel: Wheel,
    /// The window that is worked off, or the last one that was.
    pub window: u64,
    /// When the next one starts, and how long windows are \[ps\].
    next_starts: u64,
    pub length: u64,
    /// It is worth its while to ask for memory ahead.
    pub ahead: bool,
    /// By group.
    pub calendars: Vec<Calendar>,
    /// The unit that is worked off, if it has an agenda.
    pub current: u32,
    /// By shard: what goes there.
    pub out: Vec<Bag>,
    /// By group: what arrives here.
    pub mails: Vec<Mail>,
    /// Memory that letters had.
    rooms: Vec<Vec<Letter>>,
    /// By group: where its units begin; and where the last one's end.
    begins: Vec<u32>,
}

impl Transit {
    /// That of a shard of so many, with windows of a length, and no units yet.
    pub fn new(number: usize, shards: usize, length: u64) -> Self {
        Transit {
            number,
            units: Vec::new(),
            groups: Vec::new(),
            agendas: Vec::new(),
            wheel: Wheel::new(length),
            window: 0,
            next_starts: length,
            length,
            ahead: false,
            calendars: Vec::new(),
            current: NONE,
            out: (0..shards).map(|_| Bag::EMPTY).collect(),
            mails: Vec::new(),
            rooms: Vec::new(),
            begins: vec![0],
        }
    }

    /// One more group.
    pub fn add_group(&mut self) {
        self.calendars.push(Calendar::new(self.length));
        self.mails.push(Mail::default());
        self.begins.push(self.units.len() as u32);
    }

    /// One more unit, of the last group: with one link, or with an agenda.
    pub fn add_unit(&mut self, group: u8, link: u32, agenda: u32) {
        assert_eq!(usize::from(group) + 1, self.mails.len(), "units of a group are side by side");
        self.groups.push(group);
        self.units.push(Unit { inbox: Vec::new(), due: Due::NEVER, link, agenda });
        self.begins[usize::from(group) + 1] = self.units.len() as u32;
    }

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
        mail.put(window, ahead - windows * self.length, (unit, arrival), &mut self.rooms);
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
        let wheel = (at == self.current).then_some(&mut self.wheel);
        self.agendas[unit.agenda as usize].plan(thing.id(), time, wheel);
        if at != self.current && time < unit.due.next {
            let group = usize::from(self.groups[at as usize]);
            self.calendars[group].list(at, &mut unit.due, time);
        }
    }

    /// A window begins; so many packets were under way at once.
    pub fn begin(&mut self, window: u64, packets: usize) {
        (self.window, self.next_starts) = (window, (window + 1) * self.length);
        let units = self.units.len() * (size_of::<Unit>() + size_of::<Link>());
        let all = (units + packets * size_of::<Packet>()) * self.out.len();
        self.ahead = all > LARGE;
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
        self.leave(letters);
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
        let ahead = self.ahead;
        let letters = self.mails[group].take(window);
        let Transit { units, calendars, .. } = self;
        let calendar = &mut calendars[group];
        let from = |start: usize| letters[start.min(letters.len())..].iter().take(TURN);
        for start in (0..letters.len()).step_by(TURN) {
            if ahead {
                from(start + 2 * TURN).for_each(|letter| fetch(units, letter.unit as usize));
                for letter in from(start + TURN) {
                    if let Some(unit) = units.get(letter.unit as usize) {
                        fetch_end(&unit.inbox, 0);
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
        self.leave(letters);
    }

    /// Leaves memory to other letters.
    fn leave(&mut self, mut letters: Vec<Letter>) {
        if letters.capacity() > 0 {
            letters.clear();
            self.rooms.push(letters);
        }
    }

    /// When the next thing happens in a unit.
    pub fn next_in(&self, unit: u32) -> u64 {
        self.units[unit as usize].due.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GROUPS: u32 = 3;

    /// Units of so many in each group.
    fn transit(each: u32, length: u64) -> Transit {
        let mut it = Transit::new(0, 1, length);
        for group in 0..GROUPS {
            it.add_group();
            for _ in 0..each {
                it.add_unit(group as u8, NONE, NONE);
            }
        }
        it
    }

    proptest! {
        /// Whatever is posted when, and wherever windows are cut: each packet is where it is read in its
        /// window, once, and none is there in another.
        #[test]
        fn what_is_posted_arrives_in_its_window(
            length in 1u64..40, each in 1u32..6, cuts in prop::collection::vec(0u64..40, 1..8),
            posts in prop::collection::vec((0u64..120, 0u64..160, 0u32..18), 1..150),
        ) {
            let mut it = transit(each, length);
            let mut posts: Vec<(u64, u64, u32)> = posts
                .into_iter()
                .map(|(now, after, unit)| (now, now + length + after, unit % (GROUPS * each)))
                .collect();
            posts.sort_unstable();
            posts.reverse();
            let mut expected: Vec<(u64, u32)> = posts.iter().map(|&(_, time, unit)| (time, unit)).collect();
            expected.sort_unstable();
            let (mut found, mut sorted, mut packet) = (Vec::new(), Sorted::default(), 0);
            let (mut until, mut turn) = (0, 0);
            while found.len() < expected.len() {
                let window = until / length;
                let (mut end, cut) = ((window + 1) * length, until + cuts[turn % cuts.len()]);
                turn += 1;
                if until < cut && cut < end {
                    end = cut;
                }
                it.begin(window, 0);
                // Any group comes first, and sends to others while they wait for their turn.
                for group in 0..GROUPS as usize {
                    let list = it.open(group, end == (window + 1) * length, &mut sorted);
                    for &at in &list {
                        let due = &mut it.units[at as usize].due;
                        let arrivals = &sorted.arrivals[sorted.range(at)];
                        if !it.calendars[group].strike(due) && arrivals.is_empty() {
                            continue; // it stood there before, too
                        }
                        due.next = u64::MAX;
                        let inbox = &mut it.units[at as usize].inbox;
                        inbox.extend_from_slice(arrivals);
                        let due = inbox.extract_if(.., |arrival| arrival.time < end);
                        for arrival in due {
                            prop_assert!(arrival.time >= until);
                            found.push((arrival.time, at));
                        }
                        if let Some(next) = it.units[at as usize].inbox.iter().map(|a| a.time).min() {
                            it.calendars[group].list(at, &mut it.units[at as usize].due, next);
                        }
                    }
                    it.calendars[group].close(list);
                    while group == 0 && posts.last().is_some_and(|&(now, ..)| now < end) {
                        let (_, time, unit) = posts.pop().expect("it was looked at");
                        it.post(unit, Arrival::new(time, packet, packet));
                        packet += 1;
                    }
                }
                until = end;
            }
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
