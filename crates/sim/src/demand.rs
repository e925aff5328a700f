//! What a transfer is to carry: all-to-alls as demands from GPU to GPU.

use crate::failures::Moved;
use lightloom_workload::{BlockId, Gating, MatrixId, Placement};

/// An all-to-all, as the graph has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllToAll {
    pub block: BlockId,
    pub matrix: MatrixId,
    pub transposed: bool,
    pub bytes_per_token: u64,
}

/// What one all-to-all sends: (source GPU, destination GPU, bytes), own shares left out.
pub(crate) struct Demand<'a> {
    pub placement: &'a Placement,
    pub gating: &'a Gating,
    /// On which GPU each rank runs.
    pub moved: Moved,
}

impl<'a> Demand<'a> {
    pub fn new(placement: &'a Placement, gating: &'a Gating) -> Self {
        Demand { placement, gating, moved: Moved::default() }
    }

    /// Calls `each` with every pair of GPUs that exchange anything, source by source.
    pub fn for_each(&self, a2a: AllToAll, each: impl FnMut(u32, u32, u64)) {
        self.visit(self.gating.matrix(a2a.matrix), a2a, |_, at| at, each);
    }

    /// As [`Demand::for_each`], if the tokens were others: from rank (row) to rank (column).
    pub fn for_each_of(&self, tokens: &[u32], a2a: AllToAll, each: impl FnMut(u32, u32, u64)) {
        self.visit(tokens, a2a, |_, at| at, each);
    }

    /// As [`Demand::for_each`], each source's destinations from its own neighbour on, as collective
    /// libraries send: no one is everyone's first.
    pub fn for_each_in_turn(&self, a2a: AllToAll, each: impl FnMut(u32, u32, u64)) {
        let ep = self.placement.degrees().ep;
        let tokens = self.gating.matrix(a2a.matrix);
        self.visit(tokens, a2a, |source, at| (source + at) % ep, each);
    }

    fn visit(
        &self,
        tokens: &[u32],
        a2a: AllToAll,
        destination: impl Fn(u32, u32) -> u32,
        mut each: impl FnMut(u32, u32, u64),
    ) {
        let degrees = self.placement.degrees();
        let first = self.placement.block_gpus(a2a.block).start;
        let slices = degrees.tp * degrees.cp;
        for i in 0..degrees.ep {
            for j in (0..degrees.ep).map(|at| destination(i, at)) {
                let (row, column) = if a2a.transposed { (j, i) } else { (i, j) };
                let bytes =
                    u64::from(tokens[(row * degrees.ep + column) as usize]) * a2a.bytes_per_token;
                if i == j || bytes == 0 {
                    continue;
                }
                for slice in 0..slices {
                    let gpu = |rank: u32| self.moved.gpu_of(first + rank * slices + slice);
                    each(gpu(i), gpu(j), bytes);
                }
            }
        }
    }
}

/// A demand between servers that was recorded for the report, with the circuits chosen for it.
#[derive(Clone, Debug, Default)]
pub struct DemandRecord {
    /// Data-parallel replica.
    pub replica: u32,
    /// Pipeline stage.
    pub stage: u32,
    /// Layer of the model, from 0.
    pub layer: i32,
    /// Micro-batch, from 0.
    pub micro_batch: i32,
    /// The sending server.
    pub source: u32,
    /// The receiving server.
    pub destination: u32,
    /// Bytes from one to the other.
    pub bytes: u64,
    /// Circuits that join the two while it is sent.
    pub circuits: u32,
}
