//! Fat-trees of packet switches: any number of tiers, of planes, and any taper.
//!
//! Modelled: an extended generalised fat-tree (Oehring et al., 1995). Tier by tier it is said how
//! many children a switch has and how many parents the tier below; chips are the lowest tier. Packets
//! go up until they are above their chip, by parents drawn at random, and down the only path there is.
//! Adaptive routing takes another parent where the one drawn has no room. (If all took the one with
//! the most room, the inputs of a switch would choose the same one in the same cycle.)
//! A chip with several parents is on as many trees, or planes.
//! Ignored: cables of different lengths; all are as long.
//! Checked: paths are as short as can be; no cycle among the channels; every switch reaches every
//! chip below it.

use super::kind::{DELAY, LANES, NetworkKeys, NetworkKind, Refused, Routed, Routings, WIDTH};
use super::network::{ChannelKind, End, Network};
use super::routing::{Choice, Routing};
use super::torus::MOST_ROUTERS;
use crate::error::FabricError;
use lightloom_units::kind::{Form, Key, Kind};
use serde::Deserialize;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A fat-tree and its routing. Routers: chips, then the switches tier by tier. Ports: to the
/// children, then to the parents.
///
/// ```
/// use lightloom_fabric::routers::{FatTree, Routing};
/// // Eight planes; 27 leaves with 48 chips and 16 links up, 3:1; 16 spines.
/// let tree = FatTree::new(&[48, 27], &[8, 16], true, 4).unwrap();
/// let network = tree.network(1, 10, 1);
/// assert_eq!(network.terminals().len(), 1296);
/// assert_eq!(network.routers(), 1296 + 8 * (27 + 16));
/// assert_eq!([0, 1296, 1296 + 8 * 27].map(|router| network.ports(router)), [8, 64, 27]);
/// let mut choices = Vec::new();
/// tree.route(0, None, 1295, 5, &mut choices);
/// assert_eq!(choices.len(), 8 * 4); // any plane, any virtual channel
/// assert_eq!((choices[0].port, choices[0].rank, choices[4].rank), (5, 0, 1)); // best the one drawn
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    tiers: Vec<Tier>,
    adaptive: bool,
    vcs: u8,
}

/// Routers of one tier; they are numbered by the part of the tree that they are above, then by the
/// parents that lead to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tier {
    /// The number of its first router.
    first: u32,
    /// How many there are above one part of the tree.
    copies: u32,
    /// Chips below each.
    chips: u32,
    children: u32,
    parents: u32,
}

impl FatTree {
    /// A tree whose switches have `children[t]` children in tier t, from the leaves on, and whose
    /// routers below have `parents[t]` parents there; `adaptive` or not; with `vcs` virtual channels.
    ///
    /// # Errors
    /// If the two are not as long, or there are no tiers, chips or virtual channels, or too many.
    pub fn new(
        children: &[u32],
        parents: &[u32],
        adaptive: bool,
        vcs: u8,
    ) -> Result<Self, FabricError> {
        if !(1..=4).contains(&children.len()) {
            let said = format!("{children:?}");
            return Err(FabricError::new("children", said, "must be 1 to 4 numbers"));
        }
        if parents.len() != children.len() {
            let reason = format!("must be {} numbers, as children are", children.len());
            return Err(FabricError::new("parents", format!("{parents:?}"), reason));
        }
        for (key, numbers) in [("children", children), ("parents", parents)] {
            if numbers.iter().any(|number| !(1..=4096).contains(number)) {
                let said = format!("{numbers:?}");
                return Err(FabricError::new(key, said, "must each be from 1 to 4096"));
            }
        }
        if !(1..=16).contains(&vcs) {
            return Err(FabricError::new("vcs", vcs, "must be from 1 to 16"));
        }
        let chips: u64 = children.iter().map(|&n| u64::from(n)).product();
        let (mut tiers, mut first, mut copies, mut below) = (Vec::new(), 0_u64, 1_u64, 1_u64);
        for tier in 0..=children.len() {
            if tier > 0 {
                copies *= u64::from(parents[tier - 1]);
                below *= u64::from(children[tier - 1]);
            }
            let routers = chips / below * copies;
            if first + routers > MOST_ROUTERS {
                let said = format!("{children:?}");
                let reason = format!("with parents = {parents:?} must make up to {MOST_ROUTERS}");
                return Err(FabricError::new("children", said, reason + " routers"));
            }
            tiers.push(Tier {
                first: first as u32,
                copies: copies as u32,
                chips: below as u32,
                children: if tier > 0 { children[tier - 1] } else { 0 },
                parents: parents.get(tier).copied().unwrap_or(0),
            });
            first += routers;
        }
        Ok(FatTree { tiers, adaptive, vcs })
    }

    /// Its routers, `lanes` terminals at each chip; channels of `width` flits a cycle and `delay`
    /// cycles.
    pub fn network(&self, width: u16, delay: u16, lanes: u16) -> Network {
        let top = self.tiers[self.tiers.len() - 1];
        let mut network = Network::new("fat-tree", top.first + top.copies);
        for (tier, of) in self.tiers.iter().enumerate() {
            for at in 0..self.routers(tier) {
                network.dark_ports(of.first + at, (of.children + of.parents) as u16);
            }
        }
        for chip in 0..self.routers(0) {
            (0..lanes).for_each(|_| _ = network.terminal(chip));
        }
        for (tier, (below, above)) in self.tiers.iter().zip(&self.tiers[1..]).enumerate() {
            for at in 0..self.routers(tier) {
                let (part, copy) = (at / below.copies, at % below.copies);
                for parent in 0..below.parents {
                    let up = part / above.children * above.copies + copy * below.parents + parent;
                    let from =
                        End { router: below.first + at, port: (below.children + parent) as u16 };
                    let to = End { router: above.first + up, port: (part % above.children) as u16 };
                    network.join(from, to, width, delay, ChannelKind::Long);
                }
            }
        }
        network
    }

    fn routers(&self, tier: usize) -> u32 {
        let chips = self.tiers[self.tiers.len() - 1].chips;
        chips / self.tiers[tier].chips * self.tiers[tier].copies
    }
}

impl Routing for FatTree {
    fn name(&self) -> &'static str {
        if self.adaptive { "adaptive" } else { "random" }
    }

    fn vcs(&self) -> u8 {
        self.vcs
    }

    fn draws(&self) -> u32 {
        self.tiers[self.tiers.len() - 1].copies.min(1 << 16)
    }

    fn route(&self, at: u32, _: Option<(u16, u8)>, to: u32, draw: u32, choices: &mut Vec<Choice>) {
        let tier = self.tiers.iter().rposition(|tier| tier.first <= at).expect("chips are first");
        let of = self.tiers[tier];
        if tier > 0 && (at - of.first) / of.copies == to / of.chips {
            let child = to / self.tiers[tier - 1].chips % of.children;
            choices.extend((0..self.vcs).map(|vc| Choice::new(child as u16, vc)));
            return;
        }
        let drawn = draw / self.tiers[tier].copies % of.parents;
        for n in 0..if self.adaptive { of.parents } else { 1 } {
            let port = (of.children + (drawn + n) % of.parents) as u16;
            let rank = u8::from(n > 0);
            choices.extend((0..self.vcs).map(|vc| Choice { rank, ..Choice::new(port, vc) }));
        }
    }
}

/// The kind `fat-tree`.
pub static KIND: NetworkKind = NetworkKind::of::<FatTreeKeys>(
    Kind {
        name: "fat-tree",
        summary: "Fat-trees of any tiers, taper and planes, as many planes as a chip has parents",
        source: None,
        keys: &[
            Key::new(
                "children",
                Form::Counts { min: 1, max: MOST_ROUTERS },
                "Of a switch, tier by tier from the leaves on.",
            ),
            Key::new(
                "parents",
                Form::Counts { min: 1, max: MOST_ROUTERS },
                "Of a chip, then of a switch of each tier below.",
            ),
            WIDTH,
            DELAY,
            LANES,
        ],
        capabilities: Routings { routings: &["random", "adaptive"] },
    },
    |n| {
        let (children, parents) = [
            (vec![3, 4], vec![2, 2]),
            (vec![4, 3, 2], vec![2, 2, 3]),
            (vec![5], vec![2]),
            (vec![6, 3], vec![3, 2]),
            (vec![2, 3, 3], vec![1, 2, 3]),
        ][n as usize % 5]
            .clone();
        let lanes = NonZeroU16::MIN.saturating_add(n as u16 % 3);
        Arc::new(FatTreeKeys { children, parents, width: NonZeroU16::MIN, delay: 10, lanes })
    },
);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FatTreeKeys {
    children: Vec<u32>,
    parents: Vec<u32>,
    width: NonZeroU16,
    delay: u16,
    lanes: NonZeroU16,
}

impl NetworkKeys for FatTreeKeys {
    fn build(&self, routing: &str, vcs: u8) -> Result<Routed, Refused> {
        let tree = FatTree::new(&self.children, &self.parents, routing == "adaptive", vcs)?;
        Ok((tree.network(self.width.get(), self.delay, self.lanes.get()), Box::new(tree)))
    }

    fn bound(&self) -> Option<f64> {
        let chips = self.children.iter().map(|&n| f64::from(n)).product::<f64>();
        let (mut below, mut ways, mut busiest) = (1.0, 1.0, 0.0_f64);
        for (&children, &parents) in self.children.iter().zip(&self.parents) {
            ways *= f64::from(parents);
            busiest = busiest.max(below * (chips - below) / (chips - 1.0) / ways);
            below *= f64::from(children);
        }
        Some(f64::from(self.width.get()) / busiest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::walk;
    use super::*;

    #[test]
    fn paths_are_as_short_as_can_be_and_free_of_cycles() {
        for (children, parents) in [
            (&[5][..], &[2][..]),
            (&[3, 4], &[1, 3]),
            (&[3, 2], &[2, 1]),
            (&[2, 3, 2], &[2, 2, 1]),
            (&[2, 2, 2, 2], &[1, 2, 1, 2]),
        ] {
            let tree = FatTree::new(children, parents, children.len() % 2 == 0, 2).unwrap();
            let walked = walk(&tree.network(1, 1, 1), &tree).expect("no cycle");
            let chips: u32 = children.iter().product();
            assert_eq!(walked.len() as u32, chips * (chips - 1));
            for (from, to, least, most) in walked {
                let (mut a, mut b, mut up) = (from, to, 0);
                for n in children {
                    up += u32::from(a != b);
                    (a, b) = (a / n, b / n);
                }
                assert_eq!((least, most), (2 * up, 2 * up), "{children:?} {from} {to}");
            }
        }
    }

    #[test]
    fn draws_are_spread_over_all_paths_up() {
        let tree = FatTree::new(&[2, 2, 2], &[2, 3, 2], false, 1).unwrap();
        let network = tree.network(1, 1, 1);
        let mut tops = vec![0; network.routers() as usize];
        for draw in 0..tree.draws() {
            let (mut at, mut hops) = (0, 0);
            while hops < 3 {
                let mut choices = Vec::new();
                tree.route(at, None, 7, draw, &mut choices);
                at = network.out(at, choices[0].port).expect("a port up").to.router;
                hops += 1;
            }
            tops[at as usize] += 1;
        }
        assert_eq!(tops.iter().filter(|&&n| n == 1).count(), 12);
        assert_eq!(tops.iter().sum::<u32>(), 12);
    }

    #[test]
    fn every_port_has_a_channel_and_every_switch_its_children() {
        let tree = FatTree::new(&[4, 3, 5], &[2, 4, 3], true, 1).unwrap();
        let network = tree.network(2, 7, 1);
        let ports: Vec<u16> = (0..network.routers()).map(|at| network.ports(at)).collect();
        let of = |n: u16| ports.iter().filter(|&&ports| ports == n).count();
        assert_eq!((of(2), of(8), of(6), of(5)), (60, 2 * 15, 8 * 5, 24));
        assert!(
            (0..network.routers())
                .all(|at| { (0..network.ports(at)).all(|port| network.out(at, port).is_some()) })
        );
        assert_eq!(network.channels().len(), 2 * (60 * 2 + 30 * 4 + 40 * 3));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |children: &[u32], parents: &[u32], vcs| {
            FatTree::new(children, parents, true, vcs).unwrap_err().to_string()
        };
        assert_eq!(refused(&[4, 0], &[1, 1], 1), "children = [4, 0]: must each be from 1 to 4096");
        assert_eq!(refused(&[4, 4], &[1], 1), "parents = [1]: must be 2 numbers, as children are");
        assert!(refused(&[4096, 4096], &[1, 1], 1).contains("up to 1048576 routers"));
        assert!(refused(&[4], &[1], 0).starts_with("vcs = 0"));
        assert!(refused(&[], &[], 1).contains("1 to 4 numbers"));
    }
}
