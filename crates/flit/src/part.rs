//! Routers and what they do in a cycle. A [`Part`] is a range of routers that one thread works on;
//! parts meet only through events that are due in a later cycle, and events of one cycle commute, so
//! that the result is the same however the routers are cut.
//!
//! Flat arrays: ports by router, queues (VCs of input ports) and output VCs by port, one stride. A
//! router is worked on only while a packet waits in it; a flit on a wire is one entry of a
//! [`Wheel`](crate::wheel::Wheel); space in a buffer is one too, on its way back. `cut` makes parts of a
//! network; a router's cycle is worked [`here`]: `allocation`, then `switching` and `departing`.

mod allocation;
pub(crate) mod cut;
mod departing;
mod here;
mod injecting;
mod rounds;
mod state;
mod switching;
mod turns;
mod wires;

use crate::wheel::Wheel;
use here::{Here, Scratch};
use state::{BLOCK, Out, Pool, Port, Queue, Router, Rules, State, Terminal};
pub(crate) use state::{Guide, Packet, Places, Poll, Sink, Source};
use turns::Turns;
pub(crate) use wires::Mail;
use wires::{Flits, NOBODY, Wires};

/// A range of routers.
#[derive(Debug, Default)]
pub(crate) struct Part {
    rules: Rules,
    first_terminal: u32,
    routers: Vec<Router>,
    ports: Vec<Port>,
    queues: Vec<Queue>,
    /// Packets behind the front of each queue.
    ring: Vec<u32>,
    pool: Pool,
    outs: Vec<Out>,
    masks: Vec<u64>,
    /// Routers with something to do.
    active: Vec<u64>,
    terminals: Vec<Terminal>,
    wires: Wires,
    wakes: Wheel<u32>,
    /// Terminals to be asked again, and the tag of the packet that left; [`NOBODY`] if none did.
    again: Vec<(u32, u32)>,
    /// What other parts get.
    pub mail: Vec<Mail>,
    /// The last cycle in which a flit moved.
    pub moved_at: u64,
    scratch: Scratch,
    turns: Box<Turns>,
}

impl Part {
    /// The first terminal; a part holds a range of them.
    pub fn first_terminal(&self) -> u32 {
        self.first_terminal
    }
    /// How many terminals.
    pub fn terminals(&self) -> u32 {
        self.terminals.len() as u32
    }
    /// Flits in buffers.
    pub fn buffered(&self) -> u64 {
        self.queues.iter().map(|queue| u64::from(queue.flits)).sum()
    }
    /// Flits that each channel out of a router of this part carried: (router, port, flits).
    pub fn carried(&self) -> impl Iterator<Item = (u32, u16, u64)> + '_ {
        self.routers.iter().enumerate().flat_map(move |(at, router)| {
            (0..router.channels).map(move |port| {
                let carried = self.ports[(router.first + u32::from(port)) as usize].carried;
                (self.rules.first_router + at as u32, port, carried)
            })
        })
    }
    /// Flits that crossed a channel.
    pub fn flit_hops(&self) -> u64 {
        self.ports.iter().map(|port| port.carried).sum()
    }
    /// A terminal has packets again.
    pub fn wake(&mut self, terminal: u32) {
        self.again.push((terminal, NOBODY));
    }

    /// Nothing will move until cycle `to`: what is still on its way back arrives.
    pub fn rest(&mut self, from: u64, to: u64) {
        let blocks = self.ports.len().div_ceil(1 << BLOCK);
        for now in from..to.min(from + self.wires.credits.span() + 1) {
            for block in 0..blocks {
                self.arrive(now, block);
            }
        }
    }

    /// Lets terminals inject and eject at all channels of their router at once: the switch takes as
    /// many rounds as those are wide together.
    pub fn open_terminals(&mut self) {
        (0..self.routers.len()).for_each(|router| self.open_terminal(router));
    }

    fn open_terminal(&mut self, router: usize) {
        let Router { first, channels, .. } = self.routers[router];
        let ports = &self.ports[first as usize..(first + u32::from(channels)) as usize];
        let widths = ports.iter().map(|port| port.width_in.max(port.width_out));
        self.routers[router].rounds = widths.fold(1, u16::saturating_add);
    }

    /// Prepares for channels of up to `delay` cycles, before the first cycle.
    pub fn expect(&mut self, delay: u64) {
        let span = delay + u64::from(self.rules.pipeline) + 2;
        self.wires.far.stretch(span);
        self.wires.credits.stretch(span);
    }

    /// Makes a channel from one port to another, both of this part and without flits.
    pub fn plug(&mut self, from: (u32, u16), to: (u32, u16), width: u16, delay: u16) {
        let [tx, rx] =
            [from, to].map(|(router, port)| self.routers[router as usize].first + u32::from(port));
        let (flit, credit) =
            (1 + delay + self.rules.pipeline, if self.rules.ideal { 1 } else { 1 + delay });
        let sender = &mut self.ports[tx as usize];
        (sender.width_out, sender.down, sender.flit_delay) = (width, rx, flit);
        let receiver = &mut self.ports[rx as usize];
        (receiver.width_in, receiver.up, receiver.credit_delay) = (width, tx, credit);
        for (router, _) in [from, to] {
            self.open_terminal(router as usize);
        }
    }

    /// Takes the channel that leaves by a port away.
    pub fn unplug(&mut self, from: (u32, u16)) {
        let port = self.routers[from.0 as usize].first + u32::from(from.1);
        self.ports[port as usize].width_out = 0;
    }

    /// Takes what other parts sent.
    pub fn receive(&mut self, mail: &mut Mail) {
        for (due, mut flits, packet) in mail.flits.drain(..) {
            if flits.packet != NOBODY {
                flits.packet = self.pool.keep(packet);
            }
            self.wires.deliver(due, flits);
        }
        for (due, credit) in mail.credits.drain(..) {
            self.wires.give_back(due, credit);
        }
    }

    /// Works cycle `now`.
    pub fn step<G: Guide + ?Sized>(
        &mut self,
        now: u64,
        guide: &G,
        places: &Places,
        source: &mut impl Source,
        sink: &mut impl Sink,
    ) {
        self.inject(now, source);
        let mut blocks = 0;
        for word in 0..self.active.len() {
            // What arrives at these routers' ports comes first.
            let last = self.routers[self.routers.len().min(word * 64 + 64) - 1];
            let end = (last.first + u32::from(last.ports)).div_ceil(1 << BLOCK) as usize;
            while blocks < end {
                self.arrive(now, blocks);
                blocks += 1;
            }
            let mut bits = self.active[word];
            while bits != 0 {
                let router = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if self.work(router, now, guide, places, sink) {
                    self.active[word] &= !(1 << (router % 64));
                }
            }
        }
    }

    fn arrive(&mut self, now: u64, block: usize) {
        let credits = self.wires.credits.take(now, block);
        for credit in &credits {
            self.outs[credit.out as usize] += credit.n;
        }
        self.wires.credits.put(now, block, credits);
        let flits = self.wires.near.take(now, block);
        self.take_in(&flits);
        self.wires.near.put(now, block, flits);
        let flits = self.wires.far.take(now, block);
        self.take_in(&flits);
        self.wires.far.put(now, block, flits);
    }

    fn take_in(&mut self, flits: &[Flits]) {
        for event in flits {
            let at = event.queue as usize;
            if event.packet != NOBODY {
                self.queues[at].flits += u16::from(event.n);
                self.enqueue(at, event.packet, event.len);
                continue;
            }
            let queue = &mut self.queues[at];
            queue.flits += u16::from(event.n);
            let sending = queue.state == State::Sending;
            let (port, vc) =
                (&mut self.ports[at >> self.rules.shift], at & ((1 << self.rules.shift) - 1));
            port.ready |= u16::from(sending) << vc;
            self.masks[port.word as usize + usize::from(port.words)] |=
                u64::from(sending) << port.bit;
            self.active[(port.router / 64) as usize] |= 1 << (port.router % 64);
        }
    }

    #[inline]
    fn enqueue(&mut self, at: usize, packet: u32, len: u8) {
        let queue = &mut self.queues[at];
        queue.count += 1;
        if queue.count > 1 {
            let slot = usize::from(queue.head.wrapping_add(queue.count - 2));
            let mask = (1 << self.rules.ring_shift) - 1;
            self.ring[(at << self.rules.ring_shift) + (slot & mask)] = packet;
            return;
        }
        (queue.front, queue.left, queue.state) = (packet, len, State::Fresh);
        let port = &mut self.ports[at >> self.rules.shift];
        port.waiting |= 1 << (at & ((1 << self.rules.shift) - 1));
        self.masks[port.word as usize] |= 1 << port.bit;
        self.active[(port.router / 64) as usize] |= 1 << (port.router % 64);
    }

    /// Works a router; says whether it may rest until something arrives.
    #[inline]
    fn work<G: Guide + ?Sized>(
        &mut self,
        at: usize,
        now: u64,
        guide: &G,
        places: &Places,
        sink: &mut impl Sink,
    ) -> bool {
        let router = self.routers[at];
        let (ports, shift) = (usize::from(router.ports), self.rules.shift);
        let first = router.first as usize;
        let queues = first << shift..(first + ports) << shift;
        let (masks, words) = (router.masks as usize, usize::from(router.words));
        let ring = queues.start << self.rules.ring_shift..queues.end << self.rules.ring_shift;
        let mut here = Here {
            now,
            rules: self.rules,
            router,
            at: at as u32,
            ports: &mut self.ports[first..first + ports],
            queues: &mut self.queues[queues.clone()],
            outs: &mut self.outs[queues],
            ring: &mut self.ring[ring],
            masks: &mut self.masks[masks..masks + 2 * words],
            pool: &mut self.pool,
            wires: &mut self.wires,
            mail: &mut self.mail,
            terminals: &mut self.terminals,
            again: &mut self.again,
            moved_at: &mut self.moved_at,
            scratch: &mut self.scratch,
            turns: &mut self.turns,
        };
        here.work(guide, places, sink)
    }
}
