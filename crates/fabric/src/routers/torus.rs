//! A torus of routers in any number of dimensions, routed dimension by dimension.
//!
//! Modelled: a router a chip, a channel each way to the next router of every dimension; the last of
//! a row is joined to its first. Packets go round in the shorter direction, in either if both are
//! as long. *Datelines* keep a ring free of cycles (Dally and Towles, 2004, chapter 14): a packet that
//! has yet to cross from the last router to the first is in one class of virtual channels, one that
//! has not in the other.
//! *Twisted* (Camara et al., 2010; RailX, Section 2.2.2; TPU v4): where some sides have n routers and the
//! others 2n, the end of a row along a short side is joined to the begin of that n further along each long
//! one. A packet crosses no end twice, so that the same two classes do.
//! Ignored: several links side by side are one that is as wide as they are together.
//! Checked: every path is as short as can be, of twisted ones by a search; no cycle among the channels of
//! small tori, and one where the classes are merged.

use super::kind::{DELAY, LANES, NetworkKeys, NetworkKind, Refused, Routed, Routings, WIDTH, each};
use super::network::{ChannelKind, End, Network};
use super::routing::{Choice, Routing};
use crate::error::FabricError;
use lightloom_units::kind::{Form, Key, Kind};
use serde::Deserialize;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Routers of a network at most.
pub(super) const MOST_ROUTERS: u64 = 1 << 20;

/// A torus and its routing. Ports: 2 d towards higher coordinates of dimension d, 2 d + 1 lower.
///
/// ```
/// use lightloom_fabric::routers::{Choice, Routing, Torus};
/// let torus = Torus::new(&[4, 4, 4], 1).unwrap();
/// let network = torus.network(1, 10, 1);
/// assert_eq!((network.routers(), network.channels().len()), (64, 6 * 64));
/// let mut choices = Vec::new();
/// torus.route(0, None, 3 + 4, 0, &mut choices);
/// assert_eq!(choices, [Choice::new(1, 0)]); // from 0 down to 3: across the dateline
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    sides: Vec<u32>,
    twisted: bool,
    each: u8,
}

/// What a packet has to go along a dimension: how many hops, and whether up, whether down is as short.
type Way = (u32, [bool; 2]);

impl Torus {
    /// A torus with `sides` routers along each dimension, numbered along the first, then the second;
    /// with `each` virtual channels in either class.
    ///
    /// # Errors
    /// If there is no dimension, no router, no virtual channel, or too many of them.
    pub fn new(sides: &[u32], each: u8) -> Result<Self, FabricError> {
        if !(1..=8).contains(&sides.len()) {
            return Err(FabricError::new("sides", format!("{sides:?}"), "must be 1 to 8 numbers"));
        }
        let mut routers = 1;
        for &side in sides {
            routers *= u64::from(side);
            if routers == 0 || routers > MOST_ROUTERS {
                let reason = format!("must make 1 to {MOST_ROUTERS} routers");
                return Err(FabricError::new("sides", format!("{sides:?}"), reason));
            }
        }
        if !(1..=8).contains(&each) {
            return Err(FabricError::new("vcs", 2 * u16::from(each), "must be from 2 to 16"));
        }
        Ok(Torus { sides: sides.to_vec(), twisted: false, each })
    }

    /// The same, twisted.
    ///
    /// # Errors
    /// If not some sides are twice as long as all others.
    ///
    /// ```
    /// use lightloom_fabric::routers::Torus;
    /// let twisted = Torus::new(&[4, 8], 1).unwrap().twist().unwrap();
    /// let end = twisted.network(1, 10, 1).out(3, 0).unwrap().to.router;
    /// assert_eq!(end, 4 * 4); // from (3, 0) to (0, 4)
    /// ```
    pub fn twist(self) -> Result<Self, FabricError> {
        let longest = self.longest();
        let short = self.sides.iter().filter(|&&side| 2 * side == longest).count();
        let long = self.sides.iter().filter(|&&side| side == longest).count();
        if short == 0 || short + long < self.sides.len() {
            let sides: Vec<_> = self.sides.iter().map(ToString::to_string).collect();
            let reason = format!("needs sides of n and of 2n; there are {}", sides.join(" x "));
            return Err(FabricError::new("twist", true, reason));
        }
        Ok(Torus { twisted: true, ..self })
    }

    /// Routers along each dimension.
    pub fn sides(&self) -> &[u32] {
        &self.sides
    }

    fn longest(&self) -> u32 {
        self.sides.iter().copied().max().unwrap_or(1)
    }

    /// Whether the ends of a dimension are joined further along the longest.
    fn short(&self, dimension: usize) -> bool {
        self.twisted && 2 * self.sides[dimension] == self.longest()
    }

    /// Where a router is along each dimension.
    pub(crate) fn place(&self, mut at: u32) -> Vec<u32> {
        let along = |&side: &u32| {
            let place = at % side;
            at /= side;
            place
        };
        self.sides.iter().map(along).collect()
    }

    /// The next router up a dimension.
    fn next(&self, at: u32, dimension: usize) -> u32 {
        let mut place = self.place(at);
        place[dimension] = (place[dimension] + 1) % self.sides[dimension];
        let longest = self.longest();
        if place[dimension] == 0 && self.short(dimension) {
            let long = place.iter_mut().zip(&self.sides).filter(|(_, side)| **side == longest);
            long.for_each(|(along, _)| *along = (*along + longest / 2) % longest);
        }
        let (along, sides) = (place.iter().rev(), self.sides.iter().rev());
        along.zip(sides).fold(0, |number, (along, side)| number * side + along)
    }

    /// The shortest ways of a twisted torus: along each dimension, for every choice of the short ones whose
    /// ends are crossed.
    fn ways(&self, at: u32, to: u32) -> Vec<Vec<Way>> {
        let (from, to, longest) = (self.place(at), self.place(to), self.longest());
        let short: Vec<usize> = (0..self.sides.len()).filter(|&d| self.short(d)).collect();
        let mut found: Vec<Vec<Way>> = Vec::new();
        let mut least = u32::MAX;
        for crossed in 0..1_u32 << short.len() {
            let further = crossed.count_ones() % 2 * longest / 2;
            let along = |d: usize| {
                let (here, there, side) = (from[d], to[d], self.sides[d]);
                match short.iter().position(|&other| other == d) {
                    Some(bit) if crossed >> bit & 1 == 1 => {
                        (side - here.abs_diff(there), [there <= here, there >= here])
                    }
                    Some(_) => (here.abs_diff(there), [there > here, there < here]),
                    None => {
                        let up = (there + further + side - here) % side;
                        (up.min(side - up), [2 * up <= side, 2 * up >= side])
                    }
                }
            };
            let ways: Vec<Way> = (0..self.sides.len()).map(along).collect();
            let hops = ways.iter().map(|way| way.0).sum::<u32>();
            if hops < least {
                found.clear();
                least = hops;
            }
            if hops == least {
                found.push(ways);
            }
        }
        found
    }

    /// As [`Routing::route`] on a twisted torus: along the first dimension of a shortest way that has none
    /// before it which the packet is done with.
    fn along(&self, at: u32, came: Option<(u16, u8)>, to: u32, choices: &mut Vec<Choice>) {
        let place = self.place(at);
        let done = came.map_or(0, |(port, _)| usize::from(port) / 2);
        for ways in self.ways(at, to) {
            let Some(d) = ways.iter().position(|way| way.0 > 0).filter(|&d| d >= done) else {
                continue;
            };
            let (hops, [up, down]) = ways[d];
            let going = [(0, up, place[d] + hops >= self.sides[d]), (1, down, hops > place[d])];
            for (side, _, crosses) in going.into_iter().filter(|&(_, goes, _)| goes) {
                let first = if crosses { 0 } else { self.each };
                for vc in first..first + self.each {
                    let choice = Choice::new(2 * d as u16 + side, vc);
                    if !choices.contains(&choice) {
                        choices.push(choice);
                    }
                }
            }
        }
    }

    /// Its routers, with `lanes` terminals each; channels of `width` flits a cycle and `delay` cycles.
    /// A dimension of one router has no channels, and one of two has two between them.
    pub fn network(&self, width: u16, delay: u16, lanes: u16) -> Network {
        let routers = self.sides.iter().product();
        let mut network = Network::new("torus", routers);
        for at in 0..routers {
            network.dark_ports(at, 2 * self.sides.len() as u16);
            (0..lanes).for_each(|_| _ = network.terminal(at));
        }
        for (dimension, &side) in self.sides.iter().enumerate() {
            for at in (0..routers).filter(|_| side > 1) {
                let port = 2 * dimension as u16;
                let from = End { router: at, port };
                let to = End { router: self.next(at, dimension), port: port + 1 };
                network.join(from, to, width, delay, ChannelKind::Long);
            }
        }
        network
    }
}

impl Routing for Torus {
    fn name(&self) -> &'static str {
        "dimension-order"
    }

    fn vcs(&self) -> u8 {
        2 * self.each
    }

    fn route(&self, at: u32, came: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        if self.twisted {
            return self.along(at, came, to, choices);
        }
        let (mut at, mut to, mut port) = (at, to, 0);
        for &side in &self.sides {
            let (here, there) = (at % side, to % side);
            if here != there {
                let up = (there + side - here) % side;
                let mut go = |port: u16, crosses: bool| {
                    let first = if crosses { 0 } else { self.each };
                    choices.extend((first..first + self.each).map(|vc| Choice::new(port, vc)));
                };
                if 2 * up <= side {
                    go(port, there < here);
                }
                if 2 * up >= side {
                    go(port + 1, there > here);
                }
                return;
            }
            (at, to, port) = (at / side, to / side, port + 2);
        }
        unreachable!("the engine ejects a packet that is there");
    }
}

/// The key `twist`.
const TWIST: Key = Key::new(
    "twist",
    Form::Bool,
    "Whether the end of a row along a short side is joined to the begin of another, half a long side \
     further along each long one: sides must be of n and of 2n.",
);

/// The kind `torus`.
pub static KIND: NetworkKind = NetworkKind::of::<TorusKeys>(
    Kind {
        name: "torus",
        summary: "A torus of any number of dimensions, a chip at each router",
        source: None,
        keys: &[
            Key::new(
                "sides",
                Form::Counts { min: 1, max: MOST_ROUTERS },
                "Chips along each dimension.",
            ),
            TWIST,
            WIDTH,
            DELAY,
            LANES,
        ],
        capabilities: Routings { routings: &["dimension-order"] },
    },
    |n| {
        let sides = [vec![4, 4], vec![5, 3, 2], vec![7], vec![2, 3, 1, 3], vec![2, 4, 2]];
        let sides = sides[n as usize % 5].clone();
        let twist = sides == [2, 4, 2];
        let [width, lanes] = [n % 2, n % 3].map(|n| NonZeroU16::MIN.saturating_add(n as u16));
        Arc::new(TorusKeys { sides, twist, width, delay: 10, lanes })
    },
);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TorusKeys {
    sides: Vec<u32>,
    twist: bool,
    width: NonZeroU16,
    delay: u16,
    lanes: NonZeroU16,
}

impl NetworkKeys for TorusKeys {
    fn build(&self, routing: &str, vcs: u8) -> Result<Routed, Refused> {
        let torus = Torus::new(&self.sides, each(routing, vcs, 2)?)?;
        let torus = if self.twist { torus.twist()? } else { torus };
        let network = torus.network(self.width.get(), self.delay, self.lanes.get());
        Ok((network, Box::new(torus)))
    }

    fn bound(&self) -> Option<f64> {
        if self.twist {
            return None;
        }
        let chips = self.sides.iter().map(|&side| f64::from(side)).product::<f64>();
        let load = |&side: &u32| {
            let hops: u32 = (0..side).map(|step| step.min(side - step)).sum();
            f64::from(hops) / 2.0 / f64::from(side)
        };
        let busiest = self.sides.iter().map(load).fold(0.0, f64::max);
        Some(f64::from(self.width.get()) / (busiest * chips / (chips - 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::{Cycle, Merged, walk};
    use super::*;

    #[test]
    fn paths_are_as_short_as_can_be_and_free_of_cycles() {
        for sides in [&[5][..], &[2, 1, 3], &[4, 4], &[5, 6], &[3, 4, 3], &[2, 2, 2, 3]] {
            for each in [1, 2] {
                let torus = Torus::new(sides, each).unwrap();
                let walked = walk(&torus.network(1, 1, 1), &torus).expect("no cycle");
                for (from, to, least, most) in walked {
                    let (mut a, mut b, mut hops) = (from, to, 0);
                    for &side in sides {
                        let up = (b % side + side - a % side) % side;
                        hops += up.min(side - up);
                        (a, b) = (a / side, b / side);
                    }
                    assert_eq!((least, most), (hops, hops), "{sides:?} {from} {to}");
                }
            }
        }
    }

    #[test]
    fn twisted_paths_are_as_short_as_a_search_finds_and_free_of_cycles() {
        for sides in [&[2, 4][..], &[4, 8], &[6, 3], &[2, 2, 4], &[4, 2, 4], &[3, 6, 6], &[4, 4, 8]]
        {
            let torus = Torus::new(sides, 1).unwrap().twist().unwrap();
            let network = torus.network(1, 1, 1);
            let from_0 = search(&network, 0);
            // RailX's: it has no more hops than without the twist, and fewer in all.
            let plain = search(&Torus::new(sides, 1).unwrap().network(1, 1, 1), 0);
            assert!(from_0.iter().max() <= plain.iter().max(), "{sides:?}");
            assert!(from_0.iter().sum::<u32>() < plain.iter().sum(), "{sides:?}");
            let most = if network.routers() > 100 { 1 } else { network.routers() };
            let expected: Vec<_> = (0..most).map(|from| search(&network, from)).collect();
            let walked = walk(&network, &torus).expect("no cycle");
            assert_eq!(walked.len() as u32, network.routers() * (network.routers() - 1));
            for (from, to, least, most) in walked {
                let Some(hops) = expected.get(from as usize) else { continue };
                assert_eq!([least, most], [hops[to as usize]; 2], "{sides:?} {from} {to}");
            }
        }
    }

    /// Hops from a router to each, by breadth.
    fn search(network: &Network, from: u32) -> Vec<u32> {
        let mut hops = vec![u32::MAX; network.routers() as usize];
        hops[from as usize] = 0;
        let mut open = std::collections::VecDeque::from([from]);
        while let Some(at) = open.pop_front() {
            for port in 0..network.ports(at) {
                let Some(next) = network.out(at, port).map(|channel| channel.to.router) else {
                    continue;
                };
                if hops[next as usize] == u32::MAX {
                    hops[next as usize] = hops[at as usize] + 1;
                    open.push_back(next);
                }
            }
        }
        hops
    }

    #[test]
    fn a_twist_needs_sides_of_n_and_2n() {
        for sides in [&[4, 4][..], &[3, 4], &[8], &[2, 4, 8]] {
            let error = Torus::new(sides, 1).unwrap().twist().unwrap_err().to_string();
            assert!(error.starts_with("twist = true: needs sides of n and of 2n"), "{error}");
        }
    }

    #[test]
    fn without_datelines_there_is_a_cycle() {
        let merged = Merged(Torus::new(&[5, 3], 1).unwrap());
        assert_eq!(walk(&merged.0.network(1, 1, 1), &merged), Err(Cycle));
        // Rings of three are crossed in one hop: nothing waits for the next channel.
        let short = Merged(Torus::new(&[3, 3], 1).unwrap());
        assert!(walk(&short.0.network(1, 1, 1), &short).is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |sides: &[u32], each| Torus::new(sides, each).unwrap_err().to_string();
        assert_eq!(refused(&[3, 0], 1), "sides = [3, 0]: must make 1 to 1048576 routers");
        assert!(refused(&[1 << 16; 4], 1).contains("must make"));
        assert!(refused(&[], 1).contains("must be 1 to 8 numbers"));
        assert_eq!(refused(&[3], 0), "vcs = 0: must be from 2 to 16");
    }
}
