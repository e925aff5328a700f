//! What is kept of a run's flows: a histogram of completion times for each kind of task, so that
//! percentiles of millions of flows cost a few kilobytes. Also how far a run has come.

use crate::sender::{AllToAll, Demand};
use lightloom_engine::{Observer, TaskId};
use lightloom_units::{Bytes, Time};
use lightloom_workload::{Comm, TaskGraph, TaskKind};

/// Buckets a power of two: a percentile is off by at most 1/64 of its value.
const STEPS: u64 = 64;

/// A histogram of times with buckets of equal relative width.
///
/// ```
/// use lightloom_sim::Histogram;
/// use lightloom_units::Time;
/// let mut histogram = Histogram::default();
/// (1..=100).for_each(|us| histogram.add(Time::from_us(us)));
/// let median = histogram.percentile(0.5).as_secs_f64();
/// assert!((median / 50e-6 - 1.0).abs() < 1.0 / 64.0);
/// assert_eq!(histogram.max(), Time::from_us(100));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: Time,
}

impl Histogram {
    /// Adds one time.
    pub fn add(&mut self, time: Time) {
        let at = bucket(time.ps());
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.count += 1;
        self.max = self.max.max(time);
    }
    /// How many times were added.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The longest.
    pub fn max(&self) -> Time {
        self.max
    }
    /// The time that a share of all does not exceed (rounded up to its bucket's end, at most the
    /// longest); zero if there are none.
    pub fn percentile(&self, share: f64) -> Time {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Time::from_ps(last_of(at)).min(self.max);
            }
        }
        Time::ZERO
    }
}

fn bucket(ps: u64) -> usize {
    if ps < STEPS {
        return ps as usize;
    }
    let power = ps.ilog2() - STEPS.ilog2();
    (u64::from(power) * STEPS + (ps >> power)) as usize
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let power = bucket / STEPS - 1;
    let step = bucket - power * STEPS;
    ((step + 1) << power) - 1
}

/// Asked now and then with the share of the run that is done; `false` stops the run.
pub type Progress<'a> = dyn FnMut(f64) -> bool + 'a;

/// How far an engine of packets has come: by bytes, for its work is in them, and between arrivals
/// by the pace so far, as one transfer may be most of a run.
#[derive(Clone, Debug, Default)]
struct Pace {
    /// What the run sends, about.
    all: f64,
    arrived: f64,
    checks: f64,
    /// `checks` when something arrived last.
    heard: f64,
    share: f64,
}

/// What a check is taken to have carried while nothing has arrived \[B\]: about a hundred thousand
/// packets of some kilobytes, over some links.
const FIRST_PACE: f64 = 64e6;

impl Pace {
    fn arrived(&mut self, bytes: u64) {
        self.arrived += bytes as f64;
        self.heard = self.checks;
    }
    /// The share at one more check; never less than before, never all.
    fn check(&mut self) -> f64 {
        self.checks += 1.0;
        let left = (self.all - self.arrived).max(0.0);
        let pace = if self.heard > 0.0 { self.arrived / self.heard } else { FIRST_PACE };
        let ahead = pace * (self.checks - self.heard);
        // What is left is approached, not passed, however long nothing arrives.
        let under_way = if left > 0.0 { left * (1.0 - (-ahead / left).exp()) } else { 0.0 };
        let share = (self.arrived + under_way) / self.all.max(self.arrived).max(1.0);
        self.share = self.share.max(share.min(0.999));
        self.share
    }
}

/// Flow statistics by kind of task.
pub(crate) struct Recorder<'a> {
    pub kinds: &'a [TaskKind],
    pub histograms: Vec<Histogram>,
    pub bytes: Vec<u64>,
    pub progress: &'a mut Progress<'a>,
    /// Where bytes, not tasks, are the work; and what each task is still to send, about: what goes
    /// over several links in turn counts once.
    pace: Option<Pace>,
    left: Vec<u64>,
}

impl<'a> Recorder<'a> {
    pub fn new(kinds: &'a [TaskKind], progress: &'a mut Progress<'a>) -> Self {
        let all = TaskKind::Optimizer as usize + 1;
        Recorder {
            kinds,
            histograms: vec![Histogram::default(); all],
            bytes: vec![0; all],
            progress,
            pace: None,
            left: Vec::new(),
        }
    }

    /// Tells progress by bytes, of so many for each task.
    pub fn by_bytes(mut self, left: Vec<u64>) -> Self {
        let all: u64 = left.iter().sum();
        self.pace = Some(Pace { all: all as f64, ..Pace::default() });
        self.left = left;
        self
    }
}

impl Observer for Recorder<'_> {
    fn flow_finished(&mut self, task: TaskId, bytes: Bytes, start: Time, end: Time) {
        let kind = self.kinds[task.0 as usize] as usize;
        self.histograms[kind].add(end - start);
        self.bytes[kind] += bytes.get();
        if let Some(pace) = &mut self.pace {
            let left = &mut self.left[task.0 as usize];
            let counted = bytes.get().min(*left);
            *left -= counted;
            pace.arrived(counted);
        }
    }
    fn keep_going(&mut self, finished: usize, tasks: usize, _: Time) -> bool {
        let share = match &mut self.pace {
            Some(pace) => pace.check(),
            None => finished as f64 / tasks.max(1) as f64,
        };
        (self.progress)(share)
    }
}

/// About what each task of an iteration sends over links \[B\].
pub(crate) fn bytes_of(graph: &TaskGraph, demand: &Demand<'_>, per_server: u32) -> Vec<u64> {
    let placement = demand.placement;
    let of = |comm: &Comm| match *comm {
        Comm::AllToAll { block, matrix, transposed, bytes_per_token } => {
            let mut sum = 0;
            let a2a = AllToAll { block, matrix, transposed, bytes_per_token };
            demand.for_each(a2a, |_, _, bytes| sum += bytes);
            sum
        }
        Comm::Send { from, bytes_per_gpu, .. } => {
            placement.block_gpus(from).len() as u64 * bytes_per_gpu
        }
        Comm::AllReduce { stage, scope, bytes_per_gpu } => placement
            .gradient_groups(stage, scope)
            .iter()
            .map(|group| 2 * (group.len() as u64).saturating_sub(1) * bytes_per_gpu)
            .sum(),
        Comm::Collective { block, over, bytes_per_gpu, .. } => {
            let groups = placement.axis_groups(block, over);
            let inside = |group: &Vec<u32>| {
                group.iter().all(|gpu| gpu / per_server == group[0] / per_server)
            };
            match groups.iter().all(inside) {
                true => 0, // in closed form
                false => groups.iter().map(|group| group.len() as u64 * bytes_per_gpu).sum(),
            }
        }
    };
    let comms: Vec<u64> = graph.comms.iter().map(of).collect();
    graph.comm.iter().map(|&comm| comms.get(comm as usize).copied().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_moves_within_one_long_flow_and_only_forward() {
        let mut pace = Pace { all: 1e12, ..Pace::default() };
        let mut last = 0.0;
        for check in 0..1_000 {
            if check == 500 {
                pace.arrived(600_000_000_000);
            }
            let share = pace.check();
            assert!(share > last && share < 1.0, "{share} after {last}");
            last = share;
        }
        pace.arrived(600_000_000_000);
        assert_eq!(pace.check(), 0.999);
    }

    #[test]
    fn buckets_are_in_order_and_narrow() {
        for ps in (0..5_000).chain((1..40).map(|p| (1 << p) - 1)).chain((1..40).map(|p| 1 << p)) {
            let at = bucket(ps);
            assert!(last_of(at) >= ps);
            assert!(last_of(at) - ps <= ps / STEPS, "{ps}");
            assert!(bucket(ps + 1) == at || bucket(ps + 1) == at + 1);
            assert_eq!(bucket(last_of(at)), at);
            assert_eq!(bucket(last_of(at) + 1), at + 1);
        }
    }
}
