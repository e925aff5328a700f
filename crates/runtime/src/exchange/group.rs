//! A group that was joined.

use super::failure::Failure;
use super::name::{Endpoint, OperationId};
use std::collections::BTreeMap;

/// A group that was joined and not left.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// All but this endpoint, in rising order.
    pub members: Vec<Endpoint>,
    /// Operations that were posted, which is the next one's number.
    pub posted: u64,
    /// Those of them that are under way.
    pub running: BTreeMap<u64, OperationId>,
    pub failed: Option<Failure>,
}

impl Group {
    pub fn new(mut members: Vec<Endpoint>) -> Self {
        members.sort_unstable();
        members.dedup();
        Group { members, posted: 0, running: BTreeMap::new(), failed: None }
    }

    pub fn has(&self, endpoint: Endpoint) -> bool {
        self.members.binary_search(&endpoint).is_ok()
    }
}
