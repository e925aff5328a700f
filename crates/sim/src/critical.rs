//! Where an iteration's time goes: the critical path, split by cause.
//!
//! A task starts the moment its last predecessor ends, so the chain of causes from the last task
//! back to the first covers the iteration without a gap, and its parts add up to it exactly.

use lightloom_engine::Outcome;
use lightloom_units::Time;
use lightloom_workload::{TaskGraph, TaskKind};

/// The iteration's time by cause; the parts add up to the makespan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// GPUs at work.
    pub compute: Time,
    /// All-to-alls that nothing hides.
    pub all_to_all: Time,
    /// Other communication that nothing hides: pipeline, tensor and data parallelism. Also what GPUs wait
    /// for a checkpoint.
    pub other: Time,
    /// All-to-alls held up by circuits that are dark.
    pub reconfiguration: Time,
}

/// Splits the critical path; also gives each task's share of it.
pub fn attribute(graph: &TaskGraph, outcome: &Outcome) -> (Breakdown, Vec<Time>) {
    let mut split = Breakdown::default();
    let mut share = vec![Time::ZERO; graph.len()];
    for task in outcome.critical_path() {
        let at = task as usize;
        let took = outcome.end[at] - outcome.start[at];
        share[at] = took;
        match graph.kind[at] {
            TaskKind::Dispatch | TaskKind::Combine => {
                let waited = outcome.waited[at].min(took);
                split.reconfiguration += waited;
                split.all_to_all += took - waited;
            }
            kind if kind.is_compute() => {
                let waited = outcome.waited[at].min(took);
                split.other += waited;
                split.compute += took - waited;
            }
            _ => split.other += took,
        }
    }
    (split, share)
}
