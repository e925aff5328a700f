//! Flows under way: the packets that are left of each at its source, and its path.

use super::plant::{Hop, Plant};
use super::settings::FlitEngine;
use crate::part::{Guide, Packet, Poll, Sink, Source};
use lightloom_fabric::LinkId;
use lightloom_fabric::routers::Choice;
use lightloom_units::{Bytes, Time};
use std::collections::VecDeque;

/// A lane of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub track: u32,
    pub bytes: Bytes,
    pub start: Time,
    pub links: Vec<LinkId>,
}

/// The hops of each message.
#[derive(Debug, Default)]
pub(crate) struct Paths(Vec<Vec<Hop>>);

impl Guide for Paths {
    fn route(
        &self,
        _: u32,
        _: Option<(u16, u8)>,
        _: u32,
        packet: &Packet,
        choices: &mut Vec<Choice>,
    ) {
        let Hop { port, lanes, class } = self.0[packet.tag as usize][usize::from(packet.hops)];
        for port in port..port + u16::from(lanes) {
            choices.extend([Choice::new(port, 2 * class), Choice::new(port, 2 * class + 1)]);
        }
    }
}

/// A message at its source.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    to: u32,
    flits: u64,
    /// Packets under injection.
    inside: u8,
}

/// Packets of one message that a source injects at once, so that a slow one leaves room for others.
const INSIDE: u8 = 2;

/// Messages of each terminal, whose packets take turns.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Messages that may inject.
    queues: Vec<VecDeque<u32>>,
    rest: Vec<Rest>,
    packet: u8,
}

impl Source for Sources {
    fn poll(&mut self, terminal: u32, now: u64) -> Poll {
        let queue = &mut self.queues[terminal as usize];
        let Some(message) = queue.pop_front() else { return Poll::Full };
        let rest = &mut self.rest[message as usize];
        let packet = u64::from(self.packet);
        // The last two packets are even, so that none but a message's only one is short.
        let len = match rest.flits {
            flits if flits > packet && flits < 2 * packet => flits.div_ceil(2),
            flits => flits.min(packet),
        };
        rest.flits -= len;
        rest.inside += 1;
        if rest.flits > 0 && rest.inside < INSIDE {
            queue.push_back(message);
        }
        // Ages are compared among packets that meet; wrapping is far away.
        let created = now as u32;
        Poll::Packet(Packet {
            to: rest.to,
            created,
            tag: message,
            draw: 0,
            len: len as u8,
            hops: 0,
        })
    }

    fn injected(&mut self, terminal: u32, message: u32) {
        let rest = &mut self.rest[message as usize];
        rest.inside -= 1;
        if rest.flits > 0 && rest.inside + 1 == INSIDE {
            self.queues[terminal as usize].push_back(message);
        }
    }
}

/// What was ejected in a cycle: (message, flits).
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    pub flits: Vec<(u32, u16)>,
}

impl Sink for Arrivals {
    fn ejected(&mut self, packet: &Packet, flits: u16, _: bool, _: u64) {
        self.flits.push((packet.tag, flits));
    }
}

/// Every message that has not arrived.
#[derive(Debug)]
pub(crate) struct Messages {
    pub paths: Paths,
    pub sources: Sources,
    messages: Vec<Option<Message>>,
    /// By message: source, destination, flits in all, flits still to arrive.
    state: Vec<(u32, u32, u64)>,
    free: Vec<u32>,
    moving: usize,
    /// The last cycle in which one began.
    pub moved: u64,
    flit: u64,
}

impl Messages {
    pub fn new(terminals: u32, flit: Bytes, packet: u8) -> Self {
        Messages {
            paths: Paths::default(),
            sources: Sources {
                queues: vec![VecDeque::new(); terminals as usize],
                rest: Vec::new(),
                packet,
            },
            messages: Vec::new(),
            state: Vec::new(),
            free: Vec::new(),
            moving: 0,
            moved: 0,
            flit: flit.get(),
        }
    }

    /// Messages that have begun and have not arrived.
    pub fn moving(&self) -> usize {
        self.moving
    }

    /// Adds a message that begins later.
    pub fn add(
        &mut self,
        message: Message,
        plant: &Plant,
        engine: &FlitEngine,
    ) -> Result<u32, String> {
        let Some((from, to)) = plant.path_ends(&message.links) else {
            return Err("a flow that does not go from a GPU to a GPU".into());
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.messages.push(None);
            self.paths.0.push(Vec::new());
            self.state.push((0, 0, 0));
            self.sources.rest.push(Rest::default());
            self.messages.len() as u32 - 1
        });
        let hops = &mut self.paths.0[at as usize];
        hops.clear();
        plant.hops(&message.links, hops);
        let classes = hops.last().map_or(1, |hop| hop.class + 1);
        if classes > engine.classes() || hops.len() > 255 {
            return Err(format!(
                "a path of {} hops takes {classes} classes of virtual channels to be free of \
                 deadlock: engine.vcs = {} gives {}, two a class",
                hops.len(),
                engine.vcs,
                engine.classes()
            ));
        }
        self.state[at as usize] = (from, to, message.bytes.get().div_ceil(self.flit));
        self.messages[at as usize] = Some(message);
        Ok(at)
    }

    /// A message begins; its source, which is to be woken, is returned.
    pub fn begin(&mut self, message: u32) -> u32 {
        let (from, to, flits) = self.state[message as usize];
        self.sources.rest[message as usize] = Rest { to, flits, inside: 0 };
        self.sources.queues[from as usize].push_back(message);
        self.moving += 1;
        from
    }

    /// Flits of a message have arrived: the message, if they were the last.
    pub fn arrive(&mut self, message: u32, flits: u16) -> Option<Message> {
        let left = &mut self.state[message as usize].2;
        *left -= u64::from(flits);
        if *left > 0 {
            return None;
        }
        self.moving -= 1;
        self.free.push(message);
        self.messages[message as usize].take()
    }
}
