//! Rounds, and the programs that consist of them.

use std::ops::Range;

/// Which member of a group this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub at: usize,
    /// So many there are.
    pub of: usize,
}

/// Bytes of the memory that go to a member, or come from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The other member.
    pub peer: usize,
    /// Where they are in the memory \[B\].
    pub range: Range<u64>,
}

/// Bytes that are reduced into others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Where they are \[B\].
    pub from: Range<u64>,
    /// Where the others begin \[B\].
    pub into: u64,
}

/// One operation of the exchange, and what is computed once it is over. Parts to one member follow each other in what
/// goes to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Rounds, by number, that must be over before it begins.
    pub after: Vec<usize>,
    /// What goes out.
    pub sends: Vec<Part>,
    /// What comes in.
    pub receives: Vec<Part>,
    /// In this order.
    pub folds: Vec<Fold>,
}

/// One member's part of a collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Bytes of the collective, from the beginning of the memory \[B\].
    pub bytes: u64,
    /// Scratch after them \[B\].
    pub scratch: u64,
    /// To be begun in this order.
    pub rounds: Vec<Round>,
}

impl Program {
    /// Nothing to be done yet, over so many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        Program { bytes, ..Program::default() }
    }

    /// A piece of new scratch.
    pub(super) fn scratch(&mut self, bytes: u64) -> Range<u64> {
        let begin = self.bytes + self.scratch;
        self.scratch += bytes;
        begin..begin + bytes
    }

    /// Adds a round without its empty parts.
    pub(super) fn push(&mut self, mut round: Round) {
        round.sends.retain(|part| !part.range.is_empty());
        round.receives.retain(|part| !part.range.is_empty());
        round.folds.retain(|fold| !fold.from.is_empty());
        self.rounds.push(round);
    }

    /// What this member sends in all \[B\].
    pub fn sent(&self) -> u64 {
        let parts = self.rounds.iter().flat_map(|round| &round.sends);
        parts.map(|part| part.range.end - part.range.start).sum()
    }
}

/// Cuts a range into so many shards of whole elements, one after the other, the first ones larger if they cannot be
/// alike; a rest that is no element goes to the last.
///
/// ```
/// use lightloom_runtime::collective::shards;
/// assert_eq!(shards(0..10, 2, 3), [0..4, 4..8, 8..10]);
/// assert_eq!(shards(6..10, 4, 3), [6..10, 10..10, 10..10]);
/// ```
///
/// # Panics
/// If `element` or `count` is 0.
pub fn shards(range: Range<u64>, element: u64, count: usize) -> Vec<Range<u64>> {
    let count = count as u64;
    let elements = (range.end - range.start) / element;
    let begin = |at: u64| match at == count {
        true => range.end,
        false => range.start + element * (elements / count * at + (elements % count).min(at)),
    };
    (0..count).map(|at| begin(at)..begin(at + 1)).collect()
}
