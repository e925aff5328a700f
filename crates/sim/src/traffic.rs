//! What GPUs send each other in one iteration, by parallelism, whatever the fabric.
//!
//! Modelled: every transfer of the task graph, with the gating that its all-to-alls really have;
//! collectives as rings, each member to its successor. Ignored: the path that a fabric takes, an
//! all-to-all's own share, which needs no network. Checked: bytes of the all-to-alls equal those
//! that the flow engine delivers, the others `Job::volumes`, in `tests/test_mixnet_reproduce.py`.

use crate::demand::{AllToAll, Demand};
use crate::table::Table;
use lightloom_workload::{Axis, Comm, Gating, Placement, TaskGraph};
use std::collections::BTreeMap;

/// Rows of kind, from, to (GPUs) and bytes; pairs that exchange nothing have none.
/// Servers have so many GPUs, where copies of tokens are merged.
pub(crate) fn table(
    graph: &TaskGraph,
    placement: &Placement,
    (gating, per_server): (&Gating, u32),
) -> Table {
    let mut sums: BTreeMap<(&'static str, u32, u32), u64> = BTreeMap::new();
    let demand = Demand::new(placement, gating, per_server);
    for comm in &graph.comms {
        let mut add = |kind: &'static str, from: u32, to: u32, bytes: u64| {
            *sums.entry((kind, from, to)).or_default() += bytes;
        };
        match *comm {
            Comm::AllToAll { block, matrix, transposed, bytes_per_token } => demand.for_each(
                AllToAll { block, matrix, transposed, bytes_per_token },
                |from, to, bytes| add("ep", from, to, bytes),
            ),
            Comm::Send { from, to, bytes_per_gpu } => placement
                .block_gpus(from)
                .zip(placement.block_gpus(to))
                .for_each(|(from, to)| add("pp", from, to, bytes_per_gpu)),
            Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                for group in placement.gradient_groups(stage, scope) {
                    let members = group.len() as u64;
                    // Reduce-scatter and all-gather, each n - 1 steps of an n-th of the buffer.
                    let each = 2 * (members - 1) * bytes_per_gpu / members;
                    ring(&group, |from, to| add("dp", from, to, each));
                }
            }
            Comm::Exchange { first, end, .. } => graph.messages[first as usize..end as usize]
                .iter()
                .for_each(|&(from, to, bytes)| add("exchange", from, to, bytes)),
            Comm::Collective { block, over, bytes_per_gpu, .. } => {
                let kind = match over {
                    Axis::Cp => "cp",
                    Axis::Tp => "tp",
                    Axis::Etp => "etp",
                };
                for group in placement.axis_groups(block, over) {
                    ring(&group, |from, to| add(kind, from, to, bytes_per_gpu));
                }
            }
        }
    }
    let rows = || sums.keys();
    Table::new("traffic")
        .names("kind", rows().map(|row| row.0))
        .integers("from", rows().map(|row| i64::from(row.1)))
        .integers("to", rows().map(|row| i64::from(row.2)))
        .integers("bytes", sums.values().map(|&bytes| bytes as i64))
}

fn ring(group: &[u32], mut each: impl FnMut(u32, u32)) {
    if group.len() > 1 {
        for (at, &from) in group.iter().enumerate() {
            each(from, group[(at + 1) % group.len()]);
        }
    }
}
