//! Collectives of servers as rounds of exchanges, and what is computed between them.
//!
//! A *program* is one member's part of a collective over a memory of its own: the bytes of the collective, then
//! scratch. Each [`Round`] is one operation of the exchange; when it is over, what has come into scratch is reduced
//! into the bytes. Every member has the same number of rounds, so a group's operations agree.
//!
//! Modelled:
//! - reduce-scatter, all-gather, and all-reduce as one after the other: [directly](Algorithm::Direct) (each member sends
//!   every other its shard, in one round), or over [rings](Algorithm::Ring) (members - 1 rounds between neighbours, as
//!   circuits want it; Patarasuk and Yuan, J. Parallel Distrib. Comput. 2009), each with its slice of the bytes;
//! - all-reduce in parts: while one is gathered, the next is still scattered, so NICs have bytes to send while the last
//!   of a part is acknowledged and reduced;
//! - broadcast as a scatter and an all-gather (van de Geijn), barrier as an all-gather of a byte a member.
//!
//! Each sends the least that any algorithm can: 2 (n - 1) / n of the bytes for an all-reduce of n members.
//! Ignored: the ranks of a server, whose bytes are reduced before and copied after.
//! Checked: every collective and algorithm at odd sizes against an oracle, in memory, with rounds that end in any
//! order; bytes sent against the bound.
//!
//! ```
//! use lightloom_runtime::collective::*;
//! // Member 0 of 3 sums 12 B, elements of 4 B, over one ring.
//! let ring = Algorithm::Ring { orders: vec![vec![0, 1, 2]], parts: 1 };
//! let program = all_reduce(&ring, Member { at: 0, of: 3 }, 12, 4);
//! assert_eq!((program.rounds.len(), program.bytes, program.scratch), (4, 12, 4));
//! assert_eq!(program.sent(), 2 * 2 * 12 / 3);
//! ```

mod direct;
mod element;
mod ring;
mod round;
mod run;
#[cfg(test)]
mod tests;

pub use element::{Element, Reduction, reduce};
pub use round::{Fold, Member, Part, Program, Round, shards};
pub use run::Run;

use std::ops::Range;

/// How a collective goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Every member with every other at once.
    Direct {
        /// So many parts an all-reduce has: all are scattered at once, and each is gathered once it is reduced.
        parts: usize,
    },
    /// Over rings.
    Ring {
        /// Each ring's order of all members, by number; each ring has its slice of the bytes.
        orders: Vec<Vec<usize>>,
        /// So many parts of each slice are under way at a time: while one is acknowledged and reduced, another one
        /// goes.
        parts: usize,
    },
}

impl Algorithm {
    fn check(&self, me: Member) {
        assert!(me.at < me.of, "member {} of {}", me.at, me.of);
        let (Algorithm::Direct { parts } | Algorithm::Ring { parts, .. }) = self;
        assert!(*parts > 0, "a part at least");
        let Algorithm::Ring { orders, .. } = self else { return };
        let members = |order: &Vec<usize>| {
            let mut order = order.clone();
            order.sort_unstable();
            order == (0..me.of).collect::<Vec<_>>()
        };
        assert!(!orders.is_empty() && orders.iter().all(members), "rings of all");
    }
}

/// The reduction of all members' `bytes`, of elements of `element` bytes each, at every member.
///
/// # Panics
/// If `me` is none of the members, a ring is not of all members, or `element` is 0.
pub fn all_reduce(algorithm: &Algorithm, me: Member, bytes: u64, element: u64) -> Program {
    algorithm.check(me);
    let all = shards(0..bytes, element, me.of);
    let mut program = Program::new(bytes);
    match algorithm {
        Algorithm::Direct { parts } => {
            let cut = direct::cut(&all, element, *parts);
            let over = direct::reduce_scatter(&mut program, me, &cut);
            direct::all_gather(&mut program, me, &cut, None, &over);
        }
        Algorithm::Ring { orders, parts } => {
            let places = ring::places(me, &all, (orders, *parts), element);
            let over = ring::reduce_scatter(&mut program, me, &places);
            ring::all_gather(&mut program, me, &places, None, &over);
        }
    }
    program
}

/// The reduction of all members' bytes, of which each member is left with its shard; what else is in its memory
/// then is not defined. Shards lie one after the other.
///
/// # Panics
/// As [`all_reduce`], and if there is not one shard a member.
pub fn reduce_scatter(
    algorithm: &Algorithm,
    me: Member,
    shards: &[Range<u64>],
    element: u64,
) -> Program {
    algorithm.check(me);
    assert_eq!(shards.len(), me.of, "a shard a member");
    let mut program = Program::new(shards.last().map_or(0, |last| last.end));
    match algorithm {
        Algorithm::Direct { .. } => {
            direct::reduce_scatter(&mut program, me, &[shards.to_vec()]);
        }
        Algorithm::Ring { orders, parts } => {
            let places = ring::places(me, shards, (orders, *parts), element);
            ring::reduce_scatter(&mut program, me, &places);
        }
    }
    program
}

/// Every member's shard at every member.
///
/// # Panics
/// As [`reduce_scatter`].
pub fn all_gather(algorithm: &Algorithm, me: Member, shards: &[Range<u64>]) -> Program {
    algorithm.check(me);
    assert_eq!(shards.len(), me.of, "a shard a member");
    let mut program = Program::new(shards.last().map_or(0, |last| last.end));
    gather(&mut program, algorithm, me, shards, None);
    program
}

/// The `bytes` of member `root` at every member.
///
/// # Panics
/// As [`all_reduce`], and if `root` is none of the members.
pub fn broadcast(algorithm: &Algorithm, me: Member, root: usize, bytes: u64) -> Program {
    algorithm.check(me);
    assert!(root < me.of, "member {root} of {}", me.of);
    let shards = shards(0..bytes, 1, me.of);
    let mut program = Program::new(bytes);
    direct::scatter(&mut program, me, root, &shards);
    gather(&mut program, algorithm, me, &shards, Some(root));
    program
}

/// Nobody is past it before everybody has come to it: a byte of each member at every member.
///
/// # Panics
/// If `me` is none of the members.
pub fn barrier(me: Member) -> Program {
    all_gather(&Algorithm::Direct { parts: 1 }, me, &shards(0..me.of as u64, 1, me.of))
}

/// Adds an all-gather to what a program has; `root` has everything.
fn gather(
    program: &mut Program,
    algorithm: &Algorithm,
    me: Member,
    shards: &[Range<u64>],
    root: Option<usize>,
) {
    match algorithm {
        Algorithm::Direct { .. } => {
            let over = [direct::all(program)];
            direct::all_gather(program, me, &[shards.to_vec()], root, &over);
        }
        Algorithm::Ring { orders, parts } => {
            let over = vec![direct::all(program); *parts];
            let places = ring::places(me, shards, (orders, *parts), 1);
            ring::all_gather(program, me, &places, root, &over);
        }
    }
}
