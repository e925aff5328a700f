//! Routers and what they do in a cycle. A [`Part`] is a range of routers that one thread works on;
//! parts meet only through events that are due in a later cycle, and events of one cycle commute, so
//! that the result is the same however the routers are cut.
//!
//! Flat arrays: ports by router, queues (VCs of input ports) and output VCs by port, one stride. A
//! router is worked on only while a packet waits in it; a flit on a wire is one entry of a
//! [`Wheel`]; space in a buffer is one too, on its way back.

use crate::settings::{Arbitration, Credits, Settings};
use crate::wheel::Wheel;
use lightloom_fabric::routers::{Choice, Network};

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
    /// Flits.
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
    /// Nothing before another packet of the terminal has left, or the part is told to ask again.
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

#[derive(Clone, Copy, Debug)]
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
#[derive(Debug)]
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

/// Cuts a network into parts of about equally many ports.
pub(crate) fn cut(
    network: &Network,
    settings: &Settings,
    shortest: u8,
    parts: usize,
) -> (Vec<Part>, Places) {
    let routers = network.routers();
    let mut terminals_at = vec![0u16; routers as usize];
    let mut places = Places { router: network.terminals().to_vec(), port: Vec::new() };
    for &router in network.terminals() {
        places.port.push(network.ports(router) + terminals_at[router as usize]);
        terminals_at[router as usize] += 1;
    }
    let size = |router: u32| u64::from(network.ports(router) + terminals_at[router as usize]);
    let all: u64 = (0..routers).map(size).sum();
    // Which part each router is in, and its first port there.
    let (mut part_of, mut first) = (vec![0u8; routers as usize], vec![0u32; routers as usize]);
    let (mut seen, mut in_part, mut at) = (0u64, 0u64, 0usize);
    for router in 0..routers {
        if seen * parts as u64 >= (at as u64 + 1) * all && at + 1 < parts {
            (at, in_part) = (at + 1, 0);
        }
        part_of[router as usize] = at as u8;
        first[router as usize] = in_part as u32;
        in_part += size(router);
        seen += size(router);
    }
    let made = (0..=at)
        .map(|part| {
            let from = part_of.iter().position(|&p| usize::from(p) == part).unwrap_or(0) as u32;
            let to = part_of.iter().rposition(|&p| usize::from(p) == part).map_or(0, |p| p + 1);
            let range = from..to as u32;
            Part::new(
                network,
                settings,
                shortest,
                (part as u8, at + 1),
                range,
                (&part_of, &first, &places),
            )
        })
        .collect();
    (made, places)
}

impl Part {
    fn new(
        network: &Network,
        settings: &Settings,
        shortest: u8,
        (me, parts): (u8, usize),
        range: std::ops::Range<u32>,
        (part_of, first, places): (&[u8], &[u32], &Places),
    ) -> Part {
        let vcs = settings.vcs.max(settings.injection_vcs);
        let shift = u32::from(vcs).next_power_of_two().trailing_zeros();
        let most = 1 + (u32::from(settings.buffer) - 1) / u32::from(shortest.max(1));
        let ring_shift = most.next_power_of_two().trailing_zeros();
        let delay = network.channels().iter().map(|c| c.delay).max().unwrap_or(0);
        let span = u64::from(delay) + u64::from(settings.pipeline) + 2;
        // Terminals of one router are together, and routers' terminals in the order of routers, or a
        // part would not hold a range of them.
        let mut mine: Vec<u32> = (0..places.router.len() as u32)
            .filter(|&t| range.contains(&places.router[t as usize]))
            .collect();
        mine.sort_by_key(|&t| (places.router[t as usize], places.port[t as usize]));
        let mut part = Part {
            shift,
            ring_shift,
            oldest: settings.arbitration == Arbitration::Oldest,
            least: shortest,
            ideal: settings.credits == Credits::Ideal,
            pipeline: settings.pipeline,
            whole: settings.buffer % u16::from(settings.packet) == 0 && shortest == settings.packet,
            first_router: range.start,
            first_terminal: mine.first().copied().unwrap_or(0),
            me,
            routers: Vec::new(),
            ports: Vec::new(),
            queues: Vec::new(),
            ring: Vec::new(),
            pool: Vec::new(),
            vacant: Vec::new(),
            outs: Vec::new(),
            masks: Vec::new(),
            active: vec![0; range.len().div_ceil(64)],
            terminals: Vec::new(),
            near: Wheel::new(0, 1),
            far: Wheel::new(0, 1),
            credits: Wheel::new(0, 1),
            wakes: Wheel::new(NAP, 1),
            again: Vec::new(),
            mail: (0..parts).map(|_| Mail::default()).collect(),
            flit_hops: 0,
            moved_at: 0,
            claims: Vec::new(),
            claimed: Vec::new(),
            choices: Vec::new(),
            granted: Vec::new(),
            touched: Vec::new(),
            moved: Vec::new(),
            budget_in: Vec::new(),
            budget_out: Vec::new(),
            chosen: Vec::new(),
            requests: Vec::new(),
            wanted: Vec::new(),
        };
        let (mut next, mut widest, mut words_most) = (mine.iter().peekable(), 0, 0);
        for router in range {
            let channels = network.ports(router);
            let begin = part.ports.len() as u32;
            for port in 0..channels {
                let (out, into) = (network.out(router, port), network.into(router, port));
                part.ports.push(Port {
                    waiting: 0,
                    ready: 0,
                    width_in: into.map_or(0, |c| c.width),
                    width_out: out.map_or(0, |c| c.width),
                    last_in: 0,
                    last_claim: 0,
                    last_vc: 0,
                    down_part: out.map_or(me, |c| part_of[c.to.router as usize]),
                    up_part: into.map_or(me, |c| part_of[c.from.router as usize]),
                    flit_delay: 1 + out.map_or(0, |c| c.delay) + settings.pipeline,
                    credit_delay: match settings.credits {
                        Credits::Ideal => 1,
                        Credits::Link => 1 + into.map_or(0, |c| c.delay),
                    },
                    word: 0,
                    bit: 0,
                    words: 0,
                    router: router - part.first_router,
                    down: out.map_or(0, |c| first[c.to.router as usize] + u32::from(c.to.port)),
                    up: into.map_or(0, |c| first[c.from.router as usize] + u32::from(c.from.port)),
                    carried: 0,
                });
            }
            while let Some(&&terminal) = next.peek()
                && places.router[terminal as usize] == router
            {
                next.next();
                part.terminals.push(Terminal {
                    port: part.ports.len() as u32,
                    free: ((1u32 << settings.injection_vcs) - 1) as u16,
                    backlogged: false,
                    wake: u64::MAX,
                });
                part.ports.push(Port {
                    waiting: 0,
                    ready: 0,
                    width_in: settings.injection,
                    width_out: settings.ejection,
                    last_in: 0,
                    last_claim: 0,
                    last_vc: 0,
                    down_part: me,
                    up_part: me,
                    flit_delay: 1,
                    credit_delay: 1,
                    word: 0,
                    bit: 0,
                    words: 0,
                    router: router - part.first_router,
                    down: 0,
                    // Its number among the part's terminals.
                    up: part.terminals.len() as u32 - 1,
                    carried: 0,
                });
            }
            let ports = (part.ports.len() as u32 - begin) as u16;
            let words = ports.div_ceil(64);
            for local in 0..u32::from(ports) {
                let port = &mut part.ports[(begin + local) as usize];
                port.word = part.masks.len() as u32 + local / 64;
                port.bit = (local % 64) as u8;
                port.words = words as u8;
            }
            part.routers.push(Router {
                first: begin,
                ports,
                channels,
                masks: part.masks.len() as u32,
                words,
                rounds: (begin..begin + u32::from(channels))
                    .map(|at| {
                        part.ports[at as usize].width_out.max(part.ports[at as usize].width_in)
                    })
                    .max()
                    .unwrap_or(1),
            });
            part.masks.resize(part.masks.len() + 2 * usize::from(words), 0);
            (widest, words_most) = (ports.max(widest), words.max(words_most));
        }
        let queues = part.ports.len() << shift;
        part.queues = vec![Queue::default(); queues];
        part.ring = vec![NOBODY; queues << ring_shift];
        part.outs = vec![settings.buffer; queues];
        let blocks = part.ports.len().div_ceil(1 << BLOCK);
        part.near = Wheel::new(NEAR, blocks);
        part.far = Wheel::new(span, blocks);
        let back = part.ports.iter().map(|port| port.credit_delay).max().unwrap_or(1);
        part.credits = Wheel::new(back.into(), blocks);
        part.claimed = vec![0; usize::from(widest) << shift];
        part.moved = vec![0; usize::from(widest) << shift];
        part.budget_in = vec![0; widest.into()];
        part.budget_out = vec![0; widest.into()];
        part.chosen = vec![0; widest.into()];
        part.requests = vec![0; usize::from(widest) * usize::from(words_most)];
        for terminal in 0..part.terminals.len() as u32 {
            part.again.push((terminal, NOBODY));
        }
        part
    }

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

    // ---- allocation

    fn allocate<G: Guide + ?Sized>(
        &mut self,
        at: usize,
        router: Router,
        guide: &G,
        places: &Places,
    ) {
        for word in 0..u32::from(router.words) {
            let mut ports = self.masks[(router.masks + word) as usize];
            while ports != 0 {
                let local = word * 64 + ports.trailing_zeros();
                ports &= ports - 1;
                let port = router.first + local;
                let mut vcs = self.ports[port as usize].waiting;
                while vcs != 0 {
                    let vc = vcs.trailing_zeros();
                    vcs &= vcs - 1;
                    self.claim(at, router, (local, vc), guide, places);
                }
            }
        }
        let mut claims = std::mem::take(&mut self.claims);
        for (index, claim) in claims.iter().enumerate() {
            let claimed = &mut self.claimed[usize::from(claim.out)];
            if usize::from(*claimed) != index + 1 {
                continue;
            }
            *claimed = 0;
            let first = (router.first as usize) << self.shift;
            let out = &mut self.outs[first + usize::from(claim.out)];
            *out = (*out - claim.flits) | BUSY;
            let port = router.first as usize + usize::from(claim.out >> self.shift);
            self.ports[port].last_claim = claim.queue;
            let queue = first + usize::from(claim.queue);
            self.queues[queue].out = claim.out;
            self.grant(queue, router);
        }
        claims.clear();
        self.claims = claims;
    }

    fn grant(&mut self, at: usize, router: Router) {
        self.queues[at].state = State::Granted;
        self.granted.push(at as u32);
        let port = &mut self.ports[at >> self.shift];
        port.waiting &= !(1 << (at & ((1 << self.shift) - 1)));
        if port.waiting == 0 {
            let local = (at >> self.shift) as u32 - router.first;
            self.masks[(router.masks + local / 64) as usize] &= !(1 << (local % 64));
        }
    }

    #[inline]
    fn claim<G: Guide + ?Sized>(
        &mut self,
        at: usize,
        router: Router,
        (local, vc): (u32, u32),
        guide: &G,
        places: &Places,
    ) {
        let first = (router.first as usize) << self.shift;
        let number = ((local << self.shift) | vc) as u16;
        let queue = first + usize::from(number);
        let Queue { mut out, state, left, .. } = self.queues[queue];
        let len = u16::from(left.max(self.least));
        if state != State::Fresh {
            let room = if state == State::RoutedForTwo { 2 * len } else { len };
            let ahead = self.outs[first + usize::from(out)];
            if ahead & BUSY != 0 || ahead < room {
                return;
            }
        }
        let packet = *self.front(queue);
        if state == State::Fresh {
            let to = places.router[packet.to as usize];
            let here = self.first_router + at as u32;
            if to == here {
                self.queues[queue].out = places.port[packet.to as usize] << self.shift;
                self.grant(queue, router);
                return;
            }
            let injected = local >= u32::from(router.channels);
            let came = (!injected).then_some((local as u16, vc as u8));
            self.choices.clear();
            guide.route(here, came, to, &packet, &mut self.choices);
            let index = |c: &Choice| (c.port << self.shift) | u16::from(c.vc);
            let fits = |c: &Choice| {
                let ahead = self.outs[first + usize::from(index(c))];
                (ahead & BUSY == 0 && ahead >= len * u16::from(c.room)).then_some(ahead)
            };
            if guide.deterministic() {
                let only = self.choices[0];
                out = index(&only);
                let queue = &mut self.queues[queue];
                queue.out = out;
                queue.state = if only.room > 1 { State::RoutedForTwo } else { State::Routed };
                if fits(&only).is_none() {
                    return;
                }
            } else {
                let mut best: Option<(u8, u16)> = None;
                for option in &self.choices {
                    let Some(credits) = fits(option) else { continue };
                    let better = best.is_none_or(|(rank, held)| {
                        option.rank < rank || (option.rank == rank && credits > held)
                    });
                    if better {
                        best = Some((option.rank, credits));
                        out = index(option);
                    }
                }
                if best.is_none() {
                    return;
                }
            }
        }
        let claim = Claim { out, queue: number, age: (packet.created, packet.tag), flits: len };
        let held = &mut self.claimed[usize::from(out)];
        let better = *held == 0 || {
            let rival = &self.claims[usize::from(*held) - 1];
            match self.oldest {
                true => claim.age < rival.age,
                false => {
                    let port = router.first as usize + usize::from(out >> self.shift);
                    let last = self.ports[port].last_claim;
                    turn(number, last) < turn(rival.queue, last)
                }
            }
        };
        if better {
            self.claims.push(claim);
            *held = self.claims.len() as u16;
        }
    }

    // ---- switching

    fn switch(&mut self, router: Router, now: u64, sink: &mut impl Sink) {
        let ready = self.masks[router.masks as usize + usize::from(router.words)];
        if router.words > 1 || self.oldest {
            self.switch_in_rounds(router);
            if !self.touched.is_empty() {
                self.moved_at = now;
            }
        } else if ready != 0 {
            self.moved_at = now;
            let rest = self.switch_apart(router, ready, now, sink);
            if rest != 0 {
                self.switch_in_turn(router, rest);
            }
        }
    }

    /// Moves the flits of inputs that have one VC to choose, bound for an output that no other VC is
    /// bound for: what rounds would do, at once. Returns the other inputs.
    fn switch_apart(&mut self, router: Router, ready: u64, now: u64, sink: &mut impl Sink) -> u64 {
        let (first, shift) = (router.first as usize, self.shift);
        let (mut ports, mut single, mut once, mut twice) = (ready, 0u64, 0u64, 0u64);
        while ports != 0 {
            let local = ports.trailing_zeros() as usize;
            ports &= ports - 1;
            let mut vcs = self.ports[first + local].ready;
            single |= u64::from(vcs.is_power_of_two()) << local;
            while vcs != 0 {
                let vc = vcs.trailing_zeros() as usize;
                vcs &= vcs - 1;
                let bit = 1u64 << (self.queues[((first + local) << shift) | vc].out >> shift);
                twice |= once & bit;
                once |= bit;
            }
        }
        let mut rest = ready & !single;
        while single != 0 {
            let local = single.trailing_zeros() as usize;
            single &= single - 1;
            let vc = self.ports[first + local].ready.trailing_zeros();
            let at = ((first + local) << shift) | vc as usize;
            let Queue { flits, left, out, .. } = self.queues[at];
            if (twice >> (out >> shift)) & 1 != 0 {
                rest |= 1 << local;
                continue;
            }
            let out = first + usize::from(out >> shift);
            let width = self.ports[first + local].width_in.min(self.ports[out].width_out);
            let n = flits.min(left.into()).min(width).min(router.rounds);
            if n > 0 {
                self.ports[out].last_in = local as u16;
                self.ports[first + local].last_vc = vc as u8;
                self.advance(at, n, router);
                self.depart((at - (first << shift)) as u16, n, router, now, sink);
            }
        }
        rest
    }

    /// [`Part::switch_in_rounds`] in turns, for up to 64 ports: sets of ports are words, and whose turn
    /// it is a rotation.
    fn switch_in_turn(&mut self, router: Router, ready: u64) {
        let (first, n) = (router.first as usize, usize::from(router.ports));
        let shift = self.shift;
        let ports = &mut self.ports[first..first + n];
        let (budget_in, budget_out) = (&mut self.budget_in[..n], &mut self.budget_out[..n]);
        let (chosen, requests) = (&mut self.chosen[..n], &mut self.requests[..n]);
        let queues = &mut self.queues[first << shift..(first + n) << shift];
        let moved = &mut self.moved[..n << shift];
        for (at, port) in ports.iter().enumerate() {
            budget_in[at] = port.width_in;
            budget_out[at] = port.width_out;
        }
        // Inputs that may still have something to name: budgets only shrink within a cycle.
        let mut live = ready;
        for _ in 0..router.rounds {
            let (mut left, mut wanted) = (live, 0u64);
            while left != 0 {
                let local = left.trailing_zeros() as usize;
                left &= left - 1;
                let port = &ports[local];
                let start = u32::from(port.last_vc) + 1;
                let mut vcs = port.ready.rotate_right(start);
                if budget_in[local] == 0 {
                    vcs = 0;
                }
                loop {
                    if vcs == 0 {
                        live &= !(1 << local);
                        break;
                    }
                    let vc = (start + vcs.trailing_zeros()) & 15;
                    let out = usize::from(queues[(local << shift) | vc as usize].out >> shift);
                    if budget_out[out] > 0 {
                        chosen[local] = vc as u8;
                        requests[out] |= 1 << local;
                        wanted |= 1 << out;
                        break;
                    }
                    vcs &= vcs - 1;
                }
            }
            if wanted == 0 {
                return;
            }
            while wanted != 0 {
                let out = wanted.trailing_zeros() as usize;
                wanted &= wanted - 1;
                let bits = std::mem::take(&mut requests[out]);
                let start = u32::from(ports[out].last_in) + 1;
                let winner = ((start + bits.rotate_right(start).trailing_zeros()) & 63) as usize;
                ports[out].last_in = winner as u16;
                budget_in[winner] -= 1;
                budget_out[out] -= 1;
                let vc = chosen[winner];
                let port = &mut ports[winner];
                port.last_vc = vc;
                let at = (winner << shift) | usize::from(vc);
                let queue = &mut queues[at];
                if moved[at] == 0 {
                    self.touched.push(at as u16);
                }
                moved[at] += 1;
                queue.flits -= 1;
                queue.left -= 1;
                if queue.flits == 0 || queue.left == 0 {
                    port.ready &= !(1 << vc);
                    if port.ready == 0 {
                        self.masks[router.masks as usize + 1] &= !(1 << winner);
                        live &= !(1 << winner);
                    }
                }
            }
        }
    }

    fn switch_in_rounds(&mut self, router: Router) {
        let (words, first) = (usize::from(router.words), router.first as usize);
        for local in 0..usize::from(router.ports) {
            self.budget_in[local] = self.ports[first + local].width_in;
            self.budget_out[local] = self.ports[first + local].width_out;
        }
        for _ in 0..router.rounds {
            for word in 0..words {
                let mut ports = self.masks[router.masks as usize + words + word];
                while ports != 0 {
                    let local = word * 64 + ports.trailing_zeros() as usize;
                    ports &= ports - 1;
                    if self.budget_in[local] == 0 {
                        continue;
                    }
                    if let Some((vc, out)) = self.nominate(first + local) {
                        self.chosen[local] = vc;
                        let row = usize::from(out) * words;
                        if self.requests[row..row + words].iter().all(|&bits| bits == 0) {
                            self.wanted.push(out);
                        }
                        self.requests[row + word] |= 1 << (local % 64);
                    }
                }
            }
            if self.wanted.is_empty() {
                return;
            }
            while let Some(out) = self.wanted.pop() {
                let row = usize::from(out) * words;
                let winner = self.pick(first, out, row, words);
                self.requests[row..row + words].fill(0);
                self.budget_in[winner] -= 1;
                self.budget_out[usize::from(out)] -= 1;
                let vc = self.chosen[winner];
                self.ports[first + winner].last_vc = vc;
                self.ports[first + usize::from(out)].last_in = winner as u16;
                let number = (winner << self.shift) | usize::from(vc);
                if self.moved[number] == 0 {
                    self.touched.push(number as u16);
                }
                self.moved[number] += 1;
                self.advance((first << self.shift) + number, 1, router);
            }
        }
    }

    /// The VC that an input port names, and the output port that it goes to.
    fn nominate(&self, at: usize) -> Option<(u8, u16)> {
        let port = &self.ports[at];
        let mut vcs = port.ready;
        if vcs.is_power_of_two() {
            let vc = vcs.trailing_zeros() as u8;
            let out = self.queues[(at << self.shift) | usize::from(vc)].out >> self.shift;
            return (self.budget_out[usize::from(out)] > 0).then_some((vc, out));
        }
        let mut best: Option<(u8, u16, (u32, u32))> = None;
        while vcs != 0 {
            let vc = vcs.trailing_zeros() as u8;
            vcs &= vcs - 1;
            let queue = (at << self.shift) | usize::from(vc);
            let out = self.queues[queue].out >> self.shift;
            if self.budget_out[usize::from(out)] == 0 {
                continue;
            }
            let key = match self.oldest {
                true => self.age(queue),
                false => (turn(vc.into(), port.last_vc.into()).into(), 0),
            };
            if best.is_none_or(|(.., held)| key < held) {
                best = Some((vc, out, key));
            }
        }
        best.map(|(vc, out, _)| (vc, out))
    }

    fn age(&self, queue: usize) -> (u32, u32) {
        let packet = self.front(queue);
        (packet.created, packet.tag)
    }

    /// The input port, by number, that an output port takes of those that name it.
    fn pick(&self, first: usize, out: u16, row: usize, words: usize) -> usize {
        let last = self.ports[first + usize::from(out)].last_in;
        let mut best: Option<(usize, (u32, u32))> = None;
        for word in 0..words {
            let mut bits = self.requests[row + word];
            if words == 1 && bits & (bits - 1) == 0 {
                return bits.trailing_zeros() as usize;
            }
            while bits != 0 {
                let local = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let key = match self.oldest {
                    true => {
                        let vc = usize::from(self.chosen[local]);
                        self.age(((first + local) << self.shift) | vc)
                    }
                    false => (turn(local as u16, last).into(), 0),
                };
                if best.is_none_or(|(_, held)| key < held) {
                    best = Some((local, key));
                }
            }
        }
        best.map_or(0, |(local, _)| local)
    }

    /// `n` flits of the front packet leave the buffer; [`Part::depart`] sends them on.
    #[inline]
    fn advance(&mut self, at: usize, n: u16, router: Router) {
        let queue = &mut self.queues[at];
        queue.flits -= n;
        queue.left -= n as u8;
        if queue.flits == 0 || queue.left == 0 {
            let port = &mut self.ports[at >> self.shift];
            port.ready &= !(1 << (at & ((1 << self.shift) - 1)));
            if port.ready == 0 {
                let local = (at >> self.shift) as u32 - router.first;
                let word = router.masks + u32::from(router.words) + local / 64;
                self.masks[word as usize] &= !(1 << (local % 64));
            }
        }
    }

    /// Sends on what moved out of a queue, and gives its space back.
    #[inline]
    fn depart(&mut self, number: u16, n: u16, router: Router, now: u64, sink: &mut impl Sink) {
        let first = (router.first as usize) << self.shift;
        let at = first + usize::from(number);
        let queue = &mut self.queues[at];
        let head = queue.state == State::Granted;
        queue.state = State::Sending;
        let Queue { front, out, left, .. } = *queue;
        let out_port = out >> self.shift;
        if out_port < router.channels {
            let port = &mut self.ports[router.first as usize + usize::from(out_port)];
            port.carried += u64::from(n);
            self.flit_hops += u64::from(n);
            let vc = u32::from(out) & ((1 << self.shift) - 1);
            let packet = if head { front } else { NOBODY };
            let flits = Flits { queue: (port.down << self.shift) | vc, packet, n };
            if head {
                let packet = &mut self.pool[front as usize];
                packet.hops = packet.hops.saturating_add(1);
            }
            let delay = u64::from(port.flit_delay);
            let due = now + delay;
            if port.down_part == self.me {
                let block = (flits.queue >> (self.shift + BLOCK)) as usize;
                match delay <= NEAR {
                    true => self.near.push(due, block, flits),
                    false => self.far.push(due, block, flits),
                }
            } else {
                let packet = self.pool[front as usize];
                self.mail[usize::from(port.down_part)].flits.push((due, flits, packet));
                if left == 0 {
                    self.vacant.push(front);
                }
            }
            if left == 0 {
                self.outs[first + usize::from(out)] &= !BUSY;
            }
        } else {
            sink.ejected(&self.pool[front as usize], n, left == 0, now);
            if left == 0 {
                self.vacant.push(front);
            }
        }
        let port = &self.ports[at >> self.shift];
        let vc = (at & ((1 << self.shift) - 1)) as u32;
        let (up, up_part, delay) = (port.up, port.up_part, port.credit_delay);
        let injected = (at >> self.shift) as u32 - router.first >= u32::from(router.channels);
        if !injected && (!self.whole || left == 0) {
            let len = self.pool[front as usize].len;
            let n = match left == 0 {
                true if self.whole => len.into(),
                true => n + u16::from(self.least.saturating_sub(len)),
                false => n,
            };
            let credit = Credit { out: (up << self.shift) | vc, n };
            let due = now + u64::from(delay);
            match up_part == self.me {
                true => self.credits.push(due, self.block(credit.out), credit),
                false => self.mail[usize::from(up_part)].credits.push((due, credit)),
            }
        }
        if left > 0 {
            return;
        }
        let queue = &mut self.queues[at];
        queue.count -= 1;
        queue.state = State::Idle;
        if queue.count > 0 {
            let slot = usize::from(queue.head) & ((1 << self.ring_shift) - 1);
            queue.head = queue.head.wrapping_add(1);
            let next = self.ring[(at << self.ring_shift) + slot];
            self.step_up(at, next);
        } else if injected {
            let tag = self.pool[front as usize].tag;
            let terminal = &mut self.terminals[up as usize];
            terminal.free |= 1 << vc;
            if terminal.backlogged {
                self.again.push((up, tag));
            }
        }
    }
}

/// How long after the last winner it is a candidate's turn.
#[inline]
fn turn(candidate: u16, last: u16) -> u16 {
    candidate.wrapping_sub(last).wrapping_sub(1)
}
