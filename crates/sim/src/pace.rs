//! How far a run of the packet engine has come.
//!
//! Its work is packets over links, and one transfer may be most of a run: tasks say little, nor do
//! bytes, for a packet inside a server is large and crosses few links. So each byte is weighed by the
//! packet-hops that it costs, about, and between arrivals the share goes on at the pace so far.
//! Ignored: packets sent again, the true length of paths, relays on the way (what goes over several
//! paths in turn counts once). Nothing of a result depends on it.

use crate::demand::{AllToAll, Demand};
use lightloom_engine::{NOT_A_TRANSFER, TaskId};
use lightloom_packet::PacketSpec;
use lightloom_workload::collective::hierarchical;
use lightloom_workload::{Comm, TaskGraph};
use std::collections::HashMap;

/// Links from GPU to GPU inside a server, and between servers over three tiers.
const HOPS_INSIDE: f64 = 2.0;
const HOPS_OUTSIDE: f64 = 6.0;

/// Packet-hops between two checks, about, and for how many checks that is believed over what was
/// measured: the engine asks every 2^17 events, and a packet, its acknowledgement and waiting are
/// more than one event a link.
const FIRST_PACE: f64 = 5e4;
const BELIEVED: f64 = 20.0;

/// What a transfer sends, in phases one after another: bytes, and packet-hops a byte.
type Phases = [(f64, f64); 3];

/// Watches packets arrive.
pub(crate) struct Pace<'a> {
    transfer_of: &'a [u32],
    transfers: Vec<Phases>,
    /// Bytes of each transfer that have arrived.
    arrived: Vec<f64>,
    /// Packet-hops of the whole run.
    all: f64,
    done: f64,
    checks: f64,
    /// `checks` when something arrived last.
    heard: f64,
    share: f64,
}

impl<'a> Pace<'a> {
    pub fn new(
        graph: &'a TaskGraph,
        demand: &Demand<'_>,
        per_server: u32,
        spec: &PacketSpec,
    ) -> Self {
        let per_server = per_server.max(1);
        let inside = HOPS_INSIDE / spec.scale_up_mtu.get().max(1) as f64;
        let outside = HOPS_OUTSIDE / spec.mtu.get().max(1) as f64;
        let sum = |flows: &[(u32, u32, u64)]| {
            let (mut bytes, mut work) = (0.0, 0.0);
            for &(from, to, size) in flows {
                let near = from / per_server == to / per_server;
                bytes += size as f64;
                work += size as f64 * if near { inside } else { outside };
            }
            (bytes, if bytes > 0.0 { work / bytes } else { 0.0 })
        };
        let placement = demand.placement;
        let mut plans: HashMap<_, Phases> = HashMap::new();
        let mut flows = Vec::new();
        let mut phases = |comm: &Comm| {
            flows.clear();
            match *comm {
                Comm::AllToAll { block, matrix, transposed, bytes_per_token } => {
                    let a2a = AllToAll { block, matrix, transposed, bytes_per_token };
                    demand.for_each(a2a, |from, to, bytes| flows.push((from, to, bytes)));
                }
                Comm::Send { from, to, bytes_per_gpu } => {
                    let pairs = placement.block_gpus(from).zip(placement.block_gpus(to));
                    flows.extend(pairs.map(|(from, to)| (from, to, bytes_per_gpu)));
                }
                Comm::Exchange { first, end, .. } => {
                    flows.extend(&graph.messages[first as usize..end as usize]);
                }
                Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                    return *plans.entry((stage, scope, bytes_per_gpu)).or_insert_with(|| {
                        let groups = placement.gradient_groups(stage, scope);
                        let plan = hierarchical(&groups, bytes_per_gpu, per_server);
                        [sum(&plan.reduce), sum(&plan.ring), sum(&plan.gather)]
                    });
                }
                Comm::Collective { block, over, bytes_per_gpu, .. } => {
                    let groups = placement.axis_groups(block, over);
                    let server = |gpu: &u32| gpu / per_server;
                    let near =
                        |group: &Vec<u32>| group.iter().all(|g| server(g) == server(&group[0]));
                    // Inside servers it takes its closed form, without a packet.
                    if !groups.iter().all(near) {
                        for group in &groups {
                            let next = group.iter().cycle().skip(1);
                            flows.extend(
                                group.iter().zip(next).map(|(&a, &b)| (a, b, bytes_per_gpu)),
                            );
                        }
                    }
                }
            }
            [sum(&flows), (0.0, 0.0), (0.0, 0.0)]
        };
        Pace::of(&graph.comm, graph.comms.iter().map(&mut phases).collect())
    }

    fn of(transfer_of: &'a [u32], transfers: Vec<Phases>) -> Self {
        Pace {
            transfer_of,
            arrived: vec![0.0; transfers.len()],
            all: transfers.iter().flatten().map(|(bytes, weight)| bytes * weight).sum(),
            transfers,
            done: 0.0,
            checks: 0.0,
            heard: 0.0,
            share: 0.0,
        }
    }

    /// A flow of `task` has arrived.
    pub fn arrived(&mut self, task: TaskId, bytes: u64) {
        let transfer = self.transfer_of[task.0 as usize];
        if transfer == NOT_A_TRANSFER {
            return;
        }
        let before = &mut self.arrived[transfer as usize];
        let (mut from, to) = (*before, *before + bytes as f64);
        *before = to;
        let mut end = 0.0;
        for (bytes, weight) in self.transfers[transfer as usize] {
            end += bytes;
            let here = (to.min(end) - from).max(0.0);
            self.done += here * weight;
            from += here;
        }
        self.heard = self.checks;
    }

    /// The share at one more check: never less than before, never all.
    pub fn check(&mut self) -> f64 {
        self.checks += 1.0;
        let left = (self.all - self.done).max(1.0);
        let pace = (self.done + BELIEVED * FIRST_PACE) / (self.heard + BELIEVED);
        let ahead = pace * (self.checks - self.heard) / left;
        // The end is approached, not passed, however long nothing arrives.
        let under_way = match ahead < 0.8 {
            true => ahead,
            false => 1.0 - 0.2 * (-(ahead - 0.8) / 0.2).exp(),
        };
        let share = (self.done + left * under_way) / (self.done + left);
        self.share = self.share.max(share.min(0.999));
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_moves_within_one_long_flow_and_only_forward() {
        let mut pace = Pace::of(&[0], vec![[(2e12, 1e-3), (0.0, 0.0), (0.0, 0.0)]]);
        let mut last = 0.0;
        for check in 0..10_000 {
            if check == 5_000 {
                pace.arrived(TaskId(0), 500_000_000_000);
            }
            let share = pace.check();
            assert!(share > last || share > 0.99, "{share} after {last}");
            assert!(share >= last && share < 1.0, "{share} after {last}");
            last = share;
        }
        pace.arrived(TaskId(0), 1_500_000_000_000);
        assert_eq!(pace.check(), 0.999);
    }

    #[test]
    fn bytes_weigh_what_their_phase_says() {
        let phases = [(10.0, 1.0), (10.0, 5.0), (10.0, 1.0)];
        let transfers = [NOT_A_TRANSFER, 0];
        let mut pace = Pace::of(&transfers, vec![phases]);
        for done in [5.0, 10.0, 35.0, 60.0, 65.0, 70.0, 70.0] {
            pace.arrived(TaskId(1), 5);
            assert_eq!(pace.done, done);
        }
        pace.arrived(TaskId(0), 5);
        assert_eq!((pace.done, pace.all), (70.0, 70.0));
    }
}
