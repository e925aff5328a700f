//! What a transfer is to carry: all-to-alls as demands from GPU to GPU.

pub(crate) use crate::all_to_all::AllToAll;
use crate::failures::Moved;
use crate::merged::{Merging, Visits};
use lightloom_workload::{Gating, Placement};

/// What one all-to-all sends: (source GPU, destination GPU, bytes), own shares left out.
pub(crate) struct Demand<'a> {
    pub placement: &'a Placement,
    pub gating: &'a Gating,
    /// On which GPU each rank runs.
    pub moved: Moved,
    /// Where a token is copied once a server.
    merging: Option<Merging>,
}

impl<'a> Demand<'a> {
    /// Of ranks on servers of so many GPUs.
    pub fn new(placement: &'a Placement, gating: &'a Gating, per_server: u32) -> Self {
        let merging = gating.merges().then(|| Merging::new(per_server));
        Demand { placement, gating, moved: Moved::default(), merging }
    }

    /// Calls `each` with every pair of GPUs that exchange anything, source by source.
    pub fn for_each(&self, a2a: AllToAll, each: impl FnMut(u32, u32, u64)) {
        match &self.merging {
            Some(merging) => self.visit_merged(merging, a2a, None, false, each),
            None => self.visit(self.gating.matrix(a2a.matrix), a2a, |_, at| at, each),
        }
    }

    /// As [`Demand::for_each`], if the tokens were others: from rank (row) to rank (column).
    pub fn for_each_of(&self, tokens: &[u32], a2a: AllToAll, each: impl FnMut(u32, u32, u64)) {
        match &self.merging {
            Some(merging) => self.visit_merged(merging, a2a, Some(tokens), false, each),
            None => self.visit(tokens, a2a, |_, at| at, each),
        }
    }

    /// As [`Demand::for_each`], each source's destinations from its own neighbour on, as collective
    /// libraries send: no one is everyone's first.
    pub fn for_each_in_turn(&self, a2a: AllToAll, each: impl FnMut(u32, u32, u64)) {
        let ep = self.placement.degrees().ep;
        let tokens = self.gating.matrix(a2a.matrix);
        match &self.merging {
            Some(merging) => self.visit_merged(merging, a2a, None, true, each),
            None => self.visit(tokens, a2a, |source, at| (source + at) % ep, each),
        }
    }

    /// What a token visits on average, where it is copied once a server and was.
    pub fn visits(&self) -> Option<Visits> {
        self.merging.as_ref()?.visits(self.gating)
    }

    fn visit_merged(
        &self,
        merging: &Merging,
        a2a: AllToAll,
        tokens: Option<&[u32]>,
        turns: bool,
        mut each: impl FnMut(u32, u32, u64),
    ) {
        let of = (self.placement, self.gating, &self.moved);
        for (from, to, bytes) in merging.messages(of, a2a, tokens, turns) {
            each(from, to, bytes);
        }
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
        let groups = self.placement.exchanges();
        // By rank: its GPU in each group. Looked up for every pair, and found by dividing.
        let mut gpus = Vec::with_capacity((degrees.ep * groups) as usize);
        for rank in 0..degrees.ep {
            let place = |group| self.placement.exchange_place(rank, group);
            gpus.extend((0..groups).map(|group| self.moved.gpu_of(first + place(group))));
        }
        let of = |rank: u32| &gpus[(rank * groups) as usize..][..groups as usize];
        for i in 0..degrees.ep {
            for j in (0..degrees.ep).map(|at| destination(i, at)) {
                let (row, column) = if a2a.transposed { (j, i) } else { (i, j) };
                let bytes =
                    u64::from(tokens[(row * degrees.ep + column) as usize]) * a2a.bytes_per_token;
                if i == j || bytes == 0 {
                    continue;
                }
                for (&from, &to) in of(i).iter().zip(of(j)) {
                    each(from, to, bytes);
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
