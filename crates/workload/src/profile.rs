//! The compute times of a job, each with its origin.

use crate::again::Again;
use crate::component::{Component, LONGEST, Origin};
use crate::compute::{Compute, twice};
use crate::error::{WorkloadError, require};
use crate::job::Job;
use crate::kernel::Precision;
use crate::model::{Load, Work};
use crate::pipeline::Pass;
use crate::split::of_weights;
use crate::training::Mode;
use lightloom_units::Time;
use std::sync::Arc;

/// One line of provenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeOrigin {
    /// The part of the model that is computed.
    pub component: Component,
    /// In which pass.
    pub pass: Pass,
    /// Where its time comes from.
    pub origin: Origin,
    /// The time of one micro-batch on one GPU, with balanced experts.
    pub time: Time,
}

/// The compute times of a job, each with its origin.
#[derive(Clone, Debug)]
pub struct Profile {
    origins: Vec<ComputeOrigin>,
    expert: [ExpertTime; 2],
    /// By component: see [`Model::weight_share`](crate::Model).
    weight_shares: Vec<(Component, f64)>,
    /// What backward tasks compute anew.
    again: Vec<Again>,
}

/// The time of routed experts as a function of the most loaded rank's tokens.
#[derive(Clone, Debug)]
enum ExpertTime {
    /// max(seconds a token, fixed and per-token memory seconds).
    Roofline { flop_s: f64, memory_fixed_s: f64, memory_s: f64 },
    /// Seconds a token.
    Linear { token_s: f64 },
    /// By the shapes of this job's grouped products.
    Shape(Arc<Job>),
}

const PASSES: [Pass; 2] = [Pass::Forward, Pass::Backward];

impl Profile {
    /// Times every component of a validated job.
    ///
    /// # Errors
    /// If a task would compute for more than a quarter of an hour: names `compute.peak_flops`.
    pub(crate) fn new(job: &Job) -> Result<Self, WorkloadError> {
        let (compute, model) = (&job.compute, &job.model);
        let p = &job.parallelism;
        let load = |tokens: u64| Load {
            tokens: tokens as f64,
            tp: f64::from(p.tp),
            sequence: f64::from(job.sequence_shards()),
            bytes_per_element: f64::from(job.training.activation_bytes),
            weight_bytes: f64::from(job.weight_bytes()),
        };
        let tokens = load(job.tokens_per_rank());
        let of_experts = |tokens| Load { tp: f64::from(p.expert_shards()), ..load(tokens) };
        let assignments = of_experts(job.assignments_per_rank());
        let local_experts = model.experts / p.ep;
        let sequence = job.training.sequence_length;
        let mut works = vec![
            (Component::Embedding, model.embedding_work(tokens)),
            (
                Component::Attention,
                match job.training.mode {
                    Mode::Decode => model.decode_attention_work(tokens, sequence),
                    _ => model.attention_work(tokens, sequence),
                },
            ),
        ];
        if model.moe_layers() > 0 {
            works.push((Component::Gate, model.gate_work(tokens)));
            works.push((Component::Expert, model.expert_work(assignments, local_experts)));
        }
        if model.shared_experts > 0 {
            works.push((Component::SharedExpert, model.shared_work(tokens)));
        }
        if model.dense_mlp_layers() > 0 {
            works.push((Component::DenseMlp, model.dense_mlp_work(tokens)));
        }
        works.push((Component::Head, model.head_work(load(job.logits()))));

        let by_shape = compute.products.efficiency.by_shape();
        if compute.products.precision == Precision::Fp8 {
            for (component, work) in &mut works {
                let scores = tokens.tokens * model.score_flops(sequence) / tokens.tp;
                match component {
                    Component::Attention => {
                        work.flops = compute.at_bf16(work.flops - scores) + scores;
                    }
                    Component::Expert | Component::SharedExpert | Component::DenseMlp => {
                        work.flops = compute.at_bf16(work.flops);
                    }
                    _ => {}
                }
            }
        }
        let slowdown = slowdown(compute, &works, job.training.micro_batch);
        let mut origins = Vec::with_capacity(2 * works.len() + 1);
        let mut expert = [const { ExpertTime::Linear { token_s: 0.0 } }; 2];
        for &(component, mut work) in &works {
            let as_given = multiplies(component) && slowdown != 1.0 && !by_shape;
            let unmeasured = if as_given { Origin::Scaled } else { Origin::Roofline };
            if as_given {
                work.flops *= slowdown;
            }
            for (index, pass) in PASSES.into_iter().take(job.passes()).enumerate() {
                let measured = compute.lookup(component, pass, job.training.micro_batch);
                let passes = [1.0, 2.0][index];
                if component == Component::Expert {
                    expert[index] = match measured {
                        Some((time, _)) => {
                            ExpertTime::Linear { token_s: time.as_secs_f64() / assignments.tokens }
                        }
                        None if by_shape => ExpertTime::Shape(Arc::new(job.clone())),
                        None => {
                            let fixed = model.expert_work(of_experts(0), local_experts).bytes;
                            ExpertTime::Roofline {
                                flop_s: passes * compute.matmul_s(work.flops) / assignments.tokens,
                                memory_fixed_s: passes * compute.memory_s(fixed),
                                memory_s: passes * compute.memory_s(work.bytes - fixed)
                                    / assignments.tokens,
                            }
                        }
                    };
                }
                let (time, origin) = measured.unwrap_or_else(|| {
                    if by_shape {
                        let kernels = job.kernels(component, pass, job.assignments_per_rank());
                        let (seconds, origin) = compute.kernels_s(&kernels);
                        return (Time::from_secs_f64(seconds), origin);
                    }
                    let forward = compute.roofline(work);
                    let time = if pass == Pass::Forward { forward } else { twice(forward) };
                    (time, unmeasured)
                });
                origins.push(ComputeOrigin { component, pass, origin, time });
            }
        }
        let slowest_step =
            (0..p.pp).map(|stage| job.optimizer_time(stage)).max().unwrap_or(Time::ZERO);
        if job.training.mode == Mode::Train {
            origins.push(ComputeOrigin {
                component: Component::Optimizer,
                pass: Pass::None,
                origin: Origin::Roofline,
                time: slowest_step,
            });
        }
        for line in &origins {
            let why = || {
                let (name, time) = (line.component.as_str(), line.time);
                format!("one {name} task would take {time} on this GPU; allowed are {LONGEST}")
            };
            let fits = line.time <= LONGEST;
            match line.origin {
                Origin::Roofline | Origin::Shape => {
                    require(fits, "compute.peak_flops", compute.peak_flops, why)?;
                }
                from => require(fits, "compute.table", from.as_str(), why)?,
            }
        }
        let share = |&(component, _): &(Component, Work)| {
            (component, model.weight_share(component, sequence))
        };
        let weight_shares = works.iter().map(share).collect();
        let again = job.again(if by_shape { 1.0 } else { slowdown });
        Ok(Profile { origins, expert, weight_shares, again })
    }

    /// Of a component's whole backward time, what its weights' gradients take if they are computed apart.
    pub(crate) fn of_weights(&self, component: Component, backward: Time) -> Time {
        let known = self.weight_shares.iter().find(|(of, _)| *of == component);
        of_weights(backward, known.map_or(0.0, |&(_, share)| share))
    }

    /// What a component's backward task computes anew, besides, where the most loaded EP rank received
    /// `hottest` token assignments.
    pub(crate) fn again(&self, component: Component, hottest: u64) -> Time {
        let own = self.again.iter().filter(|again| again.component == component);
        let seconds = own.map(|again| again.fixed_s + again.assignment_s * hottest as f64);
        Time::from_secs_f64(seconds.sum())
    }

    /// Where each compute time of the job comes from.
    pub fn origins(&self) -> &[ComputeOrigin] {
        &self.origins
    }

    /// The time of a component for one micro-batch, with balanced experts; zero for a component
    /// that the model does not have.
    pub fn time(&self, component: Component, pass: Pass) -> Time {
        self.origins
            .iter()
            .find(|line| line.component == component && line.pass == pass)
            .map_or(Time::ZERO, |line| line.time)
    }

    /// The time of a layer's routed and shared experts where the most loaded EP rank received
    /// `hottest` token assignments.
    pub fn expert_time(&self, pass: Pass, hottest: u64) -> Time {
        let tokens = hottest as f64;
        let seconds = match &self.expert[usize::from(pass == Pass::Backward)] {
            &ExpertTime::Roofline { flop_s, memory_fixed_s, memory_s } => {
                (flop_s * tokens).max(memory_fixed_s + memory_s * tokens)
            }
            &ExpertTime::Linear { token_s } => token_s * tokens,
            ExpertTime::Shape(job) => {
                job.compute.kernels_s(&job.kernels(Component::Expert, pass, hottest)).0
            }
        };
        Time::from_secs_f64(seconds).saturating_add(self.time(Component::SharedExpert, pass))
    }
}

/// Whether a component's time is that of its matrix products, rather than of memory.
fn multiplies(component: Component) -> bool {
    use Component::{Attention, DenseMlp, Expert, Head, SharedExpert};
    matches!(component, Attention | Expert | SharedExpert | DenseMlp | Head)
}

/// How many times as long as the roofline says the matrix products take whose forward times are
/// given, all together; 1 if there are none. Those that are not given are as slow.
fn slowdown(compute: &Compute, works: &[(Component, Work)], micro_batch: u32) -> f64 {
    let mut given = [0.0, 0.0];
    for (component, work) in works.iter().filter(|(component, _)| multiplies(*component)) {
        if let Some((time, _)) = compute.lookup(*component, Pass::Forward, micro_batch) {
            given[0] += time.as_secs_f64();
            given[1] += compute.matmul_s(work.flops);
        }
    }
    if given[1] > 0.0 { given[0] / given[1] } else { 1.0 }
}

impl Job {
    /// The compute times, each with its origin.
    ///
    /// # Errors
    /// If the job is invalid, or a time is absurdly long.
    pub fn profile(&self) -> Result<Profile, WorkloadError> {
        self.validate()?;
        Profile::new(self)
    }

    /// Bytes of an element of weights.
    pub(crate) fn weight_bytes(&self) -> u32 {
        match self.training.mode {
            Mode::Train => self.training.activation_bytes,
            _ => self.training.weight_bytes,
        }
    }

    /// Passes of a micro-batch.
    fn passes(&self) -> usize {
        if self.training.mode == Mode::Train { 2 } else { 1 }
    }

    /// Tokens whose logits a rank computes.
    pub(crate) fn logits(&self) -> u64 {
        match self.training.mode {
            Mode::Prefill => self.training.micro_batch.into(),
            _ => self.tokens_per_rank(),
        }
    }

    /// The optimizer step of a stage: bound by memory.
    pub(crate) fn optimizer_time(&self, stage: u32) -> Time {
        let bytes = self.parameters_per_gpu(stage) as f64
            * f64::from(self.compute.optimizer_bytes_per_parameter);
        Time::from_secs_f64(self.compute.memory_s(bytes))
    }
}

#[cfg(test)]
mod tests;
