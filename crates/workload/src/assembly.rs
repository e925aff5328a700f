//! Assembles a training iteration: every layer and micro-batch of every replica and stage.
//!
//! Modelled: each block runs its pipeline's [rounds](crate::rounds) in order, one chain of tasks a slot;
//! two slots of a round share the block ([`crate::overlap`]):
//! forward attention -> tp -> gate -> dispatch -> tp -> expert -> tp -> combine (a dense layer:
//! attention -> tp -> MLP -> tp; where experts are shared by others than TP ranks, routed ones gather over these
//! and shared ones over TP, one after the other), backward in reverse; sends to neighbouring stages leave the
//! chain; gradients of a layer are summed, one sum after the other, when the last micro-batch has
//! left it on all replicas; then the optimizer. Where layers are computed anew, each one's forward chain runs again
//! before its backward one. Where nothing is trained, there is but the way
//! forward. Without a partner (EP 1, TP 1, ...) there is no task.
//! Ignored: overlap of a block's communication with its own compute
//! other than all-to-alls if asked for, sends, gradient sums and the CP ring (which runs beside
//! attention); the CP ring carries keys and values once in each pass; TP collectives after a dispatch carry the most
//! loaded rank's tokens on every rank; gradient clipping, data loading, checkpoints.
//! Checked: closed forms of the pipeline's length and of all volumes; acyclic over random shapes;
//! each (layer, micro-batch, pass, replica) once, each after what it needs.

use crate::component::Component;
use crate::dag::{Action, Comm, GraphBuilder, Task, TaskGraph, TaskKind};
use crate::error::{WorkloadError, require};
use crate::gating::Gating;
use crate::job::Job;
use crate::overlap::{Resources, Unit};
use crate::parallelism::{Axis, BlockId, Scope};
use crate::pipeline::Pass;
use crate::profile::Profile;
use crate::rounds::{Round, Step, rounds};
use crate::training::Mode;
use std::ops::Range;

mod experts;
mod weights;

/// Builds the task graph of one iteration.
///
/// ```
/// use lightloom_workload::{build, example, Gating, TaskKind};
/// let job = example::mixtral_8x7b();
/// let gating = Gating::uniform(&job.model, &job.parallelism, &job.training).unwrap();
/// let graph = build(&job, &gating).unwrap();
/// let dispatches = graph.kind.iter().filter(|&&kind| kind == TaskKind::Dispatch).count();
/// assert_eq!(dispatches, 2 * 32 * 16 * 8); // passes, layers, micro-batches, replicas
/// assert!(graph.topological_order().is_some());
/// ```
///
/// # Errors
/// If the job is invalid, if the gating was made for another job, or if times overflow.
pub fn build(job: &Job, gating: &Gating) -> Result<TaskGraph, WorkloadError> {
    let profile = job.profile()?;
    require(
        gating.fits(&job.model, &job.parallelism, &job.training),
        "gating.trace",
        format!("{} EP ranks", gating.ranks()),
        || "was fitted to another job; fit it to this one".into(),
    )?;
    let mut graph = Assembly::new(job, gating, &profile).run();
    graph.overlaps = job.overlaps();
    let busy: u128 = graph.duration.iter().map(|time| u128::from(time.ps())).sum();
    require(busy < 1 << 62, "compute.peak_flops", job.compute.peak_flops, || {
        "all compute together would last more than 53 days".into()
    })?;
    Ok(graph)
}

/// Gradients of a stage that are summed together.
struct Bucket {
    kind: TaskKind,
    layer: i32,
    /// The part of the model that has them.
    part: u32,
    bytes_per_gpu: u64,
    /// The tasks after which they are complete, one a replica.
    ready: Vec<u32>,
}

/// A send whose receiver is not built yet.
struct Arrival {
    send: u32,
    slot: usize,
}

/// The tasks with which a slot starts or ends: consecutive ids.
type Span = Range<u32>;

struct Assembly<'a> {
    job: &'a Job,
    gating: &'a Gating,
    profile: &'a Profile,
    graph: GraphBuilder,
    /// First tasks of each slot, by replica, virtual stage, micro-batch, pass.
    starts: Vec<Span>,
    arrivals: Vec<Arrival>,
}

/// The chain of one block while it is built.
struct Chain<'a, 'b> {
    all: &'b mut Assembly<'a>,
    block: BlockId,
    /// What the next task waits for.
    tail: Span,
    micro_batch: u32,
    pass: Pass,
    /// The part of the model that is run.
    part: u32,
    /// Whether gradients of weights are left for a slot of their own.
    defers: bool,
    /// Whether another slot goes through the block at once.
    beside: bool,
    /// Where all-to-alls run beside computation: the tasks of the slot being built, and the orders that
    /// the block has so far.
    units: Vec<Unit>,
    resources: Resources,
    /// First tasks of the slot being built.
    start: Option<Span>,
    buckets: &'b mut Vec<Bucket>,
    /// How many buckets this block has completed.
    completed: usize,
}

impl<'a> Assembly<'a> {
    fn new(job: &'a Job, gating: &'a Gating, profile: &'a Profile) -> Self {
        let p = &job.parallelism;
        let chunks = (p.pp * job.training.virtual_stages) as usize;
        let runs = p.dp as usize * job.training.micro_batches as usize;
        let mut graph = GraphBuilder::default();
        graph.reserve(runs * (16 * job.model.layers as usize + 4 * chunks));
        Assembly {
            job,
            gating,
            profile,
            graph,
            starts: vec![0..0; 2 * runs * chunks],
            arrivals: Vec::new(),
        }
    }

    fn run(mut self) -> TaskGraph {
        let pp = self.job.parallelism.pp;
        let copies = self.job.parameter_copies();
        // With two copies of each stage's layers, two stages sum their gradients together.
        for stage in 0..pp / copies {
            let mut buckets = Vec::new();
            let mut ends = self.stage(stage, &mut buckets);
            if copies > 1 {
                let mut others = Vec::new();
                ends.extend(self.stage(pp - 1 - stage, &mut others));
                join(&mut buckets, others);
            }
            if self.job.training.mode == Mode::Train {
                self.gradients_and_optimizer(stage, &buckets, &ends);
            }
        }
        for Arrival { send, slot } in std::mem::take(&mut self.arrivals) {
            for task in self.starts[slot].clone() {
                self.graph.edge(send, task);
            }
        }
        self.graph.finish()
    }

    /// The blocks of a stage, each with its last tasks.
    fn stage(&mut self, stage: u32, buckets: &mut Vec<Bucket>) -> Vec<(BlockId, Vec<u32>)> {
        let blocks = (0..self.job.parallelism.dp).map(|replica| BlockId { replica, stage });
        blocks.map(|block| (block, self.block(block, buckets))).collect()
    }

    /// All slots of a block, in order; returns its last tasks.
    fn block(&mut self, block: BlockId, buckets: &mut Vec<Bucket>) -> Vec<u32> {
        let order = rounds(self.job, block.stage);
        let mut chain = Chain {
            all: self,
            block,
            tail: 0..0,
            micro_batch: 0,
            pass: Pass::None,
            part: 0,
            defers: false,
            beside: false,
            units: Vec::new(),
            resources: Resources::default(),
            start: None,
            buckets,
            completed: 0,
        };
        for round in order {
            chain.round(round);
        }
        match chain.all.job.overlaps() {
            true => chain.resources.ends().collect(),
            false => chain.tail.collect(),
        }
    }

    fn slot_index(&self, replica: u32, virtual_stage: u32, micro_batch: u32, pass: Pass) -> usize {
        let t = &self.job.training;
        let chunks = (self.job.parallelism.pp * t.virtual_stages) as usize;
        let run = (replica * t.micro_batches + micro_batch) as usize;
        2 * (run * chunks + virtual_stage as usize) + usize::from(pass == Pass::Backward)
    }

    /// The sums of a stage's gradients, one after the other, then each replica's optimizer.
    fn gradients_and_optimizer(
        &mut self,
        stage: u32,
        buckets: &[Bucket],
        ends: &[(BlockId, Vec<u32>)],
    ) {
        let placement = self.job.placement();
        let mut last_sum = None;
        let task = |kind, block, layer, action| Task {
            kind,
            pass: Pass::None,
            block,
            layer,
            micro_batch: -1,
            action,
        };
        for bucket in buckets {
            let scope = match bucket.kind {
                TaskKind::ExpertGradient => Scope::Expert,
                _ => Scope::Dense,
            };
            if placement.gradient_group_size(scope) == 1 {
                continue;
            }
            let sum = Comm::AllReduce { stage, scope, bytes_per_gpu: bucket.bytes_per_gpu };
            let action = Action::Communicate(sum);
            let id = self.graph.task(task(
                bucket.kind,
                BlockId { replica: 0, stage },
                bucket.layer,
                action,
            ));
            if self.job.training.overlap_gradients {
                for &ready in &bucket.ready {
                    self.graph.edge(ready, id);
                }
            } else if last_sum.is_none() {
                for &end in ends.iter().flat_map(|(_, ends)| ends) {
                    self.graph.edge(end, id);
                }
            }
            if let Some(before) = last_sum {
                self.graph.edge(before, id);
            }
            last_sum = Some(id);
        }
        let step = Action::Compute(self.job.optimizer_time(stage));
        for (block, ends) in ends {
            let id = self.graph.task(task(TaskKind::Optimizer, *block, -1, step));
            for before in ends.iter().copied().chain(last_sum) {
                self.graph.edge(before, id);
            }
        }
    }
}

impl Chain<'_, '_> {
    /// The slots of a round: one after the other in the block's chain, or, where all-to-alls run beside
    /// computation, each a chain of its own, with orders for both.
    fn round(&mut self, round: Round) {
        if !self.all.job.overlaps() {
            for step in round.steps() {
                if let Some(next) = self.slot(step) {
                    self.send(next);
                }
            }
            return;
        }
        self.beside = matches!(round, Round::Two(..));
        let mut slots = Vec::new();
        let mut sends = Vec::new();
        for step in round.steps() {
            self.tail = 0..0;
            let next = self.slot(step);
            slots.push(std::mem::take(&mut self.units));
            sends.push((step, next, self.tail.clone()));
        }
        let graph = &mut self.all.graph;
        self.resources.order(&slots, |before, after| graph.edge(before, after));
        // What a round has computed leaves when all of it is through.
        for &(step, next, _) in &sends {
            let Some(next) = next else { continue };
            self.begin(step);
            self.tail = 0..0;
            let send = self.send(next);
            for before in sends.iter().flat_map(|(.., tail)| tail.clone()) {
                self.all.graph.edge(before, send);
            }
        }
    }

    /// What follows belongs to this slot.
    fn begin(&mut self, step: Step) {
        let Step { slot, defers } = step;
        (self.micro_batch, self.pass, self.defers) = (slot.micro_batch, slot.pass, defers);
        self.part = self.all.job.part(self.block.stage, slot.chunk);
    }

    /// Builds a slot; returns the part of the model that its micro-batch visits next, elsewhere.
    fn slot(&mut self, step: Step) -> Option<u32> {
        let job = self.all.job;
        let (slot, parts) = (step.slot, job.parts());
        self.begin(step);
        self.start = None;
        let part = self.part;
        let layers = job.layers(self.block.stage, slot.chunk);
        let next = match slot.pass {
            Pass::Forward => {
                if part == 0 {
                    self.embedding();
                }
                layers.for_each(|layer| self.forward(layer));
                if part + 1 == parts {
                    self.head();
                }
                part.checked_add(1).filter(|&next| next < parts)
            }
            Pass::Weight => {
                if part + 1 == parts {
                    self.head_weights();
                }
                layers.rev().for_each(|layer| self.weights(layer));
                return None;
            }
            _ => {
                if part + 1 == parts {
                    self.head();
                }
                layers.rev().for_each(|layer| {
                    if job.repeats_layers() {
                        self.again(layer);
                    }
                    self.backward(layer);
                });
                if part == 0 {
                    self.embedding();
                }
                part.checked_sub(1)
            }
        };
        let index = self.all.slot_index(self.block.replica, part, slot.micro_batch, slot.pass);
        // Every chunk has a layer, so every slot has a task.
        self.all.starts[index] = self.start.clone().unwrap_or(0..0);
        next
    }

    fn forward(&mut self, layer: u32) {
        let job = self.all.job;
        let tokens = job.tokens_per_rank();
        self.attention(layer);
        self.tensor_parallel(layer as i32, 2 * job.tp_bytes(tokens), 2);
        if !job.model.is_moe(layer) {
            self.compute(TaskKind::DenseMlp, Component::DenseMlp, layer as i32);
            self.tensor_parallel(layer as i32, 2 * job.tp_bytes(tokens), 2);
            return;
        }
        self.compute(TaskKind::Gate, Component::Gate, layer as i32);
        self.all_to_all(TaskKind::Dispatch, layer);
        self.expert(layer);
        self.all_to_all(TaskKind::Combine, layer);
    }

    /// The forward pass of a layer once more, for what its backward pass needs of it.
    fn again(&mut self, layer: u32) {
        let pass = std::mem::replace(&mut self.pass, Pass::Recompute);
        self.forward(layer);
        self.pass = pass;
    }

    fn backward(&mut self, layer: u32) {
        let job = self.all.job;
        let tokens = job.tokens_per_rank();
        if job.model.is_moe(layer) {
            self.all_to_all(TaskKind::Combine, layer);
            let expert = self.expert(layer);
            if let Some(done) = self.weights_behind(Component::Expert, layer as i32, expert) {
                self.expert_gradients(layer, done);
            }
            self.all_to_all(TaskKind::Dispatch, layer);
            self.compute(TaskKind::Gate, Component::Gate, layer as i32);
        } else {
            self.tensor_parallel(layer as i32, 2 * job.tp_bytes(tokens), 2);
            let mlp = self.compute(TaskKind::DenseMlp, Component::DenseMlp, layer as i32);
            self.weights_behind(Component::DenseMlp, layer as i32, mlp);
        }
        self.tensor_parallel(layer as i32, 2 * job.tp_bytes(tokens), 2);
        let attention = self.attention(layer);
        if let Some(done) = self.weights_behind(Component::Attention, layer as i32, attention) {
            self.dense_gradients(layer, done);
        }
    }

    /// Token assignments of a layer's most loaded rank.
    fn hottest(&self, layer: u32) -> u64 {
        let gating = self.all.gating;
        gating.hottest(gating.draw(self.block.replica, self.micro_batch, layer))
    }

    /// Attention, and beside it the CP ring.
    fn attention(&mut self, layer: u32) -> u32 {
        let job = self.all.job;
        let time = self.all.profile.time(Component::Attention, self.timed_as());
        let time = self.own(Component::Attention, time, 0);
        let id = self.add(TaskKind::Attention, layer as i32, Action::Compute(time));
        let cp = job.parallelism.cp;
        let mut span = id..id + 1;
        if cp > 1 {
            let ring = Comm::Collective {
                block: self.block,
                over: Axis::Cp,
                bytes_per_gpu: job.cp_bytes(),
                steps: cp - 1,
            };
            let action = Action::Communicate(ring);
            span.end = self.add(TaskKind::ContextParallel, layer as i32, action) + 1;
        }
        self.advance(span);
        id
    }

    /// How many ring collectives over TP are before a product that begins with all tokens, and behind it:
    /// an all-gather and a reduce-scatter; where each rank has all tokens, both are one all-reduce behind.
    fn around(&self) -> [u32; 2] {
        if self.all.job.training.sequence_parallel { [1, 1] } else { [0, 2] }
    }

    fn embedding(&mut self) {
        let job = self.all.job;
        let bytes = job.tp_bytes(job.tokens_per_rank());
        let [before, behind] = self.around();
        if self.pass == Pass::Forward {
            self.compute(TaskKind::Embedding, Component::Embedding, -1);
            self.tensor_parallel(-1, u64::from(behind) * bytes, behind);
        } else {
            self.tensor_parallel(-1, u64::from(before) * bytes, before);
            let id = self.compute(TaskKind::Embedding, Component::Embedding, -1);
            let parameters = job.model.embedding_weights().per_gpu(job.parallelism.tp);
            self.gradients(TaskKind::DenseGradient, -1, parameters, id);
        }
    }

    fn head(&mut self) {
        let job = self.all.job;
        let bytes = job.tp_bytes(job.tokens_per_rank());
        let [before, behind] = self.around();
        if self.pass == Pass::Forward {
            self.tensor_parallel(-1, u64::from(before) * bytes, before);
            self.compute(TaskKind::Head, Component::Head, -1);
        } else {
            let id = self.compute(TaskKind::Head, Component::Head, -1);
            if let Some(done) = self.weights_behind(Component::Head, -1, id) {
                let parameters = job.head_parameters();
                self.gradients(TaskKind::DenseGradient, -1, parameters, done);
            }
            self.tensor_parallel(-1, u64::from(behind) * bytes, behind);
        }
    }

    /// Tokens to experts (dispatch forward, combine backward) or back.
    fn all_to_all(&mut self, kind: TaskKind, layer: u32) {
        let job = self.all.job;
        if job.parallelism.ep == 1 {
            return;
        }
        let outward = (kind == TaskKind::Dispatch) == (self.pass != Pass::Backward);
        let element = match outward {
            true => job.training.dispatch_bytes,
            false => job.training.activation_bytes,
        };
        let replica = self.block.replica;
        let exchange = Comm::AllToAll {
            block: self.block,
            matrix: self.all.gating.draw(replica, self.micro_batch, layer),
            transposed: !outward,
            bytes_per_token: job.exchange_bytes_per_token(element),
        };
        let id = self.add(kind, layer as i32, Action::Communicate(exchange));
        self.advance(id..id + 1);
    }

    /// So many ring collectives over TP in a row, as one task.
    fn tensor_parallel(&mut self, layer: i32, bytes_per_gpu: u64, collectives: u32) {
        self.ring(layer, Axis::Tp, bytes_per_gpu, collectives);
    }

    /// The same over TP, or over the ranks that share experts.
    fn ring(&mut self, layer: i32, over: Axis, bytes_per_gpu: u64, collectives: u32) {
        let p = &self.all.job.parallelism;
        let ranks = if over == Axis::Etp { p.expert_shards() } else { p.tp };
        if ranks == 1 || collectives == 0 {
            return;
        }
        let steps = collectives * (ranks - 1);
        let ring = Comm::Collective { block: self.block, over, bytes_per_gpu, steps };
        let id = self.add(TaskKind::TensorParallel, layer, Action::Communicate(ring));
        self.advance(id..id + 1);
    }

    fn compute(&mut self, kind: TaskKind, component: Component, layer: i32) -> u32 {
        let time = self.own(component, self.all.profile.time(component, self.timed_as()), 0);
        let id = self.add(kind, layer, Action::Compute(time));
        self.advance(id..id + 1);
        id
    }

    /// To the stage that has the part that the micro-batch visits next. The block goes on without waiting.
    fn send(&mut self, part: u32) -> u32 {
        let job = self.all.job;
        let stage = job.neighbour(self.block.stage, self.part, part);
        let element = job.training.activation_bytes;
        let send = Comm::Send {
            from: self.block,
            to: BlockId { stage, ..self.block },
            bytes_per_gpu: job.tokens_per_rank() * job.bytes_per_token(element),
        };
        let id = self.add(TaskKind::PipelineSend, -1, Action::Communicate(send));
        let replica = self.block.replica;
        let slot = self.all.slot_index(replica, part, self.micro_batch, self.pass);
        self.all.arrivals.push(Arrival { send: id, slot });
        id
    }

    /// After the last micro-batch, the gradients that `ready` completes can be summed. All replicas
    /// of a stage come here in the same order.
    fn gradients(&mut self, kind: TaskKind, layer: i32, parameters: u64, ready: u32) {
        let training = &self.all.job.training;
        if !self.all.job.is_last(self.micro_batch) {
            return;
        }
        if self.completed == self.buckets.len() {
            self.buckets.push(Bucket {
                kind,
                layer,
                part: self.part,
                bytes_per_gpu: parameters * u64::from(training.gradient_bytes),
                ready: Vec::new(),
            });
        }
        self.buckets[self.completed].ready.push(ready);
        self.completed += 1;
    }

    /// Adds a task that waits for the tail.
    fn add(&mut self, kind: TaskKind, layer: i32, action: Action) -> u32 {
        let action = match action {
            Action::Compute(time) if self.beside => {
                Action::Compute(self.all.job.training.beside(time))
            }
            action => action,
        };
        let id = self.all.graph.task(Task {
            kind,
            pass: self.pass,
            block: self.block,
            layer,
            micro_batch: self.micro_batch as i32,
            action,
        });
        for before in self.tail.clone() {
            self.all.graph.edge(before, id);
        }
        id
    }

    /// These tasks are what the next one waits for.
    fn advance(&mut self, span: Span) {
        self.start.get_or_insert_with(|| span.clone());
        self.unit(span.clone());
        self.tail = span;
    }

    /// Notes tasks that begin together, where the block's tasks are put in order later.
    fn unit(&mut self, tasks: Span) {
        if self.all.job.overlaps() {
            let kind = self.all.graph.kind(tasks.start);
            let exchanges = matches!(kind, TaskKind::Dispatch | TaskKind::Combine);
            self.units.push(Unit { tasks, after: self.tail.clone(), exchanges });
        }
    }
}

/// Adds the tasks that complete the gradients of the other copy.
fn join(buckets: &mut [Bucket], others: Vec<Bucket>) {
    for other in others {
        let same = |bucket: &&mut Bucket| {
            (bucket.kind, bucket.layer, bucket.part) == (other.kind, other.layer, other.part)
        };
        if let Some(bucket) = buckets.iter_mut().find(same) {
            bucket.ready.extend(other.ready);
        }
    }
}
