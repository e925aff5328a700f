//! A shard: some units of the network with all that they hold, worked off window by window (`windows.rs`).
//!
//! Nothing in it is touched by another shard while a window lasts. What goes to another shard is mail,
//! which that one reads when its next window begins.

use crate::agenda::Agenda;
use crate::ahead::fetch;
use crate::balancer::outside::Outside;
use crate::coming::Coming;
use crate::common::{Common, Counts};
use crate::conn::{Inbound, Message};
use crate::halves::{Receiver, Sender};
use crate::layout::UnitOf;
use crate::link::{Link, Tally};
use crate::mail::{Mail, Sorted};
use crate::packet::{NONE, Pool};
use crate::schedule::Calendar;
use crate::things::{Puller, Thing};
use crate::transit::{Bag, Transit};
use lightloom_fabric::{LinkId, NodeId};
use std::collections::HashMap;

/// See the head of this file.
#[derive(Debug)]
#[repr(align(128))] // no two threads write to one cache line, nor to two that are fetched together
pub(crate) struct Shard<'a> {
    /// The links that its units send into.
    pub links: Vec<Link>,
    /// By link: what it is called.
    pub names: Vec<u32>,
    /// By link: whose it is.
    pub unit_of: Vec<u32>,
    pub tallies: Vec<Tally>,
    /// By link: its switch, of those here; what queues of each hold. Empty unless they share a buffer.
    pub switch_of: Vec<u32>,
    pub held: Vec<u64>,
    /// By switch, and the switch where the way ends: what is left of it, once for each next link.
    pub ways: HashMap<(NodeId, NodeId), Vec<Vec<u32>>>,
    /// By link: of what comes by its other direction; empty unless receivers pull.
    pub pullers: Vec<Puller>,
    pub transit: Transit,
    /// What arrives at a group in the window that is worked off.
    pub sorted: Sorted,
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
    /// What arrives in the next window.
    pub coming: Coming,
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
    /// A shard of so many, with windows of a length; units follow by [`Shard::add_unit`].
    pub fn new(number: usize, shards: usize, through: usize, window: u64) -> Self {
        Shard {
            links: Vec::new(),
            names: Vec::new(),
            unit_of: Vec::new(),
            tallies: Vec::new(),
            switch_of: Vec::new(),
            held: Vec::new(),
            ways: HashMap::new(),
            pullers: Vec::new(),
            transit: Transit::new(number, shards, window),
            sorted: Sorted::default(),
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
            inbags: (0..shards).map(|_| Bag::EMPTY).collect(),
            counts: Counts::default(),
            last: 0,
            finished: Vec::new(),
            ending: Vec::new(),
            coming: Coming::default(),
            armed: Vec::new(),
            no_path: None,
            path: Vec::new(),
            wakes: Vec::new(),
            outside: None,
        }
    }

    /// One more unit; where the first link of a unit is placed.
    pub fn add_unit(&mut self, unit: &UnitOf, place: impl Fn(u32) -> u32) {
        let (UnitOf { links, port, group }, transit) = (unit, &mut self.transit);
        while transit.calendars.len() <= usize::from(*group) {
            transit.add_group();
        }
        let agenda = if *port { NONE } else { transit.agendas.len() as u32 };
        if !*port {
            transit.agendas.push(Agenda::EMPTY);
        }
        let link = if *port { place(links[0]) } else { NONE };
        transit.add_unit(*group, link, agenda);
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

    /// Files what arrives at the units around one, itself included, in a window.
    pub fn read_mail_around(&mut self, unit: u32, window: u64) {
        self.transit.read_mail(usize::from(self.transit.groups[unit as usize]), window);
    }

    /// Reads what other shards sent.
    pub fn read_others_mail(&mut self) {
        let transit = &mut self.transit;
        for bag in &mut self.inbags {
            for (turn, ((unit, arrival), packet)) in
                bag.letters.iter().zip(&bag.packets).enumerate()
            {
                fetch(&bag.packets, turn + 6);
                self.pool.fetch_free(6);
                let id = self.pool.take();
                self.pool.packets[id as usize] = packet.clone();
                transit.post(*unit, arrival.renamed(id));
            }
            bag.letters.clear();
            bag.packets.clear();
            bag.first = u64::MAX;
        }
    }

    /// The first window with something to do, of length `window`.
    pub fn first_window(&self, window: u64) -> Option<u64> {
        let others = self.inbags.iter().map(|bag| bag.first).min().unwrap_or(u64::MAX);
        let others = (others != u64::MAX).then_some(others / window);
        let Transit { calendars, mails, window, .. } = &self.transit;
        let own = mails.iter().filter_map(|mail| mail.first(*window));
        calendars.iter().filter_map(Calendar::first).chain(own).chain(others).min()
    }

    /// When the next thing happens in a window, if anything does; reads mail.
    pub fn first_time(&mut self, window: u64) -> u64 {
        self.read_others_mail();
        (0..self.transit.mails.len()).for_each(|group| self.transit.read_mail(group, window));
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
        let others: usize = self.inbags.iter().map(|bag| bag.letters.len()).sum();
        others + self.transit.mails.iter().map(Mail::len).sum::<usize>()
    }
}
