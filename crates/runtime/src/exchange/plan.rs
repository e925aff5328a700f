//! Operations and their plans: which chunk takes which lane.

use super::fields::MOST;
use super::name::{Endpoint, LaneId};
use thiserror::Error;

/// What is sent to a peer, or expected from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The other end.
    pub peer: Endpoint,
    /// How much; none is allowed \[B\].
    pub bytes: u64,
}

/// A part of what is sent to a peer, and the lane that it takes if that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// To whom.
    pub peer: Endpoint,
    /// Over which lane.
    pub lane: LaneId,
    /// Where it begins in what is sent to this peer \[B\].
    pub offset: u64,
    /// How much it is, at least one \[B\].
    pub length: u32,
}

/// This endpoint's part of a collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// The group that performs it.
    pub group: u32,
    /// Its number in the group, from 0, the same at every member.
    pub number: u64,
    /// What goes to each peer; a peer that is not named gets nothing.
    pub sends: Vec<Transfer>,
    /// What comes from each peer.
    pub receives: Vec<Transfer>,
    /// The chunks of all that is sent. They are sent in this order, lane by lane.
    pub plan: Vec<Chunk>,
}

/// A plan that does not carry what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// A chunk is empty or too long.
    #[error("a chunk to endpoint {peer} has {found} B; 1 to {most} B is allowed")]
    Length {
        /// To whom.
        peer: Endpoint,
        /// Its length.
        found: u32,
        /// The settings' `chunk`.
        most: u32,
    },
    /// Bytes are in no chunk, or in two, or too many.
    #[error("the chunks to endpoint {peer} cover {found} B without a gap; {bytes} B are sent")]
    Cover {
        /// To whom.
        peer: Endpoint,
        /// So much from the beginning lies in one chunk each.
        found: u64,
        /// So much is sent.
        bytes: u64,
    },
}

/// Cuts what is sent to a peer into chunks, which take lanes in turn.
///
/// ```
/// use lightloom_runtime::exchange::{LaneId, striped};
/// let plan = striped(1, 2500, &[LaneId(0), LaneId(3)], 1000);
/// let lanes: Vec<_> = plan.iter().map(|chunk| (chunk.lane.0, chunk.offset, chunk.length)).collect();
/// assert_eq!(lanes, [(0, 0, 1000), (3, 1000, 1000), (0, 2000, 500)]);
/// ```
pub fn striped(peer: Endpoint, bytes: u64, lanes: &[LaneId], chunk: u32) -> Vec<Chunk> {
    let chunk = chunk.max(1);
    let offsets = (0..bytes).step_by(chunk as usize);
    let cut = |(offset, &lane): (u64, &LaneId)| {
        let length = (bytes - offset).min(chunk.into()) as u32;
        Chunk { peer, lane, offset, length }
    };
    offsets.zip(lanes.iter().cycle()).map(cut).collect()
}

/// Whether chunks carry each byte of what is sent once.
pub(crate) fn check(sends: &[Transfer], plan: &[Chunk], most: u32) -> Result<(), PlanError> {
    if let Some(chunk) = plan.iter().find(|chunk| chunk.length == 0 || chunk.length > most) {
        return Err(PlanError::Length { peer: chunk.peer, found: chunk.length, most });
    }
    let mut order: Vec<&Chunk> = plan.iter().collect();
    order.sort_by_key(|chunk| (chunk.peer, chunk.offset));
    let mut rest = order.as_slice();
    let mut sends: Vec<&Transfer> = sends.iter().collect();
    sends.sort_by_key(|send| send.peer);
    for &&Transfer { peer, bytes } in &sends {
        let mut found = 0;
        while let Some((chunk, after)) = rest.split_first() {
            if chunk.peer != peer || chunk.offset != found {
                break;
            }
            (found, rest) = (found.saturating_add(chunk.length.into()), after);
        }
        let clean = rest.first().is_none_or(|next| next.peer > peer);
        if found != bytes || !clean || bytes > MOST {
            return Err(PlanError::Cover { peer, found, bytes });
        }
    }
    match rest.first() {
        Some(chunk) => Err(PlanError::Cover { peer: chunk.peer, found: 0, bytes: 0 }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_that_do_not_carry_each_byte_once_are_refused() {
        let sends = [Transfer { peer: 2, bytes: 0 }, Transfer { peer: 1, bytes: 10 }];
        let chunk = |peer, offset, length| Chunk { peer, lane: LaneId(0), offset, length };
        let table: &[(&[Chunk], &str)] = &[
            (&[chunk(1, 4, 6), chunk(1, 0, 4)], "ok"),
            (&[], "the chunks to endpoint 1 cover 0 B without a gap; 10 B are sent"),
            (&[chunk(1, 0, 4)], "the chunks to endpoint 1 cover 4 B without a gap; 10 B are sent"),
            (
                &[chunk(1, 0, 4), chunk(1, 3, 7)],
                "the chunks to endpoint 1 cover 4 B without a gap; 10 B are sent",
            ),
            (
                &[chunk(1, 0, 10), chunk(1, 10, 1)],
                "the chunks to endpoint 1 cover 11 B without a gap; 10 B are sent",
            ),
            (
                &[chunk(1, 0, 10), chunk(2, 0, 1)],
                "the chunks to endpoint 2 cover 1 B without a gap; 0 B are sent",
            ),
            (
                &[chunk(1, 0, 10), chunk(3, 0, 1)],
                "the chunks to endpoint 3 cover 0 B without a gap; 0 B are sent",
            ),
            (
                &[chunk(0, 0, 1), chunk(1, 0, 10)],
                "the chunks to endpoint 1 cover 0 B without a gap; 10 B are sent",
            ),
            (&[chunk(1, 0, 11)], "a chunk to endpoint 1 has 11 B; 1 to 10 B is allowed"),
            (&[chunk(1, 0, 0)], "a chunk to endpoint 1 has 0 B; 1 to 10 B is allowed"),
        ];
        for (plan, expected) in table {
            let said = check(&sends, plan, 10).map_or_else(|it| it.to_string(), |()| "ok".into());
            assert_eq!(said, *expected, "{plan:?}");
        }
    }

    #[test]
    fn stripes_carry_each_byte_once() {
        for bytes in [0, 1, 999, 1000, 1001, 12345] {
            let plan = striped(1, bytes, &[LaneId(0), LaneId(1), LaneId(2)], 1000);
            assert_eq!(check(&[Transfer { peer: 1, bytes }], &plan, 1000), Ok(()));
        }
    }
}
