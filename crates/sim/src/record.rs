//! What is kept of a run's flows: a histogram of completion times for each kind of task, so that
//! percentiles of millions of flows cost a few kilobytes. Progress is reported from here.

use crate::pace::Pace;
use lightloom_engine::{Observer, TaskId};
use lightloom_units::{Bytes, Time};
use lightloom_workload::TaskKind;

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
    /// The longest of all recorded times.
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

/// Tells progress by tasks, and keeps nothing.
pub(crate) struct Watch<'a>(pub &'a mut Progress<'a>);

impl Observer for Watch<'_> {
    fn keep_going(&mut self, finished: usize, tasks: usize, _: Time) -> bool {
        (self.0)(finished as f64 / tasks.max(1) as f64)
    }
}

/// Flow statistics by kind of task.
pub(crate) struct Recorder<'a> {
    pub kinds: &'a [TaskKind],
    pub histograms: Vec<Histogram>,
    pub bytes: Vec<u64>,
    pub progress: &'a mut Progress<'a>,
    /// Where packets, not tasks, are the work.
    pace: Option<Pace<'a>>,
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
        }
    }

    /// Tells progress by packets.
    pub fn by_packets(mut self, pace: Pace<'a>) -> Self {
        self.pace = Some(pace);
        self
    }
}

impl Observer for Recorder<'_> {
    fn flow_finished(&mut self, task: TaskId, bytes: Bytes, start: Time, end: Time) {
        let kind = self.kinds[task.0 as usize] as usize;
        self.histograms[kind].add(end - start);
        self.bytes[kind] += bytes.get();
        if let Some(pace) = &mut self.pace {
            pace.arrived(task, bytes.get());
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

#[cfg(test)]
mod tests {
    use super::*;

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
