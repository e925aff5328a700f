//! Which all-to-all of a task graph is meant.

use lightloom_workload::{BlockId, MatrixId};

/// An all-to-all, as the graph has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllToAll {
    pub block: BlockId,
    pub matrix: MatrixId,
    pub transposed: bool,
    pub bytes_per_token: u64,
}
