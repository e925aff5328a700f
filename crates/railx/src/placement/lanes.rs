//! The legal placements of a job: factors of every degree, the dimensions they make, and how those
//! are joined.

use super::question::{Hall, Question};
use crate::bandwidth::Share;
use crate::hamiltonian::rings_of;
use crate::volume::Kind;
use lightloom_fabric::railx::Axis;
use serde::Serialize;

/// Where the ranks of one kind are: the product of the three is its degree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Factors {
    /// The kind of parallelism.
    pub kind: Kind,
    /// Inside a node.
    pub inside: u32,
    /// Rails along X.
    pub x: u32,
    /// Rails along Y.
    pub y: u32,
}

/// How a dimension's nodes are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Joined {
    /// A ring on each rail.
    Ring,
    /// Every two directly.
    AllToAll,
}

/// A placement and the dimensions it makes.
pub(super) struct Candidate {
    pub factors: [Factors; 5],
    pub groups: Vec<Lane>,
    pub bound_s: f64,
}

/// Kinds that have the same rails of an axis.
pub(super) struct Lane {
    pub axis: Axis,
    /// Kinds and their factors along the axis.
    pub kinds: Vec<(Kind, u32)>,
    pub joined: Joined,
}

impl Lane {
    pub fn size(&self, kind: Kind) -> u32 {
        self.kinds.iter().find(|lane| lane.0 == kind).map_or(1, |lane| lane.1)
    }

    /// Rails that have circuits in the turn of experts.
    pub fn used(&self, rails: u32) -> u32 {
        match self.joined {
            Joined::Ring => rails,
            Joined::AllToAll => rails / set(self.size(Kind::Ep)) * set(self.size(Kind::Ep)),
        }
    }

    /// Rails that carry what is not the experts' own: all of those that are had by turns.
    pub fn used_otherwise(&self, rails: u32) -> u32 {
        if self.kinds.len() > 1 { rails } else { self.used(rails) }
    }
}

impl Candidate {
    pub fn shares(&self, hall: Hall) -> Vec<Share> {
        let share = |lane: &Lane| {
            let rails = match lane.joined {
                Joined::Ring => 1,
                Joined::AllToAll => set(lane.size(Kind::Ep)),
            };
            Share { pool: lane.axis as usize, least: rails.div_ceil(hall.rails(1)) }
        };
        self.groups.iter().map(share).collect()
    }
}

/// Every legal placement with every way to join its dimensions, bounded.
pub(super) fn candidates(question: &Question<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    let start = Kind::ALL.map(|kind| Factors { kind, inside: 1, x: 1, y: 1 });
    place_kind(question, start, 0, &mut found);
    found
}

/// Splits the degree of the kind at `at`, those before it being split.
fn place_kind(
    question: &Question<'_>,
    mut factors: [Factors; 5],
    at: usize,
    found: &mut Vec<Candidate>,
) {
    let hall = question.hall;
    let product = |of: fn(&Factors) -> u32| -> u32 { factors[..at].iter().map(of).product() };
    let (inside, x, y) = (product(|f| f.inside), product(|f| f.x), product(|f| f.y));
    let node = hall.mesh * hall.mesh;
    if at == factors.len() {
        if inside == node {
            join(question, factors, found);
        }
        return;
    }
    let degree = question.degrees[at];
    for within in divisors(degree).filter(|f| node % (inside * f) == 0) {
        let outside = degree / within;
        for along in divisors(outside).filter(|f| x * f <= hall.ocs / 2) {
            // X and Y are alike: the first kind that tells them apart has more of X.
            let alike = factors[..at].iter().all(|f| f.x == f.y);
            let across = outside / along;
            if y * across > hall.ocs / 2 || (alike && along < across) {
                continue;
            }
            factors[at] = Factors { inside: within, x: along, y: across, ..factors[at] };
            place_kind(question, factors, at + 1, found);
        }
    }
}

fn divisors(of: u32) -> impl Iterator<Item = u32> {
    let small = (1..=of.isqrt()).filter(move |d| of % d == 0);
    small.flat_map(move |d| [Some(d), (of / d > d).then_some(of / d)]).flatten()
}

/// Adds a placement, once for each way to join the dimensions of experts.
fn join(question: &Question<'_>, factors: [Factors; 5], found: &mut Vec<Candidate>) {
    let hall = question.hall;
    let by_turns = question.turns.is_some();
    let along = |axis: Axis, f: &Factors| if axis == Axis::X { f.x } else { f.y };
    let mut lanes: Vec<Lane> = Vec::new();
    for axis in [Axis::X, Axis::Y] {
        for f in factors.iter().filter(|f| along(axis, f) > 1) {
            let own = (f.kind, along(axis, f));
            let shared = |lane: &&mut Lane| {
                by_turns && f.kind == Kind::Ep && lane.axis == axis && lane.kinds[0].0 == Kind::Cp
            };
            match lanes.iter_mut().find(shared) {
                Some(lane) => lane.kinds.push(own),
                None => lanes.push(Lane { axis, kinds: vec![own], joined: Joined::Ring }),
            }
        }
    }
    if by_turns {
        // Both wholly on one axis, and the same: then the lane has all that either sends out.
        let outside = |kind: Kind| {
            let f = factors[kind as usize];
            f.x * f.y
        };
        let whole = |lane: &Lane| {
            lane.kinds.len() == 2 && lane.kinds.iter().all(|&(kind, size)| size == outside(kind))
        };
        if !lanes.iter().any(whole) {
            return;
        }
    }
    // Up to three nodes a ring joins them all.
    let experts: Vec<usize> = (0..lanes.len()).filter(|&i| lanes[i].size(Kind::Ep) > 3).collect();
    for chosen in 0..1u32 << experts.len() {
        let groups = lanes.iter().enumerate().map(|(i, lane)| {
            let direct = experts.iter().position(|&e| e == i).is_some_and(|e| chosen >> e & 1 == 1);
            let joined = if direct { Joined::AllToAll } else { Joined::Ring };
            Lane { axis: lane.axis, kinds: lane.kinds.clone(), joined }
        });
        let mut candidate = Candidate { factors, groups: groups.collect(), bound_s: 0.0 };
        let shares = candidate.shares(hall);
        let taken = |axis: Axis| -> u32 {
            shares.iter().filter(|share| share.pool == axis as usize).map(|share| share.least).sum()
        };
        let spare = [Axis::X, Axis::Y].map(|axis| hall.units().checked_sub(taken(axis)));
        let [Some(x), Some(y)] = spare else { continue };
        let most: Vec<u32> = shares.iter().map(|share| share.least + [x, y][share.pool]).collect();
        candidate.bound_s = question.cost(&candidate, &most);
        found.push(candidate);
    }
}

/// Rails an all-to-all of so many nodes needs; rails come in whole sets of these.
fn set(nodes: u32) -> u32 {
    rings_of(nodes).max(1)
}
