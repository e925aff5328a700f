//! Over rings: what a member has goes to the next one, round by round.

use super::direct::all;
use super::round::{Fold, Member, Part, Program, Round, shards};
use std::ops::Range;

/// The orders of rings, and the parts of each.
type Rings<'a> = (&'a [Vec<usize>], usize);

/// One member's place in one part of a ring, whose shards are by place.
pub(super) struct Place {
    at: usize,
    of: usize,
    next: usize,
    last: usize,
    shards: Vec<Range<u64>>,
}

impl Place {
    /// The shard of the member so many places before this one.
    fn before(&self, places: usize) -> Range<u64> {
        self.shards[(self.at + 2 * self.of - places) % self.of].clone()
    }
}

/// By part: this member's place in each ring.
pub(super) fn places(
    me: Member,
    all: &[Range<u64>],
    (orders, parts): Rings<'_>,
    element: u64,
) -> Vec<Vec<Place>> {
    let cut: Vec<_> =
        all.iter().map(|shard| shards(shard.clone(), element, orders.len() * parts)).collect();
    let place = |part: usize, ring: usize| {
        let order = &orders[ring];
        let at = order.iter().position(|&member| member == me.at).unwrap_or(0);
        Place {
            at,
            of: me.of,
            next: order[(at + 1) % me.of],
            last: order[(at + me.of - 1) % me.of],
            shards: order.iter().map(|&member| cut[member][ring * parts + part].clone()).collect(),
        }
    };
    (0..parts).map(|part| (0..orders.len()).map(|ring| place(part, ring)).collect()).collect()
}

/// In each round a member passes on the shard to which it has just added its own. Says by part which rounds must be
/// over before it is reduced.
pub(super) fn reduce_scatter(
    program: &mut Program,
    me: Member,
    places: &[Vec<Place>],
) -> Vec<Vec<usize>> {
    let longest =
        |place: &Place| place.shards.iter().map(|it| it.end - it.start).max().unwrap_or(0);
    let scratch: Vec<Vec<Range<u64>>> = places
        .iter()
        .map(|rings| rings.iter().map(|place| program.scratch(longest(place))).collect())
        .collect();
    let before = vec![all(program); places.len()];
    rounds(program, me, places, &before, |hop, part, ring, place, round| {
        let (sent, come) = (place.before(hop + 1), place.before(hop + 2));
        let begin = scratch[part][ring].start;
        let from = begin..begin + come.end - come.start;
        round.sends.push(Part { peer: place.next, range: sent });
        round.receives.push(Part { peer: place.last, range: from.clone() });
        round.folds.push(Fold { from, into: come.start });
    });
    if me.of == 1 {
        return before; // there was nothing to do
    }
    (program.rounds.len() - places.len()..program.rounds.len()).map(|last| vec![last]).collect()
}

/// In each round a member passes on the shard that has just come, part by part after these rounds; `root` needs none.
pub(super) fn all_gather(
    program: &mut Program,
    me: Member,
    places: &[Vec<Place>],
    root: Option<usize>,
    after: &[Vec<usize>],
) {
    rounds(program, me, places, after, |hop, _, _, place, round| {
        if Some(place.next) != root {
            round.sends.push(Part { peer: place.next, range: place.before(hop) });
        }
        if Some(me.at) != root {
            round.receives.push(Part { peer: place.last, range: place.before(hop + 1) });
        }
    });
}

/// Adds the rounds of one way round the rings: each part's after its last, and the first after those before.
fn rounds(
    program: &mut Program,
    me: Member,
    places: &[Vec<Place>],
    before: &[Vec<usize>],
    fill: impl Fn(usize, usize, usize, &Place, &mut Round),
) {
    for hop in 0..me.of - 1 {
        for (part, rings) in places.iter().enumerate() {
            let last = program.rounds.len().checked_sub(places.len()).filter(|_| hop > 0);
            let after = last.map_or_else(|| before[part].clone(), |last| vec![last]);
            let mut round = Round { after, ..Round::default() };
            for (ring, place) in rings.iter().enumerate() {
                fill(hop, part, ring, place, &mut round);
            }
            program.push(round);
        }
    }
}
