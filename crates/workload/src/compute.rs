//! How long each component computes: a roofline, or times that were measured or given.
//!
//! Modelled: forward time = max(FLOPs / (peak * matmul efficiency), bytes / (bandwidth * memory
//! efficiency)) for each component as a whole; backward = twice forward (two products for each
//! one). Experts take as long as the most loaded EP rank of their block does. Every time carries
//! its origin.
//! Ignored: kernel launches, tile quantisation, overlap of kernels, activation recomputation, the
//! sharding of optimizer state over replicas.
//! Checked: hand-computed H100 figures, linearity of measured times, range over four models.

use crate::dag::Pass;
use crate::error::{WorkloadError, require, within};
use crate::job::Job;
use crate::model::{Load, Work};
use lightloom_units::Time;
use serde::Deserialize;

/// A GPU and what is known of its speed on this model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// How the GPU is called in results.
    pub gpu: String,
    /// Dense matrix FLOPs per second at the activations' precision.
    pub peak_flops: u64,
    /// Memory bandwidth \[B/s\].
    pub memory_bandwidth_bytes_per_s: u64,
    /// Share of the peak that matrix products reach, in (0, 1].
    pub matmul_efficiency: f64,
    /// Share of the memory bandwidth that is reached, in (0, 1].
    pub memory_efficiency: f64,
    /// Bytes that the optimizer reads and writes for each parameter.
    pub optimizer_bytes_per_parameter: u32,
    /// Times that take the roofline's place.
    pub measured: Vec<Measured>,
}

/// A time that was measured, or given by a source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What was timed: one layer's component on one GPU.
    pub component: Component,
    /// In which pass.
    pub pass: Pass,
    /// At how many sequences a micro-batch; other sizes are scaled linearly.
    pub micro_batch: u32,
    /// The time with balanced experts \[ps\].
    pub time_ps: u64,
    /// [`Origin::Measured`] or [`Origin::Given`].
    pub origin: Origin,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// Attention with its norm and residual.
    Attention,
    /// Norm, router, permutation.
    Gate,
    /// Routed experts, balanced.
    Expert,
    /// Shared experts; computed right after the routed ones.
    SharedExpert,
    /// The MLP of a dense layer.
    DenseMlp,
    /// Final norm, logits, loss.
    Head,
    /// Input embedding.
    #[serde(skip_deserializing)]
    Embedding,
    /// Optimizer step of the stage with the most parameters.
    #[serde(skip_deserializing)]
    Optimizer,
}

/// Where a compute time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Computed from shapes and the GPU's rates.
    #[serde(skip_deserializing)]
    Roofline,
    /// Measured on a machine.
    Measured,
    /// Stated by a source.
    Given,
    /// Scaled from a measured or given time: another micro-batch, or twice the forward pass.
    #[serde(skip_deserializing)]
    Scaled,
}

/// One line of provenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeOrigin {
    /// What.
    pub component: Component,
    /// In which pass.
    pub pass: Pass,
    /// Where its time comes from.
    pub origin: Origin,
    /// The time of one micro-batch on one GPU, with balanced experts.
    pub time: Time,
}

impl Component {
    /// The name in specifications and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Component::Attention => "attention",
            Component::Gate => "gate",
            Component::Expert => "expert",
            Component::SharedExpert => "shared_expert",
            Component::DenseMlp => "dense_mlp",
            Component::Head => "head",
            Component::Embedding => "embedding",
            Component::Optimizer => "optimizer",
        }
    }
}

impl Origin {
    /// The name in specifications and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Origin::Roofline => "roofline",
            Origin::Measured => "measured",
            Origin::Given => "given",
            Origin::Scaled => "scaled",
        }
    }
}

/// The compute times of a job, each with its origin.
#[derive(Clone, Debug)]
pub struct Profile {
    origins: Vec<ComputeOrigin>,
    expert: [ExpertTime; 2],
}

/// The time of routed experts as a function of the most loaded rank's tokens.
#[derive(Clone, Copy, Debug)]
enum ExpertTime {
    /// max(seconds a token, fixed and per-token memory seconds).
    Roofline { flop_s: f64, memory_fixed_s: f64, memory_s: f64 },
    /// Seconds a token.
    Linear { token_s: f64 },
}

/// No single task may compute longer than this: 10^15 ps, a quarter of an hour.
const LONGEST: Time = Time::from_ps(1_000_000_000_000_000);

impl Compute {
    /// Checks rates, shares and measured times.
    ///
    /// # Errors
    /// Names the first key that is out of range.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        for (key, rate) in [
            ("compute.peak_flops", self.peak_flops),
            ("compute.memory_bandwidth_bytes_per_s", self.memory_bandwidth_bytes_per_s),
        ] {
            require(rate > 0, key, rate, || "must be above 0".into())?;
        }
        for (key, share) in [
            ("compute.matmul_efficiency", self.matmul_efficiency),
            ("compute.memory_efficiency", self.memory_efficiency),
        ] {
            require(share > 0.0 && share <= 1.0, key, share, || {
                "must be above 0 and at most 1".into()
            })?;
        }
        within(
            "compute.optimizer_bytes_per_parameter",
            self.optimizer_bytes_per_parameter,
            0..=1024,
        )?;
        for (i, entry) in self.measured.iter().enumerate() {
            let key = |field: &str| format!("compute.measured[{i}].{field}");
            within(&key("micro_batch"), entry.micro_batch, 1..=1 << 20)?;
            require(
                (1..=LONGEST.ps()).contains(&entry.time_ps),
                &key("time_ps"),
                entry.time_ps,
                || format!("must be between 1 and {}", LONGEST.ps()),
            )?;
            let twin = self.measured[..i].iter().any(|other| {
                (other.component, other.pass, other.micro_batch)
                    == (entry.component, entry.pass, entry.micro_batch)
            });
            require(!twin, &key("micro_batch"), entry.micro_batch, || {
                format!(
                    "there is already a {} time of {:?} for it",
                    entry.pass.as_str(),
                    entry.component.as_str()
                )
            })?;
        }
        Ok(())
    }

    fn matmul_s(&self, flops: f64) -> f64 {
        flops / (self.peak_flops as f64 * self.matmul_efficiency)
    }

    fn memory_s(&self, bytes: f64) -> f64 {
        bytes / (self.memory_bandwidth_bytes_per_s as f64 * self.memory_efficiency)
    }

    fn roofline(&self, work: Work) -> Time {
        Time::from_secs_f64(self.matmul_s(work.flops).max(self.memory_s(work.bytes)))
    }

    /// The measured time of a component, scaled to `micro_batch` from the nearest size measured
    /// (the smaller of two), or from the forward pass.
    fn lookup(&self, component: Component, pass: Pass, micro_batch: u32) -> Option<(Time, Origin)> {
        let nearest = self
            .measured
            .iter()
            .filter(|entry| entry.component == component && entry.pass == pass)
            .min_by_key(|e| (e.micro_batch.abs_diff(micro_batch), e.micro_batch));
        match nearest {
            Some(entry) if entry.micro_batch == micro_batch => {
                Some((Time::from_ps(entry.time_ps), entry.origin))
            }
            Some(entry) => {
                let scale = f64::from(micro_batch) / f64::from(entry.micro_batch);
                let time = Time::from_secs_f64(entry.time_ps as f64 * 1e-12 * scale);
                Some((time, Origin::Scaled))
            }
            None if pass == Pass::Backward => self
                .lookup(component, Pass::Forward, micro_batch)
                .map(|(time, _)| (twice(time), Origin::Scaled)),
            None => None,
        }
    }
}

fn twice(time: Time) -> Time {
    time.saturating_add(time)
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
            bytes_per_element: f64::from(job.training.activation_bytes),
        };
        let tokens = load(job.tokens_per_rank());
        let assignments = load(job.assignments_per_rank());
        let local_experts = model.experts / p.ep;
        let sequence = job.training.sequence_length;
        let mut works = vec![
            (Component::Embedding, model.embedding_work(tokens)),
            (Component::Attention, model.attention_work(tokens, sequence)),
            (Component::Gate, model.gate_work(tokens)),
            (Component::Expert, model.expert_work(assignments, local_experts)),
        ];
        if model.shared_experts > 0 {
            works.push((Component::SharedExpert, model.shared_work(tokens)));
        }
        if model.dense_layers > 0 {
            works.push((Component::DenseMlp, model.dense_mlp_work(tokens)));
        }
        works.push((Component::Head, model.head_work(tokens)));

        let mut origins = Vec::with_capacity(2 * works.len() + 1);
        let mut expert = [ExpertTime::Linear { token_s: 0.0 }; 2];
        for (component, work) in works {
            for (index, pass) in PASSES.into_iter().enumerate() {
                let measured = compute.lookup(component, pass, job.training.micro_batch);
                let passes = [1.0, 2.0][index];
                if component == Component::Expert {
                    expert[index] = match measured {
                        Some((time, _)) => {
                            ExpertTime::Linear { token_s: time.as_secs_f64() / assignments.tokens }
                        }
                        None => {
                            let fixed = model.expert_work(load(0), local_experts).bytes;
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
                    let forward = compute.roofline(work);
                    let time = if pass == Pass::Forward { forward } else { twice(forward) };
                    (time, Origin::Roofline)
                });
                origins.push(ComputeOrigin { component, pass, origin, time });
            }
        }
        let slowest_step =
            (0..p.pp).map(|stage| job.optimizer_time(stage)).max().unwrap_or(Time::ZERO);
        origins.push(ComputeOrigin {
            component: Component::Optimizer,
            pass: Pass::None,
            origin: Origin::Roofline,
            time: slowest_step,
        });
        for line in &origins {
            require(line.time <= LONGEST, "compute.peak_flops", compute.peak_flops, || {
                format!(
                    "one {} task would take {} on this GPU; allowed are {LONGEST}",
                    line.component.as_str(),
                    line.time
                )
            })?;
        }
        Ok(Profile { origins, expert })
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
        let seconds = match self.expert[usize::from(pass == Pass::Backward)] {
            ExpertTime::Roofline { flop_s, memory_fixed_s, memory_s } => {
                (flop_s * tokens).max(memory_fixed_s + memory_s * tokens)
            }
            ExpertTime::Linear { token_s } => token_s * tokens,
        };
        Time::from_secs_f64(seconds).saturating_add(self.time(Component::SharedExpert, pass))
    }
}

impl Job {
    /// The optimizer step of a stage: bound by memory.
    pub(crate) fn optimizer_time(&self, stage: u32) -> Time {
        let bytes = self.parameters_per_gpu(stage) as f64
            * f64::from(self.compute.optimizer_bytes_per_parameter);
        Time::from_secs_f64(self.compute.memory_s(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn measured(component: Component, pass: Pass, micro_batch: u32, ms: u64) -> Measured {
        Measured {
            component,
            pass,
            micro_batch,
            time_ps: Time::from_ms(ms).ps(),
            origin: Origin::Measured,
        }
    }

    fn line(job: &Job, component: Component, pass: Pass) -> (Time, Origin) {
        let profile = job.profile().expect("valid job");
        let lines = profile.origins();
        let line = lines
            .iter()
            .find(|line| line.component == component && line.pass == pass)
            .expect("the model has the component");
        (line.time, line.origin)
    }

    /// Mixtral's experts on H100: 32,768 tokens * 2 experts * 6 * 4096 * 14336 FLOPs on four GPUs
    /// at half of 989 TFLOP/s; and its embedding, bound by memory: each element read and written.
    #[test]
    fn roofline_by_hand() {
        let job = example::mixtral_8x7b();
        let flops = 32_768.0 * 2.0 * 6.0 * 4096.0 * 14336.0 / 4.0;
        let expert = Time::from_secs_f64(flops / (0.5 * 989e12));
        assert_eq!(line(&job, Component::Expert, Pass::Forward), (expert, Origin::Roofline));
        assert_eq!(line(&job, Component::Expert, Pass::Backward).0, twice(expert));
        let bytes = 2.0 * 2.0 * 32_768.0 * 4096.0;
        let embedding = Time::from_secs_f64(bytes / (0.8 * 3.35e12));
        assert_eq!(line(&job, Component::Embedding, Pass::Forward).0, embedding);
    }

    /// A layer's forward and backward pass takes tens to hundreds of milliseconds on an H100.
    #[test]
    fn layers_of_the_papers_models_take_tens_to_hundreds_of_ms() {
        for (job, range_ms) in [
            (example::mixtral_8x7b(), 40..60),
            (example::mixtral_8x22b(), 30..60),
            (example::llama_moe(), 40..70),
            (example::qwen_moe(), 10..40),
            (example::deepseek_r1(), 200..400),
        ] {
            let profile = job.profile().expect("valid job");
            let balanced = job.assignments_per_rank();
            let layer: Time = PASSES
                .into_iter()
                .map(|pass| {
                    profile.time(Component::Attention, pass)
                        + profile.time(Component::Gate, pass)
                        + profile.expert_time(pass, balanced)
                })
                .sum();
            let ms = layer.ps() / 1_000_000_000;
            assert!(range_ms.contains(&ms), "{}: {ms} ms", job.model.name);
        }
    }

    #[test]
    fn a_balanced_load_takes_the_balanced_time_and_more_takes_longer() {
        for job in [example::mixtral_8x7b(), example::deepseek_r1()] {
            let profile = job.profile().expect("valid job");
            let balanced = job.assignments_per_rank();
            for pass in PASSES {
                let whole = profile.time(Component::Expert, pass)
                    + profile.time(Component::SharedExpert, pass);
                let found = profile.expert_time(pass, balanced);
                assert!(found.ps().abs_diff(whole.ps()) <= 1);
                assert!(profile.expert_time(pass, 2 * balanced) > found);
                // Idle experts still read their weights, and shared experts still compute.
                assert!(profile.expert_time(pass, 0) > Time::ZERO);
                assert!(profile.expert_time(pass, 0) < found);
            }
        }
    }

    #[test]
    fn measured_times_replace_the_roofline_and_scale() {
        let mut job = example::mixtral_8x7b();
        job.compute.measured = vec![
            measured(Component::Expert, Pass::Forward, 8, 100),
            measured(Component::Attention, Pass::Forward, 2, 10),
            measured(Component::Attention, Pass::Forward, 12, 30),
            measured(Component::Gate, Pass::Backward, 8, 7),
        ];
        let expect = |component, pass, ms, origin| {
            let (time, found) = line(&job, component, pass);
            assert!(time.ps().abs_diff(Time::from_ms(ms).ps()) <= 1, "{component:?} {time}");
            assert_eq!(found, origin, "{component:?} {pass:?}");
        };
        expect(Component::Expert, Pass::Forward, 100, Origin::Measured);
        expect(Component::Expert, Pass::Backward, 200, Origin::Scaled);
        expect(Component::Attention, Pass::Forward, 20, Origin::Scaled);
        expect(Component::Attention, Pass::Backward, 40, Origin::Scaled);
        expect(Component::Gate, Pass::Backward, 7, Origin::Measured);
        assert_eq!(line(&job, Component::Gate, Pass::Forward).1, Origin::Roofline);
        // The expert's time follows the most loaded rank.
        let profile = job.profile().expect("valid job");
        let hot = profile.expert_time(Pass::Forward, 3 * job.assignments_per_rank());
        assert!(hot.ps().abs_diff(Time::from_ms(300).ps()) <= 1);
    }

    #[test]
    fn impossible_tables_are_named() {
        type Change = fn(&mut Compute);
        let message = |change: Change| {
            let mut job = example::mixtral_8x7b();
            change(&mut job.compute);
            job.profile().unwrap_err().to_string()
        };
        let cases: [(Change, &str); 7] = [
            (|c| c.peak_flops = 0, "compute.peak_flops = 0: must be above 0"),
            (|c| c.peak_flops = 1, "compute.peak_flops = 1: one "),
            (|c| c.matmul_efficiency = f64::NAN, "compute.matmul_efficiency = NaN: must be above"),
            (|c| c.memory_efficiency = 1.5, "compute.memory_efficiency = 1.5: must be above"),
            (|c| c.memory_efficiency = 1e-300, "compute.peak_flops = 989000000000000: one "),
            (
                |c| c.measured = vec![measured(Component::Head, Pass::Forward, 0, 1)],
                "compute.measured[0].micro_batch = 0: must be between 1 and",
            ),
            (
                |c| c.measured = vec![measured(Component::Head, Pass::Forward, 8, 1); 2],
                "compute.measured[1].micro_batch = 8: there is already a forward time of \"head\"",
            ),
        ];
        for (change, start) in cases {
            let found = message(change);
            assert!(found.starts_with(start), "{found}");
        }
    }
}
