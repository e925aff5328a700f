//! Which GPU each rank runs on: its own, unless it has moved.

use std::collections::BTreeMap;

/// The GPUs of ranks that have moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moved(BTreeMap<u32, u32>);

impl Moved {
    pub fn gpu_of(&self, rank: u32) -> u32 {
        if self.0.is_empty() {
            return rank;
        }
        self.0.get(&rank).copied().unwrap_or(rank)
    }

    /// Whether a rank has moved to this GPU.
    pub fn is_at(&self, gpu: u32) -> bool {
        self.0.values().any(|&to| to == gpu)
    }

    /// Replaces ranks by their GPUs.
    pub fn apply(&self, group: &mut [u32]) {
        if !self.0.is_empty() {
            group.iter_mut().for_each(|rank| *rank = self.gpu_of(*rank));
        }
    }

    pub fn add(&mut self, moves: &[(u32, u32)]) {
        self.0.extend(moves.iter().copied());
    }
}
