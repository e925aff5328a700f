//! How fast any schedule of an all-to-all from dark planes can be.

use super::demand::Demand;
use crate::problem::Planes;
use lightloom_units::{Bytes, Time};

/// No schedule completes before.
///
/// Of every line (what a node sends, or receives) two things hold. Its k ports together are taken for
/// each entry's bytes, and for a reconfiguration and a latency at least once per entry, so one of
/// them for a k-th of it. And each of its ports carries nothing before it has been set and the
/// latency has passed, so the line's bytes take a k-th of their time after that. An entry alone is a
/// line of one.
pub fn bound(planes: &Planes, demand: &Demand) -> Time {
    let n = demand.nodes() as usize;
    let k = u64::from(planes.planes);
    let once = planes.reconfiguration_ps + planes.latency_ps;
    let mut lines = vec![(0u64, 0u64); 2 * n];
    for (from, to, bytes) in demand.entries() {
        for line in [from as usize, n + to as usize] {
            lines[line].0 += bytes;
            lines[line].1 += 1;
        }
    }
    let of_line = |(bytes, entries): (u64, u64)| {
        if entries == 0 {
            return Time::ZERO;
        }
        // Each piece takes whole picoseconds, so all together take no less than their sum rounded up.
        let carrying = planes.rate_bps.time_for(Bytes::new(bytes)).ps();
        let taken = carrying.saturating_add(once.ps().saturating_mul(entries)).div_ceil(k);
        Time::from_ps(taken.max(carrying.div_ceil(k).saturating_add(once.ps())))
    };
    lines.into_iter().map(of_line).max().unwrap_or(Time::ZERO)
}
