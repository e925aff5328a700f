//! Whether packets can wait for each other in a circle: the channel dependency graph of a routing
//! function on a network, in full.
//!
//! Modelled: every choice of every rank, from every terminal's router to every other, for every
//! number a packet may draw. A virtual channel depends on another if a packet that came by the first
//! may leave by the second. With virtual cut-through no packet waits in two routers at once, so a
//! graph without cycles is free of deadlock (Dally and Seitz 1987).
//!
//! **Bubbles.** A cycle is let pass if it is one ring that every packet enters only where there is
//! room for two, and goes round with room for one: some packet of it can then always move (Puente et
//! al. 2001), provided all packets are equally long and a buffer holds two.
//!
//! Ignored: how likely a deadlock is; priorities. Checked: rings and tori with one virtual channel
//! are caught; tests of every routing function of this crate.

use lightloom_fabric::routers::{Choice, Network, Routing};
use serde::Serialize;
use std::fmt;

/// What was found of a routing function that is free of deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Virtual channels that packets use, all channels together.
    pub channels: u32,
    /// Pairs of them of which one may wait for the other.
    pub dependencies: u64,
    /// Channels on the longest path that a packet may take.
    pub hops: u32,
    /// Rings that are free of deadlock by bubbles alone.
    pub bubbles: u32,
}

/// A virtual channel that a packet holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The router that sent it.
    pub from: u32,
    /// The router that holds it.
    pub to: u32,
    /// The port by which it came in.
    pub port: u16,
    /// The virtual channel.
    pub vc: u8,
}

/// What is wrong with a routing function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    /// Packets may wait for each other, each for the next and the last for the first.
    #[error("packets may wait for each other in a circle: {}", Circle(.0))]
    Deadlock(Vec<Held>),
    /// A packet may go round for ever.
    #[error("a packet for router {to} may go round for ever: {}", Circle(.circle))]
    Livelock {
        /// Where it wants to go.
        to: u32,
        /// Where it goes round.
        circle: Vec<Held>,
    },
    /// A packet has no next hop.
    #[error("router {at} has no next hop to {to} for a packet that {came}: {reason}")]
    Lost {
        /// Where it is.
        at: u32,
        /// Where it wants to go.
        to: u32,
        /// How it came.
        came: String,
        /// The choice that it was given.
        reason: String,
    },
}

struct Circle<'a>(&'a [Held]);

impl fmt::Display for Circle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for held in self.0 {
            write!(f, "{} -> {} (port {}, vc {}), ", held.from, held.to, held.port, held.vc)?;
        }
        f.write_str("and again")
    }
}

/// Follows every packet everywhere; takes time and memory for some hundred routers, or some thousand
/// of few channels.
///
/// ```
/// use lightloom_fabric::routers::Mesh;
/// use lightloom_railx::check;
/// let mesh = Mesh::new(4, 3, 1).unwrap();
/// let checked = check(&mesh.network(1, 1), &mesh).unwrap();
/// assert_eq!((checked.channels, checked.hops), (2 * (3 * 3 + 4 * 2), 5));
/// ```
///
/// # Errors
/// The first thing that is wrong, see [`Unsafe`].
pub fn check(network: &Network, routing: &dyn Routing) -> Result<Checked, Unsafe> {
    let vcs = u32::from(routing.vcs());
    let states = network.channels().len() * vcs as usize;
    let mut search = Search {
        network,
        routing,
        vcs,
        next: vec![Vec::new(); states],
        injected: vec![u8::MAX; states],
        used: vec![false; states],
        seen: vec![0; states],
        depth: vec![0; states],
        round: 0,
        choices: Vec::new(),
        longest: 0,
    };
    let mut routers = network.terminals().to_vec();
    routers.sort_unstable();
    routers.dedup();
    for &to in &routers {
        for draw in 0..routing.draws() {
            search.round += 1;
            for &from in routers.iter().filter(|&&from| from != to) {
                search.follow(from, to, draw)?;
            }
        }
    }
    let bubbles = search.cycles()?;
    Ok(Checked {
        channels: search.used.iter().filter(|&&used| used).count() as u32,
        dependencies: search.next.iter().map(|next| next.len() as u64).sum(),
        hops: search.longest,
        bubbles,
    })
}

/// A dependency: the virtual channel ahead, and the least and the most room that it is taken with.
#[derive(Clone, Copy)]
struct Arc {
    to: u32,
    least: u8,
    most: u8,
}

/// Virtual channels are numbered `channel * vcs + vc`.
struct Search<'a> {
    network: &'a Network,
    routing: &'a dyn Routing,
    vcs: u32,
    next: Vec<Vec<Arc>>,
    /// The least room with which a packet is injected into it.
    injected: Vec<u8>,
    used: Vec<bool>,
    /// By virtual channel: `2 * round` while a packet of this round is followed through it, one more
    /// when that is done.
    seen: Vec<u32>,
    /// Channels from it to the destination of this round, at most.
    depth: Vec<u32>,
    round: u32,
    choices: Vec<Choice>,
    longest: u32,
}

/// A virtual channel on the path that is followed, and those ahead that are still to be followed.
struct Visit {
    state: u32,
    ahead: Vec<u32>,
}

impl Search<'_> {
    /// Follows the packets of one terminal's router, depth first.
    fn follow(&mut self, from: u32, to: u32, draw: u32) -> Result<(), Unsafe> {
        let starts = self.next_states(from, None, to, draw)?;
        for start in starts {
            let mut path = Vec::new();
            self.enter(start, to, draw, &mut path)?;
            while let Some(visit) = path.last_mut() {
                if let Some(state) = visit.ahead.pop() {
                    self.enter(state, to, draw, &mut path)?;
                    continue;
                }
                let state = path.pop().expect("it was looked at").state;
                self.seen[state as usize] = 2 * self.round + 1;
                self.longest = self.longest.max(self.depth[state as usize]);
                if let Some(before) = path.last() {
                    self.deepen(before.state, state);
                }
            }
        }
        Ok(())
    }

    fn deepen(&mut self, before: u32, state: u32) {
        let through = self.depth[state as usize] + 1;
        let depth = &mut self.depth[before as usize];
        *depth = through.max(*depth);
    }

    fn enter(
        &mut self,
        state: u32,
        to: u32,
        draw: u32,
        path: &mut Vec<Visit>,
    ) -> Result<(), Unsafe> {
        if self.seen[state as usize] == 2 * self.round {
            let first = path.iter().position(|visit| visit.state == state).unwrap_or(0);
            let circle = path[first..].iter().map(|visit| self.held(visit.state)).collect();
            return Err(Unsafe::Livelock { to, circle });
        }
        if self.seen[state as usize] > 2 * self.round {
            if let Some(before) = path.last() {
                self.deepen(before.state, state);
            }
            return Ok(());
        }
        self.seen[state as usize] = 2 * self.round;
        self.depth[state as usize] = 1;
        self.used[state as usize] = true;
        let there = self.network.channels()[(state / self.vcs) as usize].to.router;
        let ahead =
            if there == to { Vec::new() } else { self.next_states(there, Some(state), to, draw)? };
        path.push(Visit { state, ahead });
        Ok(())
    }

    /// The virtual channels ahead; what depends on them is noted.
    fn next_states(
        &mut self,
        at: u32,
        held: Option<u32>,
        to: u32,
        draw: u32,
    ) -> Result<Vec<u32>, Unsafe> {
        let came = held.map(|state| {
            (self.network.channels()[(state / self.vcs) as usize].to.port, (state % self.vcs) as u8)
        });
        let lost = |reason: String| {
            let came = match came {
                None => "was injected there".into(),
                Some((port, vc)) => format!("came by port {port}, vc {vc}"),
            };
            Unsafe::Lost { at, to, came, reason }
        };
        self.choices.clear();
        self.routing.route(at, came, to, draw, &mut self.choices);
        if self.choices.is_empty() {
            return Err(lost("no choice is given".into()));
        }
        let mut ahead = Vec::with_capacity(self.choices.len());
        for choice in &self.choices {
            let channel = self.network.out_index(at, choice.port).ok_or_else(|| {
                lost(format!("port {}, which has no channel, is given", choice.port))
            })?;
            if u32::from(choice.vc) >= self.vcs {
                let (vc, vcs) = (choice.vc, self.vcs);
                return Err(lost(format!("virtual channel {vc} of {vcs} is given")));
            }
            let next = channel * self.vcs + u32::from(choice.vc);
            match held {
                None => {
                    let least = &mut self.injected[next as usize];
                    *least = choice.room.min(*least);
                }
                Some(state) => note(&mut self.next[state as usize], next, choice.room),
            }
            ahead.push(next);
        }
        Ok(ahead)
    }

    fn held(&self, state: u32) -> Held {
        let channel = self.network.channels()[(state / self.vcs) as usize];
        let (from, to, port) = (channel.from.router, channel.to.router, channel.to.port);
        Held { from, to, port, vc: (state % self.vcs) as u8 }
    }

    /// How many cycles there are, all of which bubbles keep moving.
    fn cycles(&self) -> Result<u32, Unsafe> {
        let groups = components(&self.next);
        let mut size = vec![0_u32; self.next.len()];
        groups.iter().for_each(|&group| size[group as usize] += 1);
        let inside = |state: usize, arc: &Arc| groups[state] == groups[arc.to as usize];
        let mut cyclic = vec![false; self.next.len()];
        for (state, arcs) in self.next.iter().enumerate() {
            if arcs.iter().any(|arc| inside(state, arc)) {
                cyclic[groups[state] as usize] = true;
            }
        }
        for (state, arcs) in self.next.iter().enumerate() {
            let group = groups[state] as usize;
            let within = arcs.iter().filter(|arc| inside(state, arc));
            let ring = within.clone().count() == 1 && within.clone().all(|arc| arc.most == 1);
            if cyclic[group] && (!ring || self.injected[state] < 2) {
                return Err(self.deadlock(state as u32, &groups));
            }
            let entered = arcs.iter().find(|arc| {
                !inside(state, arc) && cyclic[groups[arc.to as usize] as usize] && arc.least < 2
            });
            if let Some(arc) = entered {
                return Err(self.deadlock(arc.to, &groups));
            }
        }
        Ok(cyclic.iter().filter(|&&cyclic| cyclic).count() as u32)
    }

    /// A shortest cycle through a virtual channel, inside its component.
    fn deadlock(&self, start: u32, groups: &[u32]) -> Unsafe {
        let mut before = vec![u32::MAX; self.next.len()];
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(state) = queue.pop_front() {
            for arc in &self.next[state as usize] {
                if groups[arc.to as usize] != groups[start as usize]
                    || before[arc.to as usize] != u32::MAX
                {
                    continue;
                }
                before[arc.to as usize] = state;
                queue.push_back(arc.to);
            }
        }
        let mut circle = vec![self.held(start)];
        let mut at = before[start as usize];
        while at != start && at != u32::MAX {
            circle.push(self.held(at));
            at = before[at as usize];
        }
        circle[1..].reverse();
        Unsafe::Deadlock(circle)
    }
}

fn note(arcs: &mut Vec<Arc>, to: u32, room: u8) {
    match arcs.iter_mut().find(|arc| arc.to == to) {
        Some(arc) => (arc.least, arc.most) = (arc.least.min(room), arc.most.max(room)),
        None => arcs.push(Arc { to, least: room, most: room }),
    }
}

/// By vertex, a number that it shares with those it is on a cycle with (Tarjan 1972).
fn components(next: &[Vec<Arc>]) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    let mut order = vec![NONE; next.len()];
    let mut low = vec![NONE; next.len()];
    let mut group = vec![NONE; next.len()];
    let (mut count, mut groups) = (0, 0);
    let (mut open, mut path) = (Vec::new(), Vec::new());
    for root in 0..next.len() {
        if order[root] != NONE {
            continue;
        }
        path.push((root, 0));
        while let Some(&mut (at, ref mut taken)) = path.last_mut() {
            if *taken == 0 {
                (order[at], low[at]) = (count, count);
                count += 1;
                open.push(at);
            }
            if let Some(arc) = next[at].get(*taken) {
                *taken += 1;
                let to = arc.to as usize;
                if order[to] == NONE {
                    path.push((to, 0));
                } else if group[to] == NONE {
                    low[at] = low[at].min(order[to]);
                }
                continue;
            }
            path.pop();
            if low[at] == order[at] {
                while let Some(member) = open.pop() {
                    group[member] = groups;
                    if member == at {
                        break;
                    }
                }
                groups += 1;
            }
            if let Some(&(before, _)) = path.last() {
                low[before] = low[before].min(low[at]);
            }
        }
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::routers::{ChannelKind, Mesh};

    /// Round a ring, one way; with a dateline before router 0, or room for two on entering.
    struct Round {
        routers: u32,
        vcs: u8,
        room: u8,
    }

    impl Round {
        fn network(&self) -> Network {
            let mut network = Network::new("ring", self.routers);
            for at in 0..self.routers {
                network.simplex(at, (at + 1) % self.routers, 1, 1, ChannelKind::Long);
                network.terminal(at);
            }
            network
        }
    }

    impl Routing for Round {
        fn name(&self) -> &'static str {
            "round"
        }
        fn vcs(&self) -> u8 {
            self.vcs
        }
        fn route(
            &self,
            at: u32,
            came: Option<(u16, u8)>,
            _: u32,
            _: u32,
            choices: &mut Vec<Choice>,
        ) {
            let crossed = at + 1 == self.routers || came.is_some_and(|(_, vc)| vc > 0);
            let vc = u8::from(crossed && self.vcs > 1);
            // Router 0's first port leads out; all others' first leads in.
            let port = u16::from(at != 0);
            let room = if came.is_none() { self.room } else { 1 };
            choices.push(Choice { port, vc, rank: 0, room });
        }
    }

    #[test]
    fn a_ring_needs_a_dateline_or_bubbles() {
        let of = |vcs, room| {
            let ring = Round { routers: 5, vcs, room };
            check(&ring.network(), &ring)
        };
        let Err(Unsafe::Deadlock(circle)) = of(1, 1) else { panic!("one channel deadlocks") };
        assert_eq!(circle.len(), 5);
        assert!(circle.iter().zip(circle.iter().cycle().skip(1)).all(|(a, b)| a.to == b.from));
        assert_eq!(of(2, 1).unwrap().bubbles, 0);
        let bubble = of(1, 2).unwrap();
        assert_eq!((bubble.bubbles, bubble.hops, bubble.channels), (1, 4, 5));
        let message = of(1, 1).unwrap_err().to_string();
        assert!(message.starts_with("packets may wait for each other in a circle: "), "{message}");
        assert!(message.ends_with("and again"), "{message}");
    }

    /// A mesh's routing, but for what one router does.
    struct Odd(Mesh, fn(u32) -> Option<Choice>);

    impl Routing for Odd {
        fn name(&self) -> &'static str {
            "odd"
        }
        fn vcs(&self) -> u8 {
            self.0.vcs()
        }
        fn route(
            &self,
            at: u32,
            came: Option<(u16, u8)>,
            to: u32,
            draw: u32,
            choices: &mut Vec<Choice>,
        ) {
            match self.1(at) {
                Some(choice) => choices.push(choice),
                None => self.0.route(at, came, to, draw, choices),
            }
        }
    }

    #[test]
    fn packets_that_do_not_arrive_are_caught() {
        let mesh = Mesh::new(3, 3, 1).unwrap();
        let network = mesh.network(1, 1);
        let of = |odd| check(&network, &Odd(mesh, odd)).unwrap_err().to_string();
        // Router 1 sends everything back west, and 0 sends it east again.
        let back = of(|at| (at == 1).then(|| Choice::new(1, 0)));
        assert!(back.contains("may go round for ever"), "{back}");
        let edge = of(|at| (at == 2).then(|| Choice::new(0, 0)));
        assert!(edge.contains("port 0, which has no channel, is given"), "{edge}");
        let high = of(|at| (at == 0).then(|| Choice::new(0, 1)));
        assert!(high.contains("virtual channel 1 of 1"), "{high}");
    }

    /// Y first at even routers, X first at odd ones: all four turns, which is one too many.
    struct AnyTurn;

    impl Routing for AnyTurn {
        fn name(&self) -> &'static str {
            "any turn"
        }
        fn vcs(&self) -> u8 {
            1
        }
        fn route(&self, at: u32, _: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
            let ((x, y), (aim_x, aim_y)) = ((at % 3, at / 3), (to % 3, to / 3));
            let options = [(aim_x > x, 0), (aim_x < x, 1), (aim_y > y, 2), (aim_y < y, 3)];
            choices.extend(options.iter().filter(|o| o.0).map(|&(_, port)| Choice::new(port, 0)));
        }
    }

    #[test]
    fn a_mesh_without_order_deadlocks() {
        let mesh = Mesh::new(3, 3, 1).unwrap();
        let network = mesh.network(1, 1);
        assert!(matches!(check(&network, &AnyTurn), Err(Unsafe::Deadlock(_))));
        assert_eq!(check(&network, &mesh).unwrap().hops, 4);
    }
}
