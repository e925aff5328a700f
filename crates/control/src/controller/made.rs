//! Which patches a controller knows to be its own.

use crate::driver::Patch;
use std::collections::BTreeSet;

/// What this controller has made, as far as it knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    /// Patches that stood when the switch was read last, and those that were ordered since; none before the first
    /// reading, when all that stands is taken over.
    pub patches: Option<BTreeSet<Patch>>,
    /// Another controller's circuits were seen: nothing is ordered.
    pub stopped: bool,
}

impl Made {
    /// These are ordered.
    pub fn ordered(&mut self, set: &[Patch]) {
        if let Some(patches) = &mut self.patches {
            patches.extend(set);
        }
    }
}
