//! Routers and what they do in a cycle. A [`Part`] is a range of routers that one thread works on;
//! parts meet only through events that are due in a later cycle, and events of one cycle commute, so
//! that the result is the same however the routers are cut.
//!
//! Flat arrays: ports by router, queues (VCs of input ports) and output VCs by port, one stride. A
//! router is worked on only while a packet waits in it; a flit on a wire is one entry of a
//! [`Wheel`]; space in a buffer is one too, on its way back. `cut` makes parts of a network,
//! `allocation` and `switching` are the halves of a router's cycle.

mod allocation;
pub(crate) mod cut;
mod switching;

use crate::wheel::Wheel;
use lightloom_fabric::routers::Choice;

/// A packet, as its head carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    /// The terminal that it is bound for.
    pub to: u32,
    /// The cycle in which it was created.
    pub created: u32,
    /// Whose it is: the source terminal, or a message.
    pub tag: u32,
    /// What it drew; see [`lightloom_fabric::routers::Routing::draws`].
    pub draw: u16,
    /// Length \[flits\].
    pub len: u8,
    /// Channels crossed.
    pub hops: u8,
}

/// Where packets go: a routing function, or paths laid down before.
pub(crate) trait Guide: Sync {
    fn route(
        &self,
        at: u32,
        came: Option<(u16, u8)>,
        to: u32,
        packet: &Packet,
        choices: &mut Vec<Choice>,
    );
    /// Whether there is one choice everywhere, which never changes.
    fn deterministic(&self) -> bool;
}

/// Where packets come from.
pub(crate) trait Source {
    /// The next packet of a terminal of this part, if it is there by `now`.
    fn poll(&mut self, terminal: u32, now: u64) -> Poll;
    /// The tail of a packet with this tag has left a terminal that was full or would be asked again.
    fn injected(&mut self, terminal: u32, tag: u32) {
        let _ = (terminal, tag);
    }
}

/// What a source has.
pub(crate) enum Poll {
    /// A packet to inject.
    Packet(Packet),
    /// Nothing before that cycle.
    At(u64),
    /// Nothing before another packet of the terminal has left, or [`Part::wake`] is called.
    Full,
    /// Nothing ever.
    Idle,
}

/// Where packets end.
pub(crate) trait Sink {
    /// Flits of a packet left the network in cycle `now`; `tail` if the last one was among them.
    fn ejected(&mut self, packet: &Packet, flits: u16, tail: bool, now: u64);
}

/// Flits on their way to a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flits {
    queue: u32,
    /// Whose head is among them, by its place in the pool; or [`NOBODY`].
    packet: u32,
    n: u16,
}

const NOBODY: u32 = u32::MAX;

/// Buffer space on its way back to an output's VC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    out: u32,
    n: u16,
}

/// What one part sends another in one cycle, each with the cycle in which it is due.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// With the packet whose head is among the flits.
    pub flits: Vec<(u64, Flits, Packet)>,
    pub credits: Vec<(u64, Credit)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// The packet at the front has not been routed.
    Fresh,
    /// It waits for `out`, and for room for one packet or two ahead.
    Routed,
    RoutedForTwo,
    /// It holds `out`, and nothing of it has left.
    Granted,
    /// Its head has left.
    Sending,
}

/// A VC of an input port.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// The packet at the front, by its place in the pool.
    front: u32,
    /// The output VC that the front packet waits for or holds, by its number in the router.
    out: u16,
    /// Flits in the buffer, the front packet's first.
    flits: u16,
    /// Flits of the front packet that have not left.
    left: u8,
    /// Packets: the one at the front, and those behind it in the ring from `head` on.
    count: u8,
    head: u8,
    state: State,
}

/// A VC of an output port: the free space in the buffer ahead, less what a packet that holds this VC
/// will take; [`BUSY`] while one does.
type Out = u16;

const BUSY: Out = 1 << 15;

#[derive(Clone, Copy, Debug, Default)]
struct Port {
    /// VCs whose front packet waits for an output.
    waiting: u16,
    /// VCs whose front packet holds an output and has flits.
    ready: u16,
    width_in: u16,
    width_out: u16,
    /// The input port that sent here last.
    last_in: u16,
    /// The input VC, by its number in the router, that was given one of its VCs last.
    last_claim: u16,
    /// The VC that sent last.
    last_vc: u8,
    down_part: u8,
    up_part: u8,
    /// Cycles until a flit may be handled by the next router.
    flit_delay: u16,
    /// Cycles until the sender may use a space again.
    credit_delay: u16,
    /// The word of its router's masks that it is in, among those of waiting ports; and its bit.
    word: u32,
    bit: u8,
    words: u8,
    router: u32,
    /// The port at the other end of the channel out, in its part.
    down: u32,
    /// The port at the other end of the channel in.
    up: u32,
    /// Flits sent.
    carried: u64,
}

#[derive(Clone, Copy, Debug)]
struct Router {
    first: u32,
    ports: u16,
    /// Ports with channels; the others are terminals'.
    channels: u16,
    /// Where its port masks begin: waiting, then ready.
    masks: u32,
    words: u16,
    /// How often its switch matches inputs and outputs in a cycle: its widest channel.
    rounds: u16,
}

#[derive(Clone, Copy, Debug)]
struct Terminal {
    port: u32,
    /// Slots for a packet under injection that are empty.
    free: u16,
    /// The last poll found more packets than slots.
    backlogged: bool,
    wake: u64,
}

/// Where terminals are; shared by all parts.
#[derive(Debug)]
pub(crate) struct Places {
    router: Vec<u32>,
    port: Vec<u16>,
}

/// A claim of a packet on an output VC; both by their number in the router.
#[derive(Clone, Copy, Debug)]
struct Claim {
    out: u16,
    queue: u16,
    age: (u32, u32),
    flits: u16,
}

/// See [`Part::near`].
const NEAR: u64 = 3;

/// Ports whose arrivals are handled together, as a power of two: some hundred kilobytes.
const BLOCK: u32 = 9;

/// Cycles that sources may sleep without being asked.
const NAP: u64 = 4_095;

/// A range of routers.
#[derive(Debug, Default)]
pub(crate) struct Part {
    shift: u32,
    ring_shift: u32,
    oldest: bool,
    /// Packets of one length fill buffers exactly: then space for a packet is there when one has left
    /// whole and not before, and it comes back at once with the tail.
    whole: bool,
    /// A packet takes at least this much of a buffer, however short it is.
    least: u8,
    ideal: bool,
    pipeline: u16,
    first_router: u32,
    first_terminal: u32,
    me: u8,
    routers: Vec<Router>,
    ports: Vec<Port>,
    queues: Vec<Queue>,
    /// Packets behind the front of each queue.
    ring: Vec<u32>,
    pool: Vec<Packet>,
    /// Free places in the pool.
    vacant: Vec<u32>,
    outs: Vec<Out>,
    masks: Vec<u64>,
    active: Vec<u64>,
    terminals: Vec<Terminal>,
    /// Flits that arrive within [`NEAR`] cycles, and the others: lists that come round soon stay in
    /// a cache.
    near: Wheel<Flits>,
    far: Wheel<Flits>,
    credits: Wheel<Credit>,
    wakes: Wheel<u32>,
    /// Terminals to be asked again, and the tag of the packet that left; [`NOBODY`] if none did.
    again: Vec<(u32, u32)>,
    /// What other parts get.
    pub mail: Vec<Mail>,
    /// Flits that crossed a channel.
    pub flit_hops: u64,
    /// The last cycle in which a flit moved.
    pub moved_at: u64,
    // Scratch of one router's cycle.
    claims: Vec<Claim>,
    /// By output VC: one more than the index of its best claim.
    claimed: Vec<u16>,
    choices: Vec<Choice>,
    granted: Vec<u32>,
    /// Queues that sent, by their number in the router, and how many flits each did.
    touched: Vec<u16>,
    moved: Vec<u8>,
    budget_in: Vec<u16>,
    budget_out: Vec<u16>,
    chosen: Vec<u8>,
    requests: Vec<u64>,
    wanted: Vec<u16>,
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
                (self.first_router + at as u32, port, carried)
            })
        })
    }
    /// A terminal has packets again.
    pub fn wake(&mut self, terminal: u32) {
        self.again.push((terminal, NOBODY));
    }

    /// Nothing will move until cycle `to`: what is still on its way back arrives.
    pub fn rest(&mut self, from: u64, to: u64) {
        let blocks = self.ports.len().div_ceil(1 << BLOCK);
        for now in from..to.min(from + self.credits.span() + 1) {
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
        let span = delay + u64::from(self.pipeline) + 2;
        self.far.stretch(span);
        self.credits.stretch(span);
    }

    /// Makes a channel from one port to another, both of this part and without flits.
    pub fn plug(&mut self, from: (u32, u16), to: (u32, u16), width: u16, delay: u16) {
        let [tx, rx] =
            [from, to].map(|(router, port)| self.routers[router as usize].first + u32::from(port));
        let (flit, credit) = (1 + delay + self.pipeline, if self.ideal { 1 } else { 1 + delay });
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
                flits.packet = self.keep(packet);
            }
            self.far.push(due, self.block(flits.queue), flits);
        }
        for (due, credit) in mail.credits.drain(..) {
            self.credits.push(due, self.block(credit.out), credit);
        }
    }

    /// The block of a queue or an output VC.
    #[inline]
    fn block(&self, at: u32) -> usize {
        (at >> (self.shift + BLOCK)) as usize
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
                self.work(router, now, guide, places, sink);
            }
        }
    }

    fn arrive(&mut self, now: u64, block: usize) {
        let credits = self.credits.take(now, block);
        for credit in &credits {
            self.outs[credit.out as usize] += credit.n;
        }
        self.credits.put(now, block, credits);
        let flits = self.near.take(now, block);
        self.take_in(&flits);
        self.near.put(now, block, flits);
        let flits = self.far.take(now, block);
        self.take_in(&flits);
        self.far.put(now, block, flits);
    }

    fn take_in(&mut self, flits: &[Flits]) {
        for event in flits {
            let at = event.queue as usize;
            if event.packet != NOBODY {
                self.enqueue(at, event.packet);
            }
            let queue = &mut self.queues[at];
            let empty = queue.flits == 0;
            queue.flits += event.n;
            if empty && matches!(queue.state, State::Granted | State::Sending) {
                self.set_ready(at);
            }
        }
    }

    /// Takes a place in the pool.
    fn keep(&mut self, packet: Packet) -> u32 {
        match self.vacant.pop() {
            Some(place) => {
                self.pool[place as usize] = packet;
                place
            }
            None => {
                self.pool.push(packet);
                self.pool.len() as u32 - 1
            }
        }
    }

    #[inline]
    fn enqueue(&mut self, at: usize, packet: u32) {
        let queue = &mut self.queues[at];
        queue.count += 1;
        if queue.count == 1 {
            self.step_up(at, packet);
        } else {
            let slot = usize::from(queue.head.wrapping_add(queue.count - 2));
            self.ring[(at << self.ring_shift) + (slot & ((1 << self.ring_shift) - 1))] = packet;
        }
    }

    /// A packet comes to the front of a queue.
    #[inline]
    fn step_up(&mut self, at: usize, packet: u32) {
        let queue = &mut self.queues[at];
        queue.front = packet;
        queue.left = self.pool[packet as usize].len;
        queue.state = State::Fresh;
        self.set_waiting(at);
    }

    #[inline]
    fn front(&self, at: usize) -> &Packet {
        &self.pool[self.queues[at].front as usize]
    }

    #[inline]
    fn set_waiting(&mut self, at: usize) {
        let port = &mut self.ports[at >> self.shift];
        port.waiting |= 1 << (at & ((1 << self.shift) - 1));
        self.masks[port.word as usize] |= 1 << port.bit;
        self.active[(port.router / 64) as usize] |= 1 << (port.router % 64);
    }

    #[inline]
    fn set_ready(&mut self, at: usize) {
        let port = &mut self.ports[at >> self.shift];
        port.ready |= 1 << (at & ((1 << self.shift) - 1));
        self.masks[port.word as usize + usize::from(port.words)] |= 1 << port.bit;
        self.active[(port.router / 64) as usize] |= 1 << (port.router % 64);
    }

    fn inject(&mut self, now: u64, source: &mut impl Source) {
        let mut due = self.wakes.take(now, 0);
        due.retain(|&t| self.terminals[t as usize].wake == now);
        let mut again = std::mem::take(&mut self.again);
        for &(terminal, tag) in &again {
            if tag != NOBODY {
                source.injected(terminal, tag);
            }
            self.fill(terminal, now, source);
        }
        for &terminal in &due {
            self.fill(terminal, now, source);
        }
        again.clear();
        self.again = again;
        self.wakes.put(now, 0, due);
    }

    fn fill(&mut self, terminal: u32, now: u64, source: &mut impl Source) {
        let at = terminal as usize;
        self.terminals[at].backlogged = false;
        loop {
            let Terminal { port, free, .. } = self.terminals[at];
            if free == 0 {
                self.terminals[at].backlogged = true;
                return;
            }
            match source.poll(terminal, now) {
                Poll::Packet(packet) => {
                    let slot = free.trailing_zeros();
                    self.terminals[at].free &= !(1 << slot);
                    let queue = ((port << self.shift) | slot) as usize;
                    let place = self.keep(packet);
                    self.enqueue(queue, place);
                    self.queues[queue].flits = u16::from(packet.len);
                }
                Poll::At(cycle) => {
                    let wake = cycle.clamp(now + 1, now + NAP);
                    if self.terminals[at].wake != wake {
                        self.terminals[at].wake = wake;
                        self.wakes.push(wake, 0, terminal);
                    }
                    return;
                }
                Poll::Full => {
                    self.terminals[at].backlogged = true;
                    return;
                }
                Poll::Idle => return,
            }
        }
    }

    fn work<G: Guide + ?Sized>(
        &mut self,
        at: usize,
        now: u64,
        guide: &G,
        places: &Places,
        sink: &mut impl Sink,
    ) {
        let router = self.routers[at];
        self.allocate(at, router, guide, places);
        self.switch(router, now, sink);
        for index in 0..self.touched.len() {
            let number = self.touched[index];
            let n = std::mem::take(&mut self.moved[usize::from(number)]);
            self.depart(number, n.into(), router, now, sink);
        }
        self.touched.clear();
        for index in 0..self.granted.len() {
            let queue = self.granted[index] as usize;
            if self.queues[queue].flits > 0 {
                self.set_ready(queue);
            }
        }
        self.granted.clear();
        let masks = router.masks as usize;
        if self.masks[masks..masks + 2 * usize::from(router.words)].iter().all(|&word| word == 0) {
            self.active[at / 64] &= !(1 << (at % 64));
        }
    }
}

/// How long after the last winner it is a candidate's turn.
#[inline]
fn turn(candidate: u16, last: u16) -> u16 {
    candidate.wrapping_sub(last).wrapping_sub(1)
}
