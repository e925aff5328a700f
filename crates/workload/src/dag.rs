//! The task graph, in columns: what each block computes and sends, and what must come before.
//!
//! Modelled: one task a block (its GPUs advance together, at the pace of the slowest) or one a
//! stage (gradient sums); an edge means that the target starts after the source has ended.
//! Ignored: everything about time but the durations of compute tasks; engines time the rest.
//! Checked: a random list of edges against a naive adjacency list, cycles are found.

use crate::gating::MatrixId;
use crate::parallelism::{Axis, BlockId, Scope};
use crate::pipeline::Pass;
use lightloom_units::Time;

/// What a task does. A backward task carries the name of the forward task that it undoes: the
/// backward of `Combine` moves gradients from the tokens' owners to the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TaskKind {
    /// Attention with its norm and residual.
    Attention,
    /// Norm, router and the permutation of tokens.
    Gate,
    /// All-to-all from tokens' owners to experts (backward: the other way).
    Dispatch,
    /// Routed experts and shared experts.
    Expert,
    /// All-to-all from experts to tokens' owners (backward: the other way).
    Combine,
    /// The MLP of a dense layer.
    DenseMlp,
    /// All-gather and reduce-scatter of tensor (and sequence) parallelism.
    TensorParallel,
    /// Ring exchange of keys and values of context parallelism.
    ContextParallel,
    /// Activations, or their gradients, to the neighbouring pipeline stage.
    PipelineSend,
    /// Sum of gradients of everything but routed experts.
    DenseGradient,
    /// Sum of gradients of routed experts.
    ExpertGradient,
    /// Messages of a collective that is run by itself.
    Exchange,
    /// Input embedding.
    Embedding,
    /// Final norm, logits and loss.
    Head,
    /// Optimizer step.
    Optimizer,
}

/// What a communication task moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comm {
    /// In each EP group of the block ([`crate::Placement::exchange_place`]) the GPU of rank i sends
    /// `tokens[i][j] * bytes_per_token` bytes to that of rank j, or `tokens[j][i]` of them where `transposed`.
    /// The GPU's own share (i = j) is in the matrix and needs no network.
    AllToAll {
        /// The block whose EP groups exchange tokens.
        block: BlockId,
        /// The token counts, [`crate::Gating::matrix`].
        matrix: MatrixId,
        /// Whether the tokens travel back.
        transposed: bool,
        /// Bytes of one token on one GPU: hidden * bytes per element / GPUs that share an EP rank's tokens.
        bytes_per_token: u64,
    },
    /// GPU n of one block sends to GPU n of another.
    Send {
        /// The sending block.
        from: BlockId,
        /// The receiving block.
        to: BlockId,
        /// Bytes that each GPU sends.
        bytes_per_gpu: u64,
    },
    /// Sum over each of `Placement::gradient_groups(stage, scope)`.
    AllReduce {
        /// The pipeline stage.
        stage: u32,
        /// Whether experts' gradients or all others.
        scope: Scope,
        /// The buffer that each member holds.
        bytes_per_gpu: u64,
    },
    /// Ring traffic over each of `Placement::axis_groups(block, over)`.
    Collective {
        /// The block whose ranks take part.
        block: BlockId,
        /// Along which dimension.
        over: Axis,
        /// What every member sends to its successor in the ring, in all.
        bytes_per_gpu: u64,
        /// In how many steps.
        steps: u32,
    },
    /// Messages from GPU to GPU, all at once: `TaskGraph::messages[first..end]`.
    Exchange {
        /// The first message.
        first: u32,
        /// Behind the last one.
        end: u32,
        /// How many steps that follow one another each message stands for.
        steps: u32,
    },
}

/// What one GPU sends another: (from, to, bytes).
pub type Message = (u32, u32, u64);

/// In [`TaskGraph::comm`]: the task computes.
pub const NO_COMM: u32 = u32::MAX;

/// The tasks of one training iteration, one entry a task in each column.
///
/// Tasks that belong to a whole stage (gradient sums) carry replica 0. Ids follow each block's
/// order but are not a topological order across blocks; see [`TaskGraph::topological_order`].
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    /// What the task does.
    pub kind: Vec<TaskKind>,
    /// In which pass.
    pub pass: Vec<Pass>,
    /// Data-parallel replica; 0 for gradient sums, which span all of them.
    pub replica: Vec<u32>,
    /// Pipeline stage; of a send, the sender's.
    pub stage: Vec<u32>,
    /// Layer of the model, or -1.
    pub layer: Vec<i32>,
    /// Micro-batch, or -1.
    pub micro_batch: Vec<i32>,
    /// Time of a compute task; zero for communication, which an engine times.
    pub duration: Vec<Time>,
    /// Index into `comms`, or [`NO_COMM`].
    pub comm: Vec<u32>,
    /// What communication tasks move.
    pub comms: Vec<Comm>,
    /// What the [`Comm::Exchange`]s send.
    pub messages: Vec<Message>,
    /// For each task, the tasks that wait for it.
    pub successors: Csr,
    /// For each task, how many tasks it waits for.
    pub predecessors_count: Vec<u32>,
    /// Whether micro-batches pass a block two at a time, so that its all-to-alls run beside its own
    /// computation. They are one after the other all the same.
    pub overlaps: bool,
}

/// Lists of task ids, one list a task, in compressed rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Csr {
    /// Row i is `targets[offsets[i]..offsets[i + 1]]`.
    pub offsets: Vec<u32>,
    /// All rows, one after the other.
    pub targets: Vec<u32>,
}

/// Builds a graph: tasks first, edges in any order.
#[derive(Default)]
pub(crate) struct GraphBuilder {
    graph: TaskGraph,
    edges: Vec<(u32, u32)>,
}

/// A task about to be added.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pub kind: TaskKind,
    pub pass: Pass,
    pub block: BlockId,
    pub layer: i32,
    pub micro_batch: i32,
    pub action: Action,
}

impl Task {
    /// A transfer that belongs to no layer: of a collective that is run by itself.
    pub fn alone(kind: TaskKind, comm: Comm) -> Self {
        let (pass, block) = (Pass::Forward, BlockId { replica: 0, stage: 0 });
        Task { kind, pass, block, layer: -1, micro_batch: 0, action: Action::Communicate(comm) }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Action {
    Compute(Time),
    Communicate(Comm),
}

impl TaskKind {
    /// The name in result tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            TaskKind::Attention => "attention",
            TaskKind::Gate => "gate",
            TaskKind::Dispatch => "dispatch",
            TaskKind::Expert => "expert",
            TaskKind::Combine => "combine",
            TaskKind::DenseMlp => "dense_mlp",
            TaskKind::TensorParallel => "tp",
            TaskKind::ContextParallel => "cp",
            TaskKind::PipelineSend => "pp_send",
            TaskKind::DenseGradient => "dp_dense",
            TaskKind::ExpertGradient => "dp_expert",
            TaskKind::Exchange => "exchange",
            TaskKind::Embedding => "embedding",
            TaskKind::Head => "head",
            TaskKind::Optimizer => "optimizer",
        }
    }

    /// Whether the task occupies GPUs rather than the network.
    pub const fn is_compute(self) -> bool {
        matches!(
            self,
            TaskKind::Attention
                | TaskKind::Gate
                | TaskKind::Expert
                | TaskKind::DenseMlp
                | TaskKind::Embedding
                | TaskKind::Head
                | TaskKind::Optimizer
        )
    }
}

impl Csr {
    /// The list of `row`.
    pub fn row(&self, row: u32) -> &[u32] {
        let row = row as usize;
        &self.targets[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

impl TaskGraph {
    /// The number of tasks.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// What a task moves, if it communicates.
    pub fn communication(&self, task: u32) -> Option<&Comm> {
        self.comms.get(self.comm[task as usize] as usize)
    }

    /// Every task after all that it waits for; among ready tasks, in the order in which they
    /// became ready. `None` if there is a cycle, which [`crate::build`] never makes.
    pub fn topological_order(&self) -> Option<Vec<u32>> {
        let mut waiting = self.predecessors_count.clone();
        let mut order: Vec<u32> =
            (0..self.len() as u32).filter(|&task| waiting[task as usize] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            for &after in self.successors.row(order[next]) {
                waiting[after as usize] -= 1;
                if waiting[after as usize] == 0 {
                    order.push(after);
                }
            }
            next += 1;
        }
        (order.len() == self.len()).then_some(order)
    }

    /// The length of the longest path if the communication task `t` took `network(t)`: the
    /// iteration time on a network where transfers do not meet. An oracle for engines.
    ///
    /// ```
    /// # use lightloom_workload::TaskGraph;
    /// # use lightloom_units::Time;
    /// assert_eq!(TaskGraph::default().longest_path(|_| Time::from_us(1)), Some(Time::ZERO));
    /// ```
    pub fn longest_path(&self, network: impl Fn(u32) -> Time) -> Option<Time> {
        let mut start = vec![Time::ZERO; self.len()];
        let mut last = Time::ZERO;
        for task in self.topological_order()? {
            let time = match self.communication(task) {
                Some(_) => network(task),
                None => self.duration[task as usize],
            };
            let end = start[task as usize].saturating_add(time);
            last = last.max(end);
            for &after in self.successors.row(task) {
                start[after as usize] = start[after as usize].max(end);
            }
        }
        Some(last)
    }
}

impl GraphBuilder {
    /// Makes room for so many tasks.
    pub fn reserve(&mut self, tasks: usize) {
        let graph = &mut self.graph;
        graph.kind.reserve(tasks);
        graph.pass.reserve(tasks);
        graph.replica.reserve(tasks);
        graph.stage.reserve(tasks);
        graph.layer.reserve(tasks);
        graph.micro_batch.reserve(tasks);
        graph.duration.reserve(tasks);
        graph.comm.reserve(tasks);
        self.edges.reserve(tasks + tasks / 8);
    }

    /// Adds a task and returns its id.
    pub fn task(&mut self, task: Task) -> u32 {
        let graph = &mut self.graph;
        let id = graph.kind.len() as u32;
        graph.kind.push(task.kind);
        graph.pass.push(task.pass);
        graph.replica.push(task.block.replica);
        graph.stage.push(task.block.stage);
        graph.layer.push(task.layer);
        graph.micro_batch.push(task.micro_batch);
        match task.action {
            Action::Compute(time) => {
                graph.duration.push(time);
                graph.comm.push(NO_COMM);
            }
            Action::Communicate(comm) => {
                graph.duration.push(Time::ZERO);
                graph.comm.push(graph.comms.len() as u32);
                graph.comms.push(comm);
            }
        }
        id
    }

    /// Adds a task that sends `messages`, each in so many steps.
    pub fn exchange(&mut self, messages: impl IntoIterator<Item = Message>, steps: u32) -> u32 {
        let sent = &mut self.graph.messages;
        let first = sent.len() as u32;
        sent.extend(messages);
        let comm = Comm::Exchange { first, end: sent.len() as u32, steps };
        self.task(Task::alone(TaskKind::Exchange, comm))
    }

    /// What a task does that has been added.
    pub fn kind(&self, task: u32) -> TaskKind {
        self.graph.kind[task as usize]
    }

    /// `after` starts when `before` has ended.
    pub fn edge(&mut self, before: u32, after: u32) {
        self.edges.push((before, after));
    }

    /// Sorts the edges into rows; within a row they keep the order in which they came.
    pub fn finish(mut self) -> TaskGraph {
        let tasks = self.graph.len();
        let mut offsets = vec![0u32; tasks + 1];
        let mut predecessors_count = vec![0u32; tasks];
        for &(before, after) in &self.edges {
            offsets[before as usize + 1] += 1;
            predecessors_count[after as usize] += 1;
        }
        for row in 0..tasks {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut targets = vec![0u32; self.edges.len()];
        for &(before, after) in &self.edges {
            targets[next[before as usize] as usize] = after;
            next[before as usize] += 1;
        }
        self.graph.successors = Csr { offsets, targets };
        self.graph.predecessors_count = predecessors_count;
        self.graph
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph(durations_ps: &[u64], edges: &[(u32, u32)]) -> TaskGraph {
        let mut builder = GraphBuilder::default();
        for &ps in durations_ps {
            builder.task(Task {
                kind: TaskKind::Attention,
                pass: Pass::Forward,
                block: BlockId { replica: 0, stage: 0 },
                layer: 0,
                micro_batch: 0,
                action: Action::Compute(Time::from_ps(ps)),
            });
        }
        for &(before, after) in edges {
            builder.edge(before, after);
        }
        builder.finish()
    }

    #[test]
    fn a_cycle_has_no_order() {
        assert_eq!(graph(&[1, 1], &[(0, 1), (1, 0)]).topological_order(), None);
        assert_eq!(graph(&[1], &[(0, 0)]).longest_path(|_| Time::ZERO), None);
    }

    proptest! {
        #[test]
        fn rows_hold_the_edges_and_the_longest_path_is_the_naive_one(
            durations in prop::collection::vec(0u64..100, 1..12),
            pairs in prop::collection::vec((0u32..12, 0u32..12), 0..40),
        ) {
            let tasks = durations.len() as u32;
            let edges: Vec<(u32, u32)> = pairs
                .into_iter()
                .map(|(a, b)| (a % tasks, b % tasks))
                .filter(|(a, b)| a < b)
                .collect();
            let graph = graph(&durations, &edges);
            for task in 0..tasks {
                let row: Vec<u32> =
                    edges.iter().filter(|e| e.0 == task).map(|e| e.1).collect();
                prop_assert_eq!(graph.successors.row(task), row);
                let before = edges.iter().filter(|e| e.1 == task).count();
                prop_assert_eq!(graph.predecessors_count[task as usize] as usize, before);
            }
            fn from(task: u32, durations: &[u64], edges: &[(u32, u32)]) -> u64 {
                let rest = edges.iter().filter(|e| e.0 == task);
                let rest = rest.map(|e| from(e.1, durations, edges)).max().unwrap_or(0);
                durations[task as usize] + rest
            }
            let naive = (0..tasks).map(|task| from(task, &durations, &edges)).max().unwrap_or(0);
            prop_assert_eq!(graph.longest_path(|_| Time::ZERO), Some(Time::from_ps(naive)));
        }
    }
}
