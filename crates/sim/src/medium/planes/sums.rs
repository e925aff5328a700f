//! Sums of gradients piece by piece: what is urgent overtakes them between two pieces.
//!
//! Modelled: a piece lasts four times as long as what it may cost to take the ring up again, its
//! circuits' darkness and the delays of its steps; so a sum that is overtaken after every piece takes a
//! quarter longer at most, but for what overtakes it, which waits for one piece, or two where one sum follows
//! another. A sum of fewer bytes is one piece. Ignored: pieces that are cut short.
//! Checked: pieces add up to the ring; an all-to-all that overtakes, and the sum that it overtakes.

use crate::medium::form::Pair;
use lightloom_engine::TaskId;
use lightloom_fabric::{Fabric, GpuId};
use lightloom_swot::Planes;
use lightloom_swot::alltoall::Hold;
use lightloom_units::{Bytes, Time};
use lightloom_workload::collective::RingPlan;
use std::collections::{BTreeMap, BTreeSet};

/// How much longer a piece lasts than it takes to take its ring up again.
const LASTS: u64 = 4;

/// A sum of gradients, as far as it is.
pub(super) struct Sums {
    pub task: TaskId,
    ring: Vec<Pair>,
    /// Inside servers, after the last piece.
    pub gather: Vec<Pair>,
    /// Of the ring.
    pub steps: u32,
    /// When servers have summed inside.
    pub ready: Time,
    pub pieces: u64,
    /// Pieces that are booked.
    pub sent: u64,
    /// How long a piece lasts at least.
    each: Time,
    /// The circuits of the last piece.
    pub last: Vec<Hold>,
    servers: BTreeSet<u32>,
}

impl Sums {
    /// Nothing sent yet; `timing` has the latency of all steps.
    pub fn new(
        task: TaskId,
        plan: &RingPlan,
        ready: Time,
        timing: &Planes,
        fabric: &Fabric,
    ) -> Self {
        let server = |gpu: u32| fabric.cluster().server_of(GpuId(gpu)).0;
        let between = plan.ring.iter().filter(|(from, to, _)| server(*from) != server(*to));
        let mut lines: BTreeMap<(bool, u32), u64> = BTreeMap::new();
        for &(from, to, bytes) in between {
            *lines.entry((true, server(from))).or_default() += bytes;
            *lines.entry((false, server(to))).or_default() += bytes;
        }
        let fullest = lines.values().max().map_or(0, |bytes| bytes / u64::from(timing.planes));
        let whole = timing.rate_bps.time_for(Bytes::new(fullest));
        let again = (timing.reconfiguration_ps + timing.latency_ps).ps().max(1);
        let most = plan.ring.iter().map(|pair| pair.2).max().unwrap_or(0);
        let pieces = (whole.ps() / (LASTS * again)).max(1).min(most);
        Sums {
            task,
            ring: plan.ring.clone(),
            gather: plan.gather.clone(),
            steps: plan.steps,
            ready,
            pieces,
            sent: 0,
            each: Time::from_ps(whole.ps() / pieces.max(1)),
            last: vec![],
            servers: lines.keys().map(|&(_, server)| server).collect(),
        }
    }

    /// What the next piece carries: all pieces add up to the ring's bytes.
    pub fn next(&mut self) -> Vec<Pair> {
        let upto = |bytes: u64, pieces: u64| {
            (u128::from(bytes) * u128::from(pieces) / u128::from(self.pieces)) as u64
        };
        let share = |bytes| upto(bytes, self.sent + 1) - upto(bytes, self.sent);
        let piece = self.ring.iter().map(|&(from, to, bytes)| (from, to, share(bytes)));
        let piece = piece.filter(|pair| pair.2 > 0).collect();
        self.sent += 1;
        piece
    }

    /// How long the pieces that are left take at least, if they hold up a sum that began later.
    pub fn holds_up(&self, other: &Sums) -> Option<Time> {
        let left = self.pieces - self.sent;
        (left > 0 && !self.servers.is_disjoint(&other.servers)).then(|| self.each * left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_fabric::{Cluster, PlanesSpec, build};
    use lightloom_units::BitRate;
    use lightloom_workload::collective::hierarchical;

    #[test]
    fn pieces_add_up_to_the_ring() {
        let rate = BitRate::from_gbps(400);
        let spec = PlanesSpec::new(rate, Time::from_us(1));
        let fabric = build(&Cluster::of(16, 4), &spec.into(), 1, &[]).expect("a valid fabric");
        for bytes in [1, 3, 1_000_003, 80_000_000, 1_600_000_007] {
            for dark in [0, 20, 200, 10_000] {
                let timing = Planes {
                    planes: 4,
                    rate_bps: rate,
                    reconfiguration_ps: Time::from_us(dark),
                    latency_ps: Time::from_us(12),
                };
                let plan = hierarchical(&[(0..16).collect()], bytes, 4);
                let mut sum = Sums::new(TaskId(0), &plan, Time::ZERO, &timing, &fabric);
                let mut sent: BTreeMap<(u32, u32), u64> = BTreeMap::new();
                for _ in 0..sum.pieces {
                    let piece = sum.next();
                    assert!(!piece.is_empty());
                    piece
                        .iter()
                        .for_each(|&(a, b, bytes)| *sent.entry((a, b)).or_default() += bytes);
                }
                let ring = plan.ring.iter().map(|&(a, b, bytes)| ((a, b), bytes));
                assert_eq!(sent, ring.collect(), "{bytes} bytes, {dark} us");
                assert!(sum.pieces <= 1 || sum.each >= Time::from_us(LASTS * (dark + 12)));
            }
        }
    }
}
