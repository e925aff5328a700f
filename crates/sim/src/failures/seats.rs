//! Which GPU each rank runs on: its own, unless it has moved.

use std::collections::BTreeMap;

/// Ranks that have moved, and where to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seats(BTreeMap<u32, u32>);

impl Seats {
    pub fn of(&self, rank: u32) -> u32 {
        if self.0.is_empty() {
            return rank;
        }
        self.0.get(&rank).copied().unwrap_or(rank)
    }

    /// Puts ranks where they are.
    pub fn seat(&self, group: &mut [u32]) {
        if !self.0.is_empty() {
            group.iter_mut().for_each(|rank| *rank = self.of(*rank));
        }
    }

    pub fn take(&mut self, moves: &[(u32, u32)]) {
        self.0.extend(moves.iter().copied());
    }
}
