//! A torus of routers in any number of dimensions, routed dimension by dimension.
//!
//! Modelled: a router a chip, a channel each way to the next router of every dimension; the last of
//! a row is joined to its first. Packets go round in the shorter direction, in either if both are
//! as long. *Datelines* keep a ring free of cycles (Dally and Towles, 2004, chapter 14): a packet that
//! has yet to cross from the last router to the first is in one class of virtual channels, one that
//! has not in the other.
//! Ignored: several links side by side are one that is as wide as they are together.
//! Checked: every path is as short as can be; no cycle among the channels of small tori, and one
//! where the classes are merged.

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
    each: u8,
}

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
        Ok(Torus { sides: sides.to_vec(), each })
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
        let mut stride = 1;
        for (dimension, &side) in self.sides.iter().enumerate() {
            for at in (0..routers).filter(|_| side > 1) {
                let place = at / stride % side;
                let next = at - place * stride + (place + 1) % side * stride;
                let port = 2 * dimension as u16;
                let (from, to) = (End { router: at, port }, End { router: next, port: port + 1 });
                network.join(from, to, width, delay, ChannelKind::Long);
            }
            stride *= side;
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

    fn route(&self, at: u32, _: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
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
            WIDTH,
            DELAY,
            LANES,
        ],
        capabilities: Routings { routings: &["dimension-order"] },
    },
    |n| {
        let sides = [vec![4, 4], vec![5, 3, 2], vec![7], vec![2, 3, 1, 3], vec![3, 5]];
        let [width, lanes] = [n % 2, n % 3].map(|n| NonZeroU16::MIN.saturating_add(n as u16));
        Arc::new(TorusKeys { sides: sides[n as usize % 5].clone(), width, delay: 10, lanes })
    },
);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TorusKeys {
    sides: Vec<u32>,
    width: NonZeroU16,
    delay: u16,
    lanes: NonZeroU16,
}

impl NetworkKeys for TorusKeys {
    fn build(&self, routing: &str, vcs: u8) -> Result<Routed, Refused> {
        let torus = Torus::new(&self.sides, each(routing, vcs, 2)?)?;
        let network = torus.network(self.width.get(), self.delay, self.lanes.get());
        Ok((network, Box::new(torus)))
    }

    fn bound(&self) -> Option<f64> {
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
