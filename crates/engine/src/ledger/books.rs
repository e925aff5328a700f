//! Parts of a run in ledgers of their own ([`Parts`](crate::Parts)): how they begin, and how one ledger goes on
//! with all of them.

use super::{Due, Entry, Ledger, NONE};
use crate::circuits::Circuits;
use crate::engine::Scenario;
use crate::outcome::Outcome;
use crate::transfers::Transfers;
use lightloom_fabric::LinkId;

/// What a ledger keeps of parts of a run, for another to [absorb](Ledger::absorb).
pub struct Books {
    circuits: Circuits,
    outcome: Outcome,
    waiting: Vec<u32>,
    left: usize,
    transfers: Transfers,
    darkened: Vec<Vec<LinkId>>,
}

/// What names of absorbed books are now: so much more than they were.
#[derive(Clone, Copy, Debug)]
pub struct Renamed {
    /// Added to tracks.
    pub tracks: u32,
    /// Added to the numbers of [`Due::Ready`].
    pub changes: u32,
}

impl Renamed {
    /// As the absorbing ledger calls it.
    pub fn due(&self, due: Due) -> Due {
        match due {
            Due::PhaseOver(track) => Due::PhaseOver(track + self.tracks),
            Due::Ready(change) => Due::Ready(change + self.changes),
            Due::Computed(_) | Due::Started(_) | Due::Incident(_) => due,
        }
    }
}

impl Ledger<'_> {
    /// The run of one part begins, with these tasks; see [`Parts`](crate::Parts). In place of [`Ledger::begin`].
    pub fn begin_part(&mut self, first: &[u32]) {
        let start = |&task: &u32| Entry::Start { task, cause: NONE };
        self.entries.extend(first.iter().rev().map(start));
    }

    /// Goes on with what the books of other parts of the same run say, whose flows go on here. What those call
    /// a track or a change is called what the answer says from now on.
    pub fn absorb(&mut self, other: Books) -> Renamed {
        let Books { circuits, outcome, waiting, left, transfers, darkened } = other;
        let Scenario { fabric, tasks, circuits: standing, .. } = *self.scenario;
        self.circuits.absorb(&circuits, &Circuits::new(fabric, standing));
        self.outcome.absorb(outcome);
        for (at, (own, other)) in self.waiting.iter_mut().zip(&waiting).enumerate() {
            *own -= tasks.predecessors[at] - other;
        }
        self.left -= tasks.len() - left;
        let changes = self.darkened.len() as u32;
        self.darkened.extend(darkened);
        Renamed { tracks: self.transfers.absorb(transfers), changes }
    }

    /// What the books of some parts say that have come to their fences.
    pub fn into_books(self) -> Books {
        let Ledger { circuits, outcome, waiting, left, transfers, darkened, .. } = self;
        Books { circuits, outcome, waiting, left, transfers, darkened }
    }
}
