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
}

/// What a source has.
pub(crate) enum Poll {
    /// A packet to inject.
    Packet(Packet),
    /// Nothing before that cycle.
    At(u64),
    /// Nothing, until the part is told to ask again.
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
    n: u16,
    head: bool,
    packet: Packet,
}

/// Buffer space on its way back to an output's VC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    out: u32,
    n: u16,
}

/// What one part sends another in one cycle, each with the cycle in which it is due.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    pub flits: Vec<(u64, Flits)>,
    pub credits: Vec<(u64, Credit)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// The packet at the front has not been routed.
    Fresh,
    /// It waits for `out`.
    Routed,
    /// It holds `out`.
    Granted,
}

/// A VC of an input port.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// The output VC that the front packet waits for or holds.
    out: u32,
    /// Flits in the buffer, the front packet's first.
    flits: u16,
    /// The port of `out`, or of ejection, by number in the router.
    out_port: u16,
    /// Flits of the front packet that have not left.
    left: u8,
    /// Flits that moved in this cycle.
    moved: u8,
    /// First packet in the ring, and how many.
    head: u16,
    count: u16,
    /// Packets for which there must be room ahead.
    room: u8,
    state: State,
}

/// A VC of an output port.
#[derive(Clone, Copy, Debug, Default)]
struct Out {
    /// Free space in the buffer ahead, less what a packet that holds this VC will take.
    credits: u16,
    /// The last winner, by its number in the router.
    last: u16,
    /// One more than the index of the best claim of this cycle.
    claim: u16,
    busy: bool,
}

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
    /// The VC that sent last.
    last_vc: u8,
    down_part: u8,
    up_part: u8,
    /// Cycles until a flit may be handled by the next router.
    flit_delay: u16,
    /// Cycles until the sender may use a space again.
    credit_delay: u16,
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

/// A claim of a packet on an output VC.
#[derive(Clone, Copy, Debug)]
struct Claim {
    out: u32,
    queue: u32,
    port: u16,
    number: u16,
    age: (u32, u32),
    flits: u16,
}

/// Cycles that sources may sleep without being asked.
const NAP: u64 = 4_095;

/// A range of routers.
#[derive(Debug)]
pub(crate) struct Part {
    shift: u32,
    ring_shift: u32,
    oldest: bool,
    first_router: u32,
    first_terminal: u32,
    me: u8,
    routers: Vec<Router>,
    ports: Vec<Port>,
    queues: Vec<Queue>,
    ring: Vec<Packet>,
    outs: Vec<Out>,
    masks: Vec<u64>,
    active: Vec<u64>,
    terminals: Vec<Terminal>,
    flits: Wheel<Flits>,
    credits: Wheel<Credit>,
    wakes: Wheel<u32>,
    /// Terminals that have a free slot again and packets to put there.
    again: Vec<u32>,
    /// What other parts get.
    pub mail: Vec<Mail>,
    /// Flits that crossed a channel.
    pub flit_hops: u64,
    /// The last cycle in which a flit moved.
    pub moved_at: u64,
    // Scratch of one router's cycle.
    claims: Vec<Claim>,
    choices: Vec<Choice>,
    granted: Vec<u32>,
    touched: Vec<u32>,
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
            first_router: range.start,
            first_terminal: mine.first().copied().unwrap_or(0),
            me,
            routers: Vec::new(),
            ports: Vec::new(),
            queues: Vec::new(),
            ring: Vec::new(),
            outs: Vec::new(),
            masks: Vec::new(),
            active: vec![0; range.len().div_ceil(64)],
            terminals: Vec::new(),
            flits: Wheel::new(span),
            credits: Wheel::new(span),
            wakes: Wheel::new(NAP),
            again: Vec::new(),
            mail: (0..parts).map(|_| Mail::default()).collect(),
            flit_hops: 0,
            moved_at: 0,
            claims: Vec::new(),
            choices: Vec::new(),
            granted: Vec::new(),
            touched: Vec::new(),
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
                    last_vc: 0,
                    down_part: out.map_or(me, |c| part_of[c.to.router as usize]),
                    up_part: into.map_or(me, |c| part_of[c.from.router as usize]),
                    flit_delay: 1 + out.map_or(0, |c| c.delay) + settings.pipeline,
                    credit_delay: match settings.credits {
                        Credits::Ideal => 1,
                        Credits::Link => 1 + into.map_or(0, |c| c.delay),
                    },
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
                    last_vc: 0,
                    down_part: me,
                    up_part: me,
                    flit_delay: 1,
                    credit_delay: 1,
                    router: router - part.first_router,
                    down: 0,
                    // Its number among the part's terminals.
                    up: part.terminals.len() as u32 - 1,
                    carried: 0,
                });
            }
            let ports = (part.ports.len() as u32 - begin) as u16;
            let words = ports.div_ceil(64);
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
        part.ring = vec![Packet::default(); queues << ring_shift];
        part.outs = vec![Out { credits: settings.buffer, ..Out::default() }; queues];
        part.budget_in = vec![0; widest.into()];
        part.budget_out = vec![0; widest.into()];
        part.chosen = vec![0; widest.into()];
        part.requests = vec![0; usize::from(widest) * usize::from(words_most)];
        for terminal in 0..part.terminals.len() as u32 {
            part.again.push(terminal);
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
    /// Takes what other parts sent.
    pub fn receive(&mut self, mail: &mut Mail) {
        for (due, flits) in mail.flits.drain(..) {
            self.flits.push(due, flits);
        }
        for (due, credit) in mail.credits.drain(..) {
            self.credits.push(due, credit);
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
        self.arrive(now);
        self.inject(now, source);
        for word in 0..self.active.len() {
            let mut bits = self.active[word];
            while bits != 0 {
                let router = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.work(router, now, guide, places, sink);
            }
        }
    }

    fn arrive(&mut self, now: u64) {
        let credits = self.credits.take(now);
        for credit in &credits {
            self.outs[credit.out as usize].credits += credit.n;
        }
        self.credits.put(now, credits);
        let flits = self.flits.take(now);
        for event in &flits {
            let at = event.queue as usize;
            if event.head {
                self.enqueue(at, event.packet);
            }
            let queue = &mut self.queues[at];
            let empty = queue.flits == 0;
            queue.flits += event.n;
            if empty && queue.state == State::Granted {
                self.set_ready(at);
            }
        }
        self.flits.put(now, flits);
    }

    #[inline]
    fn enqueue(&mut self, at: usize, packet: Packet) {
        let queue = &mut self.queues[at];
        let slot =
            (usize::from(queue.head) + usize::from(queue.count)) & ((1 << self.ring_shift) - 1);
        self.ring[(at << self.ring_shift) + slot] = packet;
        queue.count += 1;
        if queue.count == 1 {
            queue.left = packet.len;
            queue.state = State::Fresh;
            self.set_waiting(at);
        }
    }

    #[inline]
    fn front(&self, at: usize) -> &Packet {
        &self.ring[(at << self.ring_shift) + usize::from(self.queues[at].head)]
    }

    #[inline]
    fn set_waiting(&mut self, at: usize) {
        let port = &mut self.ports[at >> self.shift];
        port.waiting |= 1 << (at & ((1 << self.shift) - 1));
        let router = port.router as usize;
        let local = (at >> self.shift) as u32 - self.routers[router].first;
        self.masks[(self.routers[router].masks + local / 64) as usize] |= 1 << (local % 64);
        self.active[router / 64] |= 1 << (router % 64);
    }

    #[inline]
    fn set_ready(&mut self, at: usize) {
        let port = &mut self.ports[at >> self.shift];
        port.ready |= 1 << (at & ((1 << self.shift) - 1));
        let router = port.router as usize;
        let Router { first, masks, words, .. } = self.routers[router];
        let local = (at >> self.shift) as u32 - first;
        self.masks[(masks + u32::from(words) + local / 64) as usize] |= 1 << (local % 64);
        self.active[router / 64] |= 1 << (router % 64);
    }

    fn inject(&mut self, now: u64, source: &mut impl Source) {
        let mut due = self.wakes.take(now);
        due.retain(|&t| self.terminals[t as usize].wake == now);
        let mut again = std::mem::take(&mut self.again);
        for &terminal in again.iter().chain(&due) {
            self.fill(terminal, now, source);
        }
        again.clear();
        self.again = again;
        self.wakes.put(now, due);
    }

    fn fill(&mut self, terminal: u32, now: u64, source: &mut impl Source) {
        let at = terminal as usize;
        self.terminals[at].backlogged = false;
        self.terminals[at].wake = u64::MAX;
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
                    self.enqueue(queue, packet);
                    self.queues[queue].flits = u16::from(packet.len);
                }
                Poll::At(cycle) => {
                    let wake = cycle.clamp(now + 1, now + NAP);
                    self.terminals[at].wake = wake;
                    self.wakes.push(wake, terminal);
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
        self.switch(router);
        if !self.touched.is_empty() {
            self.moved_at = now;
        }
        for index in 0..self.touched.len() {
            self.depart(self.touched[index] as usize, router, now, sink);
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
            let out = &mut self.outs[claim.out as usize];
            if usize::from(out.claim) != index + 1 {
                continue;
            }
            out.claim = 0;
            out.busy = true;
            out.credits -= claim.flits;
            out.last = claim.number;
            let queue = &mut self.queues[claim.queue as usize];
            queue.out = claim.out;
            queue.out_port = claim.port;
            self.grant(claim.queue as usize, router);
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
        let queue = (((router.first + local) << self.shift) | vc) as usize;
        let Queue { out, out_port, room, state, left, .. } = self.queues[queue];
        if state == State::Routed {
            let ahead = &self.outs[out as usize];
            if ahead.busy || ahead.credits < u16::from(left) * u16::from(room) {
                return;
            }
        }
        let packet = *self.front(queue);
        let mut choice = (out, out_port, room);
        if state == State::Fresh {
            let to = places.router[packet.to as usize];
            let here = self.first_router + at as u32;
            if to == here {
                self.queues[queue].out_port = places.port[packet.to as usize];
                self.grant(queue, router);
                return;
            }
            let injected = local >= u32::from(router.channels);
            let came = (!injected).then_some((local as u16, vc as u8));
            self.choices.clear();
            guide.route(here, came, to, &packet, &mut self.choices);
            let index =
                |c: &Choice| ((router.first + u32::from(c.port)) << self.shift) | u32::from(c.vc);
            if guide.deterministic() {
                let only = self.choices[0];
                choice = (index(&only), only.port, only.room);
                let queue = &mut self.queues[queue];
                (queue.out, queue.out_port, queue.room) = choice;
                queue.state = State::Routed;
            } else {
                let mut best: Option<(u8, u16)> = None;
                for option in &self.choices {
                    let out = &self.outs[index(option) as usize];
                    let needed = u16::from(packet.len) * u16::from(option.room);
                    if out.busy || out.credits < needed {
                        continue;
                    }
                    let better = match best {
                        None => true,
                        Some((rank, credits)) => {
                            option.rank < rank || (option.rank == rank && out.credits > credits)
                        }
                    };
                    if better {
                        best = Some((option.rank, out.credits));
                        choice = (index(option), option.port, option.room);
                    }
                }
                if best.is_none() {
                    return;
                }
            }
        }
        let (target, port, room) = choice;
        let out = &mut self.outs[target as usize];
        if out.busy || out.credits < u16::from(packet.len) * u16::from(room) {
            return;
        }
        let number = ((local << self.shift) | vc) as u16;
        let claim = Claim {
            out: target,
            queue: queue as u32,
            port,
            number,
            age: (packet.created, packet.tag),
            flits: packet.len.into(),
        };
        let better = match out.claim {
            0 => true,
            held => {
                let rival = &self.claims[usize::from(held) - 1];
                match self.oldest {
                    true => claim.age < rival.age,
                    false => turn(number, out.last) < turn(rival.number, out.last),
                }
            }
        };
        if better {
            self.claims.push(claim);
            out.claim = self.claims.len() as u16;
        }
    }

    // ---- switching

    fn switch(&mut self, router: Router) {
        if router.words == 1 {
            let ready = self.masks[router.masks as usize + 1];
            if ready == 0 || self.switch_apart(router, ready) {
                return;
            }
        }
        self.switch_in_rounds(router);
    }

    /// Moves flits where no two inputs want one output and no input has two VCs to choose from:
    /// what rounds would do, at once. `false`, and nothing moved, where that is not so.
    fn switch_apart(&mut self, router: Router, ready: u64) -> bool {
        let (mut ports, mut wanted, mut n) = (ready, 0u64, 0);
        while ports != 0 {
            let local = ports.trailing_zeros();
            ports &= ports - 1;
            let vcs = self.ports[(router.first + local) as usize].ready;
            if !vcs.is_power_of_two() {
                return false;
            }
            let vc = vcs.trailing_zeros();
            let queue = (((router.first + local) << self.shift) | vc) as usize;
            let bit = 1u64 << self.queues[queue].out_port;
            if wanted & bit != 0 {
                return false;
            }
            wanted |= bit;
            self.chosen[n] = vc as u8;
            n += 1;
        }
        (ports, n) = (ready, 0);
        while ports != 0 {
            let local = ports.trailing_zeros();
            ports &= ports - 1;
            let at = (router.first + local) as usize;
            let vc = self.chosen[n];
            n += 1;
            let queue = (at << self.shift) | usize::from(vc);
            let Queue { flits, left, out_port, .. } = self.queues[queue];
            let out = (router.first + u32::from(out_port)) as usize;
            let width = self.ports[at].width_in.min(self.ports[out].width_out);
            let moved = flits.min(left.into()).min(width).min(router.rounds);
            if moved > 0 {
                self.ports[at].last_vc = vc;
                self.ports[out].last_in = local as u16;
                self.advance(queue, moved, router);
            }
        }
        true
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
                self.advance(((first + winner) << self.shift) | usize::from(vc), 1, router);
            }
        }
    }

    /// The VC that an input port names, and the output port that it goes to.
    fn nominate(&self, at: usize) -> Option<(u8, u16)> {
        let port = &self.ports[at];
        let mut vcs = port.ready;
        if vcs.is_power_of_two() {
            let vc = vcs.trailing_zeros() as u8;
            let out = self.queues[(at << self.shift) | usize::from(vc)].out_port;
            return (self.budget_out[usize::from(out)] > 0).then_some((vc, out));
        }
        let mut best: Option<(u8, u16, (u32, u32))> = None;
        while vcs != 0 {
            let vc = vcs.trailing_zeros() as u8;
            vcs &= vcs - 1;
            let queue = (at << self.shift) | usize::from(vc);
            let out = self.queues[queue].out_port;
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

    /// `n` flits of the front packet move; where they go is settled in [`Part::depart`].
    #[inline]
    fn advance(&mut self, at: usize, n: u16, router: Router) {
        let queue = &mut self.queues[at];
        if queue.moved == 0 {
            self.touched.push(at as u32);
        }
        queue.moved += n as u8;
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
    fn depart(&mut self, at: usize, router: Router, now: u64, sink: &mut impl Sink) {
        let mut packet = *self.front(at);
        let queue = &mut self.queues[at];
        let n = u16::from(queue.moved);
        queue.moved = 0;
        let (out, out_port, left) = (queue.out, queue.out_port, queue.left);
        if out_port < router.channels {
            let head = u16::from(left) + n == u16::from(packet.len);
            packet.hops = packet.hops.saturating_add(1);
            let port = &mut self.ports[(out >> self.shift) as usize];
            port.carried += u64::from(n);
            self.flit_hops += u64::from(n);
            let vc = out & ((1 << self.shift) - 1);
            let flits = Flits { queue: (port.down << self.shift) | vc, n, head, packet };
            let due = now + u64::from(port.flit_delay);
            match port.down_part == self.me {
                true => self.flits.push(due, flits),
                false => self.mail[usize::from(port.down_part)].flits.push((due, flits)),
            }
            if left == 0 {
                self.outs[out as usize].busy = false;
            }
        } else {
            sink.ejected(&packet, n, left == 0, now);
        }
        let port = self.ports[at >> self.shift];
        let vc = (at & ((1 << self.shift) - 1)) as u32;
        let injected = (at >> self.shift) as u32 - router.first >= u32::from(router.channels);
        if !injected {
            let credit = Credit { out: (port.up << self.shift) | vc, n };
            let due = now + u64::from(port.credit_delay);
            match port.up_part == self.me {
                true => self.credits.push(due, credit),
                false => self.mail[usize::from(port.up_part)].credits.push((due, credit)),
            }
        }
        if left > 0 {
            return;
        }
        let queue = &mut self.queues[at];
        queue.count -= 1;
        queue.head = (queue.head + 1) & ((1u16 << self.ring_shift) - 1);
        queue.state = State::Idle;
        if queue.count > 0 {
            queue.state = State::Fresh;
            let len = self.front(at).len;
            self.queues[at].left = len;
            self.set_waiting(at);
        } else if injected {
            let terminal = &mut self.terminals[port.up as usize];
            terminal.free |= 1 << vc;
            if terminal.backlogged {
                terminal.backlogged = false;
                self.again.push(port.up);
            }
        }
    }
}

/// How long after the last winner it is a candidate's turn.
#[inline]
fn turn(candidate: u16, last: u16) -> u16 {
    candidate.wrapping_sub(last).wrapping_sub(1)
}
