//! A scenario: its endpoints, what is between them, and its clock.

use super::chance::Chance;
use super::event::Event;
use super::group::Group;
use super::invariant::{BOUNCE, Broken, CALM, NIC_WINDOW, PACE, PROGRESS, WINDOW, broken};
use super::node::Node;
use super::optics::Optics;
use super::shape::Shape;
use super::wire::Wire;
use lightloom_runtime::exchange::{Exchange, LaneId, Medium, Nic, Statistics};
use lightloom_runtime::planted::Planted;
use lightloom_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// A scenario as it stands.
pub struct World {
    pub now: Time,
    pub chance: Chance,
    pub shape: Shape,
    pub nodes: Vec<Node>,
    pub wires: Vec<Wire>,
    pub optics: Optics,
    pub groups: Vec<Group>,
    /// Endpoints that have something to do.
    pub dirty: BTreeSet<usize>,
    /// Endpoints that a fault may have taken from their groups.
    pub shaky: Vec<bool>,
    /// By pair: when a fault was between them last.
    pub touched: BTreeMap<(usize, usize), Time>,
    /// Pairs that are cut apart.
    pub apart: BTreeMap<(usize, usize), Time>,
    /// Until then an endpoint has no packet NICs.
    pub stranded: Vec<Time>,
    /// Until then an endpoint's lease is not renewed.
    pub lazy: Vec<Time>,
    pub kinds: Vec<(usize, u64)>,
    pub calm: bool,
    pub deadline: Time,
    pub planted: Option<Planted>,
    pub broken: Option<Broken>,
    pub happened: BTreeMap<&'static str, u64>,
    pub steps: u64,
    /// The last group is formed.
    last: bool,
    ended: bool,
    queue: BTreeMap<(Time, u64), Event>,
    queued: u64,
    trace: bool,
}

/// Runs one scenario: its world as it ends, and the first invariant that was broken.
pub fn run(seed: u64, planted: Option<Planted>, trace: bool) -> (World, Option<Broken>) {
    let mut world = World::new(seed, planted, trace);
    while !world.ended && world.broken.is_none() {
        world.step();
    }
    let broken = world.broken.take();
    world.count();
    (world, broken)
}

impl World {
    fn new(seed: u64, planted: Option<Planted>, trace: bool) -> Self {
        let mut chance = Chance::new(seed);
        let shape = Shape::draw(&mut chance);
        let now = Time::from_ms(1);
        let node = |at: usize| {
            let (settings, lanes) = (shape.settings[at].clone(), shape.lanes[at].clone());
            let mut exchange = Exchange::new(settings, lanes, now).expect("settings that fit");
            exchange.plant(planted);
            Node::new(exchange, 1, shape.ports[at])
        };
        let nodes: Vec<Node> = (0..shape.settings.len()).map(node).collect();
        let count = nodes.len();
        let mut world = World {
            now,
            chance,
            optics: Optics::new(&shape.ports),
            shape,
            nodes,
            wires: Vec::new(),
            groups: Vec::new(),
            dirty: (0..count).collect(),
            shaky: vec![false; count],
            touched: BTreeMap::new(),
            apart: BTreeMap::new(),
            stranded: vec![Time::ZERO; count],
            lazy: vec![Time::ZERO; count],
            kinds: Vec::new(),
            calm: false,
            deadline: Time::MAX,
            planted,
            broken: None,
            happened: BTreeMap::new(),
            steps: 0,
            last: false,
            ended: false,
            queue: BTreeMap::new(),
            queued: 0,
            trace,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        let text = format!("{:?}; lanes {:?}", self.shape.settings, self.shape.lanes);
        self.note(|| text);
        self.draw_faults();
        for _ in 0..self.chance.between(1, 4) {
            let when = self.now + self.chance.ms(0, 300);
            self.at(when, Event::Form);
        }
        for node in 0..self.nodes.len() {
            self.at(self.now, Event::Renew { node });
        }
        self.at(self.now, Event::PlanCircuits);
        let calm = self.now + self.chance.ms(50, 700);
        self.at(calm, Event::Calm);
    }

    pub fn at(&mut self, when: Time, event: Event) {
        self.queued += 1;
        self.queue.insert((when.max(self.now), self.queued), event);
    }

    /// When something that is sent now comes.
    pub fn late(&mut self) -> Time {
        self.now + self.chance.us(1, self.shape.delay_us)
    }

    pub fn note(&self, text: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>12.6} s  {:>6}  {}", self.now.as_secs_f64(), self.steps, text());
        }
    }

    pub fn tally(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    pub fn fail(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }

    /// What lanes have carried, of endpoints in their last life.
    fn count(&mut self) {
        let mut sum = Statistics::default();
        for (node, lanes) in self.nodes.iter().zip(&self.shape.lanes) {
            // After them come those that go by relays.
            let all = (0..(lanes.len() + self.nodes.len()) as u32).map(LaneId);
            let all =
                node.exchange.iter().flat_map(|it| all.clone().map(|lane| it.statistics(lane)));
            all.for_each(|lane| sum += lane);
        }
        for (what, times) in [
            ("chunks sent", sum.chunks_sent),
            ("chunks doubled", sum.doubled),
            ("chunks sent again", sum.resent),
            ("chunks on another lane", sum.detours),
            ("bytes by relays", sum.relayed),
        ] {
            if times > 0 {
                self.happened.insert(what, times);
            }
        }
    }

    /// Goes on to whatever comes next.
    fn step(&mut self) {
        self.steps += 1;
        let event = self.queue.keys().next().map_or(Time::MAX, |key| key.0);
        let nodes = self.nodes.iter().filter(|node| node.runs());
        let timers = nodes.filter_map(|node| node.exchange.as_ref()).map(Exchange::next_timeout);
        let timer = timers.min().unwrap_or(Time::MAX);
        self.now = self.now.max(event.min(timer));
        if event <= timer {
            if let Some((_, event)) = self.queue.pop_first() {
                self.happen(event);
            }
        } else {
            self.time_passes();
        }
        while let Some(at) = self.dirty.pop_first() {
            self.run(at);
        }
        self.check();
    }

    fn time_passes(&mut self) {
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            let Some(exchange) = node.exchange.as_mut().filter(|_| !node.frozen) else { continue };
            if exchange.next_timeout() <= self.now {
                exchange.timeout(self.now);
                self.dirty.insert(at);
                let next = exchange.next_timeout();
                if next <= self.now {
                    let what =
                        format!("endpoint {at} wants to be called at {next}, now {}", self.now);
                    self.fail(broken(CALM, what));
                }
            }
        }
    }

    /// Something happens; to an endpoint that is frozen, later.
    pub fn happen(&mut self, event: Event) {
        let node = match &event {
            Event::Accept { wire } => Some(self.wires[*wire].ends[1].node),
            Event::Closed { wire, end } => Some(self.wires[*wire].ends[*end].node),
            Event::Join { node, .. }
            | Event::Post { node, .. }
            | Event::Told { node, .. }
            | Event::Drain { node, .. } => Some(*node),
            _ => None,
        };
        if let Some(node) = node.filter(|&node| self.nodes[node].frozen) {
            return self.nodes[node].mail.push_back(event);
        }
        let lives = |node: usize, life: u64| {
            self.nodes[node].life == life && self.nodes[node].exchange.is_some()
        };
        match event {
            Event::Arrive { node } => drop(self.dirty.insert(node)),
            Event::Accept { wire } => self.accept(wire),
            Event::Closed { wire, end } => self.hears_close(wire, end),
            Event::Join { group, member, .. } => self.join(group, member),
            Event::Post { group, member, .. } => self.post(group, member),
            Event::Told { node, life, told } if lives(node, life) => self.hears_use(node, told),
            Event::Drain { node, life, token, ports } if lives(node, life) => {
                self.hears_drain(node, token, ports);
            }
            Event::Told { .. } | Event::Drain { .. } => {}
            Event::PlanCircuits => {
                self.plan_circuits();
                let next = self.now + self.chance.ms(20, 200);
                self.at(next, Event::PlanCircuits);
            }
            Event::PlanGoesOn => self.plan_goes_on(),
            Event::Renew { node } => {
                if self.now >= self.lazy[node] {
                    self.renew(node);
                }
                let next = self.now + Time::from_ps(self.shape.lease.ps() / 3);
                self.at(next, Event::Renew { node });
            }
            Event::Strike(kind) => self.strike(kind),
            Event::Thaw { node, life } => self.thaw(node, life),
            Event::Joined { pair } => self.joined(pair),
            Event::Landed { node } => self.landed(node),
            Event::Crash { node, life } => self.crash(node, life),
            Event::Start { node } => self.start(node),
            Event::Form => self.form(false),
            Event::Calm => self.calm_down(),
            Event::LastGroup => {
                self.form(true);
                self.last = true;
                self.deadline = self.deadline.max(self.now + Time::from_ms(2_000));
            }
        }
    }

    /// What must be true after every step.
    fn check(&mut self) {
        let mut found = None;
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let (settings, lanes) = (&self.shape.settings[at], &self.shape.lanes[at]);
            if let Some(lane) = node.outruns(self.now, settings.nic_rate, settings.chunk, lanes) {
                found = Some((PACE, format!("endpoint {at}, lane {lane}")));
            }
            let Some(exchange) = &node.exchange else { continue };
            for peer in (0..self.shape.settings.len()).filter(|&peer| peer != at) {
                let bounced = exchange.bounced(peer as u16);
                if bounced > settings.allowance.into() {
                    found = Some((BOUNCE, format!("endpoint {at} keeps {bounced} B for {peer}")));
                }
            }
            for lane in (0..self.shape.lanes[at].len() as u32).map(LaneId) {
                let flies = exchange.in_flight(lane);
                if flies > settings.window.into() {
                    found = Some((WINDOW, format!("endpoint {at}, {lane:?}: {flies} B in flight")));
                }
            }
            let lanes = self.shape.lanes[at].iter().filter(|it| it.medium == Medium::Packet);
            let mut nics: Vec<Nic> = lanes.map(|it| it.nic).collect();
            nics.sort_unstable();
            for lanes in nics.chunk_by(|a, b| a == b) {
                let flies = exchange.nic_in_flight(lanes[0]);
                // In the order in which lanes last began: whoever was the third has a third at most, or two chunks.
                let share = |lanes| u64::from(settings.nic_window) / lanes;
                let least = 2 * u64::from(settings.chunk);
                let most: u64 = (1..=lanes.len() as u64).map(|it| share(it).max(least)).sum();
                if flies > most {
                    let what = format!("endpoint {at}, NIC {}: {flies} B in flight", lanes[0]);
                    found = Some((NIC_WINDOW, what));
                }
            }
        }
        if let Some((invariant, what)) = found {
            self.fail(broken(invariant, what));
        }
        if self.last && self.left().is_none() {
            self.ended = true;
        }
        if self.now >= self.deadline
            && let Some(what) = self.left()
        {
            self.fail(broken(PROGRESS, what));
        }
    }
}
