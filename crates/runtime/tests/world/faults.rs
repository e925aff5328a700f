//! What goes wrong, and when it stops.

use super::event::Event;
use super::node::Node;
use super::scenario::World;
use lightloom_runtime::exchange::Exchange;
use lightloom_units::Time;

/// A kind of fault, and whether it may take an endpoint from its groups.
const KINDS: &[(Fault, &str)] = &[
    (Fault::Break, "connection broken"),
    (Fault::Silence, "connection dies in silence"),
    (Fault::Freeze, "endpoint frozen"),
    (Fault::Apart, "endpoints cut apart"),
    (Fault::Lapse, "lease lapses"),
    (Fault::Stranger, "stranger dials"),
    (Fault::FreezeLong, "endpoint frozen for long"),
    (Fault::ApartLong, "endpoints cut apart for long"),
    (Fault::Crash, "endpoint crashes"),
    (Fault::Die, "endpoint dies"),
    (Fault::Declare, "peer declared lost"),
    (Fault::Abort, "group given up"),
    (Fault::AgentGone, "agent gone"),
    (Fault::Stranded, "packet NICs gone"),
];

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Break,
    Silence,
    Freeze,
    Apart,
    Lapse,
    Stranger,
    FreezeLong,
    ApartLong,
    Crash,
    Die,
    Declare,
    Abort,
    AgentGone,
    Stranded,
}

impl World {
    /// Which kinds a scenario has, each with the mean time between two.
    pub fn draw_faults(&mut self) {
        for kind in 0..KINDS.len() {
            let severe = kind >= 6;
            if self.chance.hit(if severe { 150 } else { 500 }) {
                let mean = self.chance.between(30, if severe { 900 } else { 400 });
                self.kinds.push((kind, mean));
                let when = self.now + self.chance.ms(1, 2 * mean);
                self.at(when, Event::Strike(self.kinds.len() - 1));
            }
        }
    }

    pub fn strike(&mut self, kind: usize) {
        if self.calm {
            return;
        }
        let (fault, mean) = self.kinds[kind];
        let again = self.now + self.chance.ms(1, 2 * mean);
        self.at(again, Event::Strike(kind));
        let at = self.chance.below(self.nodes.len() as u64) as usize;
        let other =
            (at + 1 + self.chance.below(self.nodes.len() as u64 - 1) as usize) % self.nodes.len();
        let (fault, name) = KINDS[fault];
        self.note(|| format!("{name}: {at}, {other}"));
        self.tally(name);
        match fault {
            Fault::Break | Fault::Silence => self.break_wire(fault == Fault::Silence),
            Fault::Freeze => self.freeze(at, 1, 60),
            Fault::FreezeLong => {
                self.shake(at);
                self.freeze(at, 300, 2_000);
            }
            Fault::Apart => self.part(at, other, 5, 100),
            Fault::ApartLong => {
                self.shake(at);
                self.shake(other);
                self.part(at, other, 300, 1_500);
            }
            Fault::Lapse => self.lazy[at] = self.now + self.chance.ms(50, 600),
            Fault::Stranger if self.nodes[at].runs() => self.stranger(at),
            Fault::Crash => {
                let life = self.nodes[at].life;
                self.crash(at, life);
            }
            Fault::Die => self.die(at),
            Fault::Declare => self.declare(at, other),
            Fault::Abort => self.abort(at),
            Fault::AgentGone if self.nodes[at].runs() => {
                let now = self.now;
                self.nodes[at].exchange.iter_mut().for_each(|it| it.forsaken(now));
                self.dirty.insert(at);
            }
            Fault::Stranded => self.strand(at),
            Fault::Stranger | Fault::AgentGone => {}
        }
    }

    fn touch(&mut self, one: usize, other: usize) {
        self.touched.insert((one.min(other), one.max(other)), self.now);
    }

    /// A connection breaks at some byte; its ends hear of it later, or one of them never.
    fn break_wire(&mut self, silent: bool) {
        let alive = |wire: &usize| !self.wires[*wire].dead;
        let alive: Vec<usize> = (0..self.wires.len()).filter(alive).collect();
        if alive.is_empty() {
            return;
        }
        let wire = alive[self.chance.below(alive.len() as u64) as usize];
        self.kill(wire, silent);
    }

    fn kill(&mut self, wire: usize, silent: bool) {
        let it = &mut self.wires[wire];
        it.dead = true;
        it.pipes.iter_mut().for_each(|pipe| pipe.cut(&mut self.chance));
        let ends = [it.ends[0].node, it.ends[1].node];
        self.touch(ends[0], ends[1]);
        let deaf = if self.chance.hit(200) { self.chance.below(2) } else { 2 };
        for end in 0..2 {
            if !silent && deaf != end as u64 {
                let when = self.now + self.chance.ms(0, 40);
                self.at(when, Event::Closed { wire, end });
            }
        }
    }

    fn freeze(&mut self, at: usize, low: u64, high: u64) {
        if self.nodes[at].runs() {
            self.nodes[at].frozen = true;
            (0..self.nodes.len()).filter(|&it| it != at).for_each(|it| self.touch(at, it));
            let (when, life) = (self.now + self.chance.ms(low, high), self.nodes[at].life);
            self.at(when, Event::Thaw { node: at, life });
        }
    }

    pub fn thaw(&mut self, at: usize, life: u64) {
        if self.nodes[at].life != life || !std::mem::take(&mut self.nodes[at].frozen) {
            return;
        }
        (0..self.nodes.len()).filter(|&it| it != at).for_each(|it| self.touch(at, it));
        self.note(|| format!("endpoint {at} goes on"));
        for event in std::mem::take(&mut self.nodes[at].mail) {
            self.happen(event);
        }
        self.dirty.insert(at);
    }

    /// Nothing passes between two endpoints for some time.
    fn part(&mut self, one: usize, other: usize, low: u64, high: u64) {
        let pair = (one.min(other), one.max(other));
        let until = self.now + self.chance.ms(low, high);
        self.apart.insert(pair, until);
        self.at(until, Event::Joined { pair });
        for wire in 0..self.wires.len() {
            let ends = self.wires[wire].ends.map(|end| end.node);
            if (ends[0].min(ends[1]), ends[0].max(ends[1])) == pair && !self.wires[wire].dead {
                let silent = self.chance.hit(500);
                self.kill(wire, silent);
            }
        }
        self.touch(one, other);
    }

    /// An endpoint's packet NICs are gone for some time, no longer than a peer may be silent.
    fn strand(&mut self, at: usize) {
        let lost = self.shape.settings[at].lost;
        let until = self.now + self.chance.ms(50, lost.ps() / 1_000_000_000);
        self.stranded[at] = until;
        self.at(until, Event::Landed { node: at });
        for wire in 0..self.wires.len() {
            let it = &self.wires[wire];
            let its = it.ports.is_none() && it.ends.iter().any(|end| end.node == at);
            if its && !it.dead {
                let silent = self.chance.hit(700);
                self.kill(wire, silent);
            }
        }
        (0..self.nodes.len()).filter(|&it| it != at).for_each(|it| self.touch(at, it));
    }

    /// They are back.
    pub fn landed(&mut self, at: usize) {
        if self.stranded[at] <= self.now {
            (0..self.nodes.len()).filter(|&it| it != at).for_each(|it| self.touch(at, it));
        }
    }

    /// The endpoints are together again.
    pub fn joined(&mut self, pair: (usize, usize)) {
        if self.apart.get(&pair).is_some_and(|&until| until <= self.now || self.calm) {
            self.apart.remove(&pair);
            self.touch(pair.0, pair.1);
        }
    }

    /// An endpoint's process dies and starts again later, in another life.
    pub fn crash(&mut self, at: usize, life: u64) {
        if self.nodes[at].life == life && self.nodes[at].exchange.is_some() {
            self.die(at);
            let when = self.now + self.chance.ms(0, 150);
            self.at(when, Event::Start { node: at });
        }
    }

    /// An endpoint's process dies; the job starts another one if it notices.
    fn die(&mut self, at: usize) {
        self.note(|| format!("endpoint {at} dies"));
        self.shake(at);
        self.optics.gone(at);
        let node = &mut self.nodes[at];
        node.exchange = None;
        let sockets = std::mem::take(&mut node.sockets);
        node.frozen = false;
        node.mail.clear();
        for (wire, end) in sockets.into_values() {
            let it = &mut self.wires[wire];
            it.ends[end].connection = None;
            it.dead = true;
            it.pipes[end].cut(&mut self.chance);
            if self.chance.hit(800) {
                let when = self.now + self.chance.ms(0, 40);
                self.at(when, Event::Closed { wire, end: 1 - end });
            }
        }
    }

    pub fn start(&mut self, at: usize) {
        if self.nodes[at].exchange.is_some() {
            return;
        }
        let life = self.nodes[at].life + 1;
        let settings = &mut self.shape.settings[at];
        settings.life = life;
        let lanes = self.shape.lanes[at].clone();
        let exchange = Exchange::new(settings.clone(), lanes, self.now).expect("as before");
        let mut node = Node::new(exchange, life, self.shape.ports[at]);
        node.exchange.iter_mut().for_each(|it| it.plant(self.planted));
        self.nodes[at] = node;
        self.note(|| format!("endpoint {at} starts in life {life}"));
        self.renew(at);
        self.dirty.insert(at);
    }

    /// A caller says that a peer is lost; the job starts that peer again.
    fn declare(&mut self, at: usize, peer: usize) {
        if self.nodes[at].runs() {
            self.shake(peer);
            self.shake(at);
            let now = self.now;
            self.nodes[at].exchange.iter_mut().for_each(|it| it.lost(now, peer as u16));
            self.dirty.insert(at);
        }
    }

    /// A caller gives a group up.
    fn abort(&mut self, at: usize) {
        let of = |id: &usize| {
            let members = &self.groups[*id].members;
            members.iter().any(|it| usize::from(it.endpoint) == at && it.joined && !it.out)
        };
        let Some(id) = (0..self.groups.len()).rev().find(of) else { return };
        if self.nodes[at].runs() {
            self.groups[id].excused = true;
            let now = self.now;
            self.nodes[at].exchange.iter_mut().for_each(|it| it.abort(now, id as u32));
            self.dirty.insert(at);
        }
    }

    /// Faults stop: all go on, and a last group must succeed.
    pub fn calm_down(&mut self) {
        self.note(|| "faults stop".into());
        self.calm = true;
        let pairs: Vec<_> = self.apart.keys().copied().collect();
        pairs.into_iter().for_each(|pair| self.joined(pair));
        for at in 0..self.nodes.len() {
            let life = self.nodes[at].life;
            self.thaw(at, life);
            (self.lazy[at], self.stranded[at]) = (Time::ZERO, self.now);
            self.landed(at);
        }
        let lost = self.shape.settings[0].lost;
        let last = self.now + Time::from_ps(lost.ps() * 3 / 2) + Time::from_ms(300);
        self.at(last, Event::LastGroup);
        self.deadline = last + Time::from_ps(lost.ps() * 3) + Time::from_ms(3_000);
    }
}
