//! How fast any schedule of an all-to-all from dark planes can be.

use super::demand::Demand;
use crate::problem::Planes;
use lightloom_units::{Bytes, Time};

/// No schedule completes before, however planes switch.
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

/// No schedule completes before in which every switch of a plane sets all its ports; never less than
/// [`bound`].
///
/// Between two switches a plane carries a matching, which takes a reconfiguration, a latency and its
/// longest piece. There are at least as many matchings as any line has entries, and the pieces of a
/// line are in different matchings: so with M of them the longest pieces sum to the fullest line at
/// least, and, where a line of g entries can be cut M - g times only, the i-th longest is as long as
/// its (i + M - g)-th entry. All of this is work for k planes, at whichever M it is least.
pub fn whole_bound(planes: &Planes, demand: &Demand) -> Time {
    let n = demand.nodes() as usize;
    let once = planes.reconfiguration_ps + planes.latency_ps;
    let mut lines = vec![Vec::new(); 2 * n];
    for (from, to, bytes) in demand.entries() {
        lines[from as usize].push(bytes);
        lines[n + to as usize].push(bytes);
    }
    lines.iter_mut().for_each(|line| line.sort_unstable_by(|a, b| b.cmp(a)));
    let fullest: u64 = lines.iter().map(|line| line.iter().sum()).max().unwrap_or(0);
    let most = lines.iter().map(Vec::len).max().unwrap_or(0);
    let mut least = Time::MAX;
    for matchings in most.. {
        let longest = |i: usize| {
            let of = |line: &Vec<u64>| line.get(i + matchings - line.len()).copied().unwrap_or(0);
            lines.iter().map(of).max().unwrap_or(0)
        };
        let pieces: u64 = (0..matchings).map(longest).sum();
        let taken = planes.rate_bps.time_for(Bytes::new(pieces.max(fullest)));
        least = least.min(taken.saturating_add(once * matchings as u64));
        // More matchings only cost more.
        if pieces <= fullest {
            break;
        }
    }
    bound(planes, demand).max(Time::from_ps(least.ps().div_ceil(u64::from(planes.planes))))
}
