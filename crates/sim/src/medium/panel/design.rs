//! The circuits of a panel: those that are given, or what is found for all that a job sends in an iteration.
//!
//! All-to-alls of a block that carry the same tokens are added up before they are looked at, in an array of the
//! block's servers: of large groups of experts they are most of the work.

use crate::demand::{AllToAll, Demand};
use crate::error::SimError;
use crate::medium::form::Job;
use crate::spec::Spec;
use lightloom_circuits::CircuitCounts;
use lightloom_circuits::topoopt::{self, AllReduceGroup, Design, TopoOptInput};
use lightloom_fabric::TopoOptSpec;
use lightloom_workload::{BlockId, Comm, MatrixId};
use std::collections::BTreeMap;
use std::ops::Range;

/// What pairs of servers exchange, both ways together.
struct Between {
    per_server: u32,
    pairs: BTreeMap<(u32, u32), u64>,
    /// Of a block, from server (row) to server (column).
    block: Vec<u64>,
}

impl Between {
    fn new(per_server: u32) -> Self {
        Between { per_server, pairs: BTreeMap::new(), block: vec![] }
    }

    /// Adds what one GPU sends another.
    fn add(&mut self, from: u32, to: u32, bytes: u64) {
        let (a, b) = (from / self.per_server, to / self.per_server);
        if a != b {
            *self.pairs.entry((a.min(b), a.max(b))).or_default() += bytes;
        }
    }

    /// Adds all-to-alls of a block, which has these GPUs.
    fn all_to_alls(
        &mut self,
        demand: &Demand<'_>,
        gpus: Range<u32>,
        all: impl Iterator<Item = AllToAll>,
    ) {
        let first = gpus.start / self.per_server;
        let servers = (gpus.end.div_ceil(self.per_server) - first) as usize;
        self.block.clear();
        self.block.resize(servers * servers, 0);
        let of: Vec<usize> =
            gpus.clone().map(|gpu| (gpu / self.per_server - first) as usize).collect();
        let local = |gpu: u32| of[(gpu - gpus.start) as usize];
        for a2a in all {
            demand.for_each(a2a, |from, to, bytes| {
                self.block[local(from) * servers + local(to)] += bytes;
            });
        }
        for a in 0..servers {
            for b in a + 1..servers {
                let bytes = self.block[a * servers + b] + self.block[b * servers + a];
                if bytes > 0 {
                    *self.pairs.entry((first + a as u32, first + b as u32)).or_default() += bytes;
                }
            }
        }
    }
}

/// Circuits as they are given.
fn standing(given: &CircuitCounts) -> Result<Design, SimError> {
    let n = given.servers();
    let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    let circuits: Vec<(u32, u32)> =
        pairs.flat_map(|(a, b)| vec![(a as u32, b as u32); given.get(a, b) as usize]).collect();
    let mut reached = vec![false; n];
    let mut open = vec![0];
    while let Some(server) = open.pop() {
        if !std::mem::replace(&mut reached[server], true) {
            open.extend((0..n).filter(|&other| given.get(server, other) > 0));
        }
    }
    if let Some(cut_off) = reached.iter().position(|&there| !there) {
        return Err(SimError::Input(format!(
            "collective.circuits: none lead from server 0 to server {cut_off}; allowed: circuits \
             that connect all servers"
        )));
    }
    Ok(Design { circuits, rings: vec![], crossings: 0, connected: true })
}

/// Circuits for what the job sends in one iteration.
pub(super) fn design(spec: &Spec, backups: u32, job: &Job<'_>) -> Result<Design, SimError> {
    let keys: &TopoOptSpec = spec.fabric.keys().expect("only TopoOpt names this medium");
    if let Some(given) = spec.given_circuits(keys.degree)? {
        if backups > 0 {
            return Err(SimError::Input(
                "collective.circuits: lead to no servers that stand in, which failures need; allowed: \
                 failures of NICs and links, or no circuits given"
                    .into(),
            ));
        }
        return standing(&given);
    }
    let Job { graph, placement, gating } = *job;
    let per_server = spec.cluster.gpus_per_server.max(1);
    let mut between = Between::new(per_server);
    let mut sums: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
    let mut exchanges: BTreeMap<BlockId, BTreeMap<(MatrixId, bool), u64>> = BTreeMap::new();
    for comm in &graph.comms {
        match *comm {
            Comm::AllToAll { block, matrix, transposed, bytes_per_token } => {
                *exchanges.entry(block).or_default().entry((matrix, transposed)).or_default() +=
                    bytes_per_token;
            }
            Comm::Send { from, to, bytes_per_gpu } => placement
                .block_gpus(from)
                .zip(placement.block_gpus(to))
                .for_each(|(from, to)| between.add(from, to, bytes_per_gpu)),
            Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                for group in placement.gradient_groups(stage, scope) {
                    let mut servers: Vec<u32> = group.iter().map(|gpu| gpu / per_server).collect();
                    servers.sort_unstable();
                    servers.dedup();
                    // What the rings between servers carry, over all their hops.
                    let hops = servers.len().saturating_sub(1) as u64;
                    if hops > 0 {
                        *sums.entry(servers).or_default() += 2 * hops * bytes_per_gpu;
                    }
                }
            }
            Comm::Exchange { first, end, .. } => graph.messages[first as usize..end as usize]
                .iter()
                .for_each(|&(from, to, bytes)| between.add(from, to, bytes)),
            Comm::Collective { block, over, bytes_per_gpu, .. } => {
                for group in placement.axis_groups(block, over) {
                    for (at, &from) in group.iter().enumerate() {
                        between.add(from, group[(at + 1) % group.len()], bytes_per_gpu);
                    }
                }
            }
        }
    }
    let demand = Demand::new(placement, gating, per_server);
    for (block, each) in exchanges {
        let all = each.into_iter().map(|((matrix, transposed), bytes_per_token)| AllToAll {
            block,
            matrix,
            transposed,
            bytes_per_token,
        });
        between.all_to_alls(&demand, placement.block_gpus(block), all);
    }
    let input = TopoOptInput {
        // Those that stand in are on the panel from the beginning.
        servers: (spec.cluster.gpus / per_server + backups) as usize,
        degree: keys.degree,
        all_reduce: sums
            .into_iter()
            .map(|(servers, bytes)| AllReduceGroup { servers, bytes })
            .collect(),
        mp: between.pairs.into_iter().map(|((a, b), bytes)| (a, b, bytes)).collect(),
    };
    let design = topoopt::find(&input);
    if !design.connected {
        return Err(SimError::Input(format!(
            "fabric.degree = {}: too few circuits to connect {} servers; at least 2 are needed",
            keys.degree, input.servers
        )));
    }
    Ok(design)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_workload::{DispatchCopies, Gating, Parallelism, Placement, example};

    /// Blocks that are parts of a server, some servers, and servers and a half.
    #[test]
    fn a_block_adds_up_to_what_its_gpus_send() {
        for (ep, tp, per_server, copies) in [
            (8, 1, 8, DispatchCopies::Expert),
            (8, 4, 8, DispatchCopies::Expert),
            (8, 1, 16, DispatchCopies::Expert),
            (12, 1, 8, DispatchCopies::Expert),
            (8, 1, 4, DispatchCopies::Server),
        ] {
            let mut job = example::mixtral_8x7b();
            job.model.experts = 24;
            job.parallelism = Parallelism { ep, tp, dp: 3, pp: 1, ..job.parallelism };
            job.training.dispatch_copies = copies;
            let counts: Vec<u32> = (0..ep * 24).map(|at| 1 + at * at * 37 % 89).collect();
            let gating = Gating::new(
                &counts,
                [1, 1, ep as usize, 24],
                &job.model,
                &job.parallelism,
                &job.training,
                1,
            )
            .expect("a trace that fits");
            let placement = Placement::new(job.parallelism);
            let demand = Demand::new(&placement, &gating, per_server);
            let (mut together, mut one_by_one) =
                (Between::new(per_server), Between::new(per_server));
            for replica in 0..3 {
                let block = BlockId { replica, stage: 0 };
                let all =
                    [(false, 10), (true, 7), (false, 3)].map(|(transposed, bytes_per_token)| {
                        AllToAll { block, matrix: MatrixId(0), transposed, bytes_per_token }
                    });
                for a2a in all {
                    demand.for_each(a2a, |from, to, bytes| one_by_one.add(from, to, bytes));
                }
                together.all_to_alls(&demand, placement.block_gpus(block), all.into_iter());
            }
            assert_eq!(together.pairs, one_by_one.pairs);
            assert_eq!(
                one_by_one.pairs.is_empty(),
                ep * tp <= per_server && per_server % (ep * tp) == 0
            );
        }
    }
}
