//! Which GPU each rank runs on: its own, the one that its job was given, or one that it has moved to.

use std::collections::BTreeMap;

/// The GPUs of ranks that are not on their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moved {
    /// By rank, if the job was placed elsewhere than on the first GPUs of the cluster.
    placed: Vec<u32>,
    /// Ranks that have moved since.
    moves: BTreeMap<u32, u32>,
}

impl Moved {
    /// Ranks on the GPUs that their job was given, by rank.
    pub fn placed(gpus: Vec<u32>) -> Self {
        Moved { placed: gpus, moves: BTreeMap::new() }
    }

    pub fn gpu_of(&self, rank: u32) -> u32 {
        let own = self.placed.get(rank as usize).copied().unwrap_or(rank);
        match self.moves.is_empty() {
            true => own,
            false => self.moves.get(&rank).copied().unwrap_or(own),
        }
    }

    /// Whether a rank has moved to this GPU.
    pub fn is_at(&self, gpu: u32) -> bool {
        self.moves.values().any(|&to| to == gpu)
    }

    /// Replaces ranks by their GPUs.
    pub fn apply(&self, group: &mut [u32]) {
        if !(self.placed.is_empty() && self.moves.is_empty()) {
            group.iter_mut().for_each(|rank| *rank = self.gpu_of(*rank));
        }
    }

    pub fn add(&mut self, moves: &[(u32, u32)]) {
        self.moves.extend(moves.iter().copied());
    }
}
