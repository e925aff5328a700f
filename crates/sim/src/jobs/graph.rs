//! A job's iterations as one task graph, and the graphs of several jobs side by side as one.
//!
//! Modelled: an iteration begins when all tasks of the one before have ended; the first one at its
//! job's start. Every iteration sends the same tokens. Transfers have numbers of their own, so that a
//! hash picks other paths in each iteration.
//! Ignored: whatever a framework does between iterations.
//! Checked: the longest path is start plus iterations times that of one; edges stay within a job.

use lightloom_engine::Tasks;
use lightloom_units::Time;
use lightloom_workload::{Csr, NO_COMM, Pass, TaskGraph, TaskKind};
use std::ops::Range;

/// Tasks and edges of all jobs, at most: their numbers fit 32 bits.
const MOST: u64 = 1 << 31;
/// Of a task that belongs to no block.
const NO_BLOCK: u32 = u32::MAX;

/// A job's iterations.
pub(super) struct Repeated {
    pub graph: TaskGraph,
    pub start: Time,
    /// By iteration: the task that ends it.
    pub ends: Vec<u32>,
}

impl Repeated {
    /// So many iterations; none if they have too many tasks.
    pub fn new(one: &TaskGraph, start: Time, iterations: u32) -> Option<Self> {
        let (tasks, comms) = (one.len() as u32, one.comms.len() as u32);
        let edges = one.successors.targets.len() as u64 + 2 * u64::from(tasks) + 2;
        edges.checked_mul(u64::from(iterations)).filter(|&edges| edges < MOST)?;
        let waits = start > Time::ZERO;
        let roots: Vec<u32> =
            (0..tasks).filter(|&task| one.predecessors_count[task as usize] == 0).collect();
        let sinks = (0..tasks).filter(|&task| one.successors.row(task).is_empty()).count() as u32;
        let mut graph = TaskGraph {
            messages: one.messages.clone(),
            successors: Csr { offsets: vec![0], targets: vec![] },
            overlaps: one.overlaps,
            ..TaskGraph::default()
        };
        let mut ends = Vec::with_capacity(iterations as usize);
        for iteration in 0..iterations {
            let first = graph.len() as u32;
            copy(one, iteration * comms, &mut graph);
            let behind = iteration > 0 || waits;
            let waiting = one.predecessors_count.iter().map(|&count| match count {
                0 => u32::from(behind),
                count => count,
            });
            graph.predecessors_count.extend(waiting);
            let end = first + tasks;
            for task in 0..tasks {
                let row = one.successors.row(task);
                match row.is_empty() {
                    true => graph.successors.targets.push(end),
                    false => graph.successors.targets.extend(row.iter().map(|after| first + after)),
                }
                graph.successors.offsets.push(graph.successors.targets.len() as u32);
            }
            let next = if iteration + 1 < iterations { roots.as_slice() } else { &[] };
            wait(&mut graph, Time::ZERO, sinks, next.iter().map(|root| end + 1 + root));
            ends.push(end);
        }
        if waits {
            wait(&mut graph, start, 0, roots.iter().copied());
        }
        Some(Repeated { graph, start, ends })
    }
}

/// Appends an iteration's tasks, but for their edges.
fn copy(one: &TaskGraph, first_comm: u32, graph: &mut TaskGraph) {
    graph.kind.extend(&one.kind);
    graph.pass.extend(&one.pass);
    graph.replica.extend(&one.replica);
    graph.stage.extend(&one.stage);
    graph.layer.extend(&one.layer);
    graph.micro_batch.extend(&one.micro_batch);
    graph.duration.extend(&one.duration);
    graph.comm.extend(one.comm.iter().map(|&comm| match comm {
        NO_COMM => NO_COMM,
        comm => first_comm + comm,
    }));
    graph.comms.extend(&one.comms);
}

/// Appends a task that only takes time, between iterations or before the first.
fn wait(graph: &mut TaskGraph, time: Time, before: u32, after: impl Iterator<Item = u32>) {
    graph.kind.push(TaskKind::Optimizer);
    graph.pass.push(Pass::None);
    graph.replica.push(NO_BLOCK);
    graph.stage.push(NO_BLOCK);
    graph.layer.push(-1);
    graph.micro_batch.push(-1);
    graph.duration.push(time);
    graph.comm.push(NO_COMM);
    graph.predecessors_count.push(before);
    graph.successors.targets.extend(after);
    graph.successors.offsets.push(graph.successors.targets.len() as u32);
}

/// The graphs of all jobs, as an engine sees them.
#[derive(Default)]
pub(super) struct Merged {
    duration: Vec<Time>,
    transfer: Vec<u32>,
    offsets: Vec<u32>,
    targets: Vec<u32>,
    predecessors: Vec<u32>,
    /// By job: its first task, and its first transfer.
    first: Vec<(u32, u32)>,
}

impl Merged {
    /// None if there are too many tasks.
    pub fn new(jobs: &[Repeated]) -> Option<Self> {
        let edges = |job: &Repeated| job.graph.successors.targets.len() + job.graph.len();
        let all: u64 = jobs.iter().map(|job| edges(job) as u64).sum();
        if all >= MOST {
            return None;
        }
        let mut merged = Merged { offsets: vec![0], ..Merged::default() };
        let mut transfers = 0;
        for Repeated { graph, .. } in jobs {
            let (task, edge) = (merged.duration.len() as u32, merged.targets.len() as u32);
            merged.first.push((task, transfers));
            merged.duration.extend(&graph.duration);
            let own = |&comm: &u32| if comm == NO_COMM { NO_COMM } else { transfers + comm };
            merged.transfer.extend(graph.comm.iter().map(own));
            merged.offsets.extend(graph.successors.offsets[1..].iter().map(|at| edge + at));
            merged.targets.extend(graph.successors.targets.iter().map(|after| task + after));
            merged.predecessors.extend(&graph.predecessors_count);
            transfers += graph.comms.len() as u32;
        }
        Some(merged)
    }

    pub fn tasks(&self) -> Tasks<'_> {
        Tasks {
            duration: &self.duration,
            transfer: &self.transfer,
            offsets: &self.offsets,
            targets: &self.targets,
            predecessors: &self.predecessors,
        }
    }

    /// Whose a task is, and its first task and transfer.
    pub fn owner(&self, task: u32) -> (usize, u32, u32) {
        let job = self.first.partition_point(|&(first, _)| first <= task) - 1;
        (job, self.first[job].0, self.first[job].1)
    }

    /// The tasks of a job.
    pub fn tasks_of(&self, job: usize) -> Range<usize> {
        let end = self.first.get(job + 1).map_or(self.duration.len(), |&(first, _)| first as usize);
        self.first[job].0 as usize..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_workload::{Gating, build, example};

    fn one() -> TaskGraph {
        let mut job = example::mixtral_8x7b();
        job.parallelism.dp = 1;
        (job.model.layers, job.training.micro_batches) = (4, 2);
        let gating = Gating::uniform(&job.model, &job.parallelism, &job.training).expect("fits");
        build(&job, &gating).expect("a job")
    }

    #[test]
    fn iterations_follow_one_another() {
        let (one, network) = (one(), |_| Time::from_us(7));
        let alone = one.longest_path(network).expect("no circle");
        for (start, iterations) in [(0, 1), (0, 3), (5, 1), (5, 4)] {
            let start = Time::from_ms(start);
            let all = Repeated::new(&one, start, iterations).expect("few tasks");
            let wanted = start + alone * u64::from(iterations);
            assert_eq!(all.graph.longest_path(network), Some(wanted));
            assert_eq!(all.ends.len() as u32, iterations);
            assert_eq!(all.graph.comms.len(), one.comms.len() * iterations as usize);
        }
        assert!(Repeated::new(&one, Time::ZERO, u32::MAX).is_none());
    }

    #[test]
    fn no_edge_leaves_a_job() {
        let one = one();
        let starts = [0, 5, 0].map(Time::from_ms);
        let jobs: Vec<_> = starts
            .iter()
            .zip([1, 2, 3])
            .filter_map(|(&start, iterations)| Repeated::new(&one, start, iterations))
            .collect();
        let merged = Merged::new(&jobs).expect("few tasks");
        let tasks = merged.tasks();
        assert_eq!(tasks.len(), jobs.iter().map(|job| job.graph.len()).sum::<usize>());
        for (number, job) in jobs.iter().enumerate() {
            let range = merged.tasks_of(number);
            for (own, task) in range.clone().enumerate() {
                let (owner, first, first_transfer) = merged.owner(task as u32);
                assert_eq!((owner, first as usize), (number, range.start));
                let row = job.graph.successors.row(own as u32);
                let after: Vec<u32> = row.iter().map(|after| after + first).collect();
                assert_eq!(tasks.successors(task as u32), after);
                let comm = job.graph.comm[own];
                let transfer = if comm == NO_COMM { NO_COMM } else { comm + first_transfer };
                assert_eq!(tasks.transfer[task], transfer);
            }
        }
    }
}
