//! Every member with every other at once: a round a part.

use super::round::{Fold, Member, Part, Program, Round, shards};
use std::ops::Range;

/// Members after this one, then those before it: so not all begin with the same one.
fn others(me: Member) -> impl Iterator<Item = usize> {
    (1..me.of).map(move |hop| (me.at + hop) % me.of)
}

/// By part: each member's shard of it.
pub(super) fn cut(all: &[Range<u64>], element: u64, parts: usize) -> Vec<Vec<Range<u64>>> {
    let cut: Vec<_> = all.iter().map(|shard| shards(shard.clone(), element, parts)).collect();
    (0..parts).map(|part| cut.iter().map(|pieces| pieces[part].clone()).collect()).collect()
}

/// Each member sends every other one its shard, and folds what comes in the order of members. Says by part which
/// rounds must be over before it is reduced.
pub(super) fn reduce_scatter(
    program: &mut Program,
    me: Member,
    cut: &[Vec<Range<u64>>],
) -> Vec<Vec<usize>> {
    let before = all(program);
    let mut over = Vec::new();
    for shards in cut {
        let own = &shards[me.at];
        let mut round = Round { after: before.clone(), ..Round::default() };
        for peer in others(me) {
            round.sends.push(Part { peer, range: shards[peer].clone() });
        }
        for peer in (0..me.of).filter(|&peer| peer != me.at) {
            let range = program.scratch(own.end - own.start);
            round.receives.push(Part { peer, range: range.clone() });
            round.folds.push(Fold { from: range, into: own.start });
        }
        over.push(vec![program.rounds.len()]);
        program.push(round);
    }
    over
}

/// Each member sends every other one its own shard, part by part after these rounds; `root` needs none.
pub(super) fn all_gather(
    program: &mut Program,
    me: Member,
    cut: &[Vec<Range<u64>>],
    root: Option<usize>,
    after: &[Vec<usize>],
) {
    for (shards, after) in cut.iter().zip(after) {
        let mut round = Round { after: after.clone(), ..Round::default() };
        for peer in others(me) {
            if Some(peer) != root {
                round.sends.push(Part { peer, range: shards[me.at].clone() });
            }
            if Some(me.at) != root {
                round.receives.push(Part { peer, range: shards[peer].clone() });
            }
        }
        program.push(round);
    }
}

/// The root sends every other member its shard.
pub(super) fn scatter(program: &mut Program, me: Member, root: usize, shards: &[Range<u64>]) {
    let mut round = Round { after: all(program), ..Round::default() };
    if me.at == root {
        let part = |peer| Part { peer, range: shards[peer].clone() };
        round.sends = others(me).map(part).collect();
    } else {
        round.receives = vec![Part { peer: root, range: shards[me.at].clone() }];
    }
    program.push(round);
}

/// All rounds that a program has.
pub(super) fn all(program: &Program) -> Vec<usize> {
    (0..program.rounds.len()).collect()
}
