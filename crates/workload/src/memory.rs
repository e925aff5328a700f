//! What a GPU's memory holds: weights, gradients, optimizer, activations, buffers, by component and stage.
//!
//! Modelled: mixed precision with Adam, whose state replicas may share (ZeRO, arXiv 1910.02054, Sections 3.1
//! and 5); activations as Korthikanti et al. count them (arXiv 2205.05198, Sections 4 and 5), for what is
//! trained today: fused attention, which keeps no scores but their logarithms' sums, SwiGLU, RMS norms, no
//! dropout, experts, latent attention, FP8 products; as many micro-batches in flight as the order of the
//! pipeline has ([`crate::rounds`]); logits and their gradients on the last stage. Where nothing is trained:
//! weights, the cache of keys and values, what one layer works with. Of each stage the fullest moment counts.
//! Ignored: fragmentation beyond `overhead`, buffers of collectives but all-to-alls, offloading, sequences
//! that differ in length. Loads of experts are even, times a stated factor.
//! Checked: closed forms by hand in `tests/all/memory.rs`; published measurements and PyTorch's own tensors
//! in Python (`docs/memory.md`).

mod activations;
mod flight;
mod states;

use crate::error::{WorkloadError, require, within};
use crate::job::Job;
use crate::recompute::Recompute;
use crate::training::Mode;
use flight::Peak;
use serde::Deserialize;

/// What replicas share, each with its part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shard {
    /// Nothing: each replica has all of its optimizer's state.
    None,
    /// The optimizer's state (ZeRO-1; Megatron-LM's distributed optimizer).
    #[default]
    Optimizer,
    /// Weights and gradients, too (ZeRO-3; FSDP).
    Full,
}

/// How a job's memory is counted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// What a GPU has \[B\]; 0: not known, and nothing is checked.
    pub capacity_bytes: u64,
    /// What replicas share.
    pub shard: Shard,
    /// Bytes of a weight's gradient, as it is added up.
    pub gradient_bytes: u32,
    /// Bytes of a weight's optimizer state: Adam has a master copy and two moments.
    pub optimizer_bytes: u32,
    /// Bytes of a logit on the last stage where the loss is taken, with its gradient.
    pub logits_bytes: u32,
    /// Tokens of the fullest GPU's experts, over an even load.
    pub expert_load: f64,
    /// What is there besides tensors \[B\].
    pub overhead_bytes: u64,
}

impl Default for Memory {
    /// Megatron-LM with a distributed optimizer.
    fn default() -> Self {
        Memory {
            capacity_bytes: 0,
            shard: Shard::Optimizer,
            gradient_bytes: 4,
            optimizer_bytes: 12,
            logits_bytes: 6,
            expert_load: 1.0,
            overhead_bytes: 0,
        }
    }
}

/// A component of what memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Holds {
    /// Weights, as products read them.
    Weights,
    /// Gradients of weights.
    Gradients,
    /// The optimizer's state.
    Optimizer,
    /// Inputs of layers that are computed anew.
    LayerInputs,
    /// Activations: inputs and outputs of norms.
    Norms,
    /// Activations of attention.
    Attention,
    /// Those of dense MLPs and shared experts.
    Mlp,
    /// Those of routed experts.
    Experts,
    /// Those of the router.
    Router,
    /// Logits, their gradients, and the final norm.
    Head,
    /// Buffers of one layer's all-to-alls.
    AllToAll,
    /// Gradients of activations, and what a layer works with for a moment.
    Working,
    /// Keys and values of tokens before.
    Cache,
    /// What is there besides tensors.
    Overhead,
}

impl Holds {
    /// All of them, in the order of tables.
    pub const ALL: [Holds; 14] = [
        Holds::Weights,
        Holds::Gradients,
        Holds::Optimizer,
        Holds::LayerInputs,
        Holds::Norms,
        Holds::Attention,
        Holds::Mlp,
        Holds::Experts,
        Holds::Router,
        Holds::Head,
        Holds::AllToAll,
        Holds::Working,
        Holds::Cache,
        Holds::Overhead,
    ];

    /// The name in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Holds::Weights => "weights",
            Holds::Gradients => "gradients",
            Holds::Optimizer => "optimizer",
            Holds::LayerInputs => "layer_inputs",
            Holds::Norms => "norms",
            Holds::Attention => "attention",
            Holds::Mlp => "mlp",
            Holds::Experts => "experts",
            Holds::Router => "router",
            Holds::Head => "head",
            Holds::AllToAll => "all_to_all",
            Holds::Working => "working",
            Holds::Cache => "cache",
            Holds::Overhead => "overhead",
        }
    }
}

/// Bytes of each component: wide, so that no valid job overflows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts([u128; Holds::ALL.len()]);

impl Parts {
    fn of(parts: &[(Holds, u128)]) -> Self {
        let mut found = Parts::default();
        for &(holds, bytes) in parts {
            found.0[holds as usize] += bytes;
        }
        found
    }

    fn total(&self) -> u128 {
        self.0.iter().sum()
    }

    fn map(self, other: Parts, with: impl Fn(u128, u128) -> u128) -> Self {
        Parts(std::array::from_fn(|at| with(self.0[at], other.0[at])))
    }

    fn plus(self, other: Parts) -> Self {
        self.map(other, |a, b| a + b)
    }

    /// Without `other`, of which no component is greater.
    fn minus(self, other: Parts) -> Self {
        self.map(other, u128::saturating_sub)
    }

    fn times(self, count: u64) -> Self {
        self.map(self, |a, _| a * u128::from(count))
    }

    /// The one with more bytes.
    fn fuller(self, other: Parts) -> Self {
        if other.total() > self.total() { other } else { self }
    }
}

/// What a GPU of a stage holds at the fullest moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageMemory {
    /// The stage.
    pub stage: u32,
    /// Chunks of layers whose activations are held at that moment, a micro-batch each.
    pub in_flight: u32,
    parts: Parts,
}

impl StageMemory {
    /// Bytes of a component.
    pub fn bytes(&self, holds: Holds) -> u64 {
        u64::try_from(self.parts.0[holds as usize]).unwrap_or(u64::MAX)
    }

    /// Bytes of all.
    pub fn total(&self) -> u64 {
        u64::try_from(self.parts.total()).unwrap_or(u64::MAX)
    }
}

/// What the GPUs of a job hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobMemory {
    /// What is computed anew: never [`Recompute::Untimed`].
    pub recompute: Recompute,
    /// By stage, from the first.
    pub stages: Vec<StageMemory>,
}

impl JobMemory {
    /// The stage that holds most: of equal ones the first.
    pub fn fullest(&self) -> &StageMemory {
        let fuller = |a: &&StageMemory, b: &&StageMemory| {
            a.parts.total().cmp(&b.parts.total()).then(b.stage.cmp(&a.stage))
        };
        self.stages.iter().max_by(fuller).expect("a pipeline has a stage")
    }

    /// Whether it fits; anything does where the capacity is not known.
    pub fn fits(&self, memory: &Memory) -> bool {
        memory.capacity_bytes == 0 || self.fullest().total() <= memory.capacity_bytes
    }
}

impl Memory {
    /// Checks every field by itself.
    ///
    /// # Errors
    /// Names the first key that is out of range.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        within("memory.gradient_bytes", self.gradient_bytes, 1..=8)?;
        within("memory.optimizer_bytes", self.optimizer_bytes, 0..=64)?;
        within("memory.logits_bytes", self.logits_bytes, 1..=64)?;
        let load = self.expert_load;
        require((1.0..=1024.0).contains(&load), "memory.expert_load", load, || {
            "must be at least 1 and at most 1024".into()
        })
    }
}

impl Job {
    /// What the GPUs of a validated job hold.
    ///
    /// With [`Recompute::Untimed`] as little is computed anew as lets the job fit; nothing if the capacity is
    /// not known, all if nothing fits.
    ///
    /// ```
    /// use lightloom_workload::{Holds, Memory, Recompute, example};
    /// let mut job = example::mixtral_8x7b();
    /// let memory = Memory { capacity_bytes: 80 << 30, ..Memory::default() };
    /// let kept = job.memory(&memory);
    /// assert_eq!(kept.fullest().stage, 0); // which has most micro-batches in flight
    /// job.training.recompute = Recompute::Full;
    /// let anew = job.memory(&memory);
    /// assert!(anew.fullest().total() < kept.fullest().total() / 3);
    /// assert_eq!(anew.stages[1].bytes(Holds::Weights), kept.stages[1].bytes(Holds::Weights));
    /// ```
    pub fn memory(&self, memory: &Memory) -> JobMemory {
        let asked = self.training.recompute;
        if self.training.mode != Mode::Train {
            return self.memory_with(memory, Recompute::None);
        }
        if asked != Recompute::Untimed {
            return self.memory_with(memory, asked);
        }
        let mut found = self.memory_with(memory, Recompute::None);
        for more in [Recompute::Selective, Recompute::Full] {
            if found.fits(memory) {
                break;
            }
            found = self.memory_with(memory, more);
        }
        found
    }

    fn memory_with(&self, memory: &Memory, recompute: Recompute) -> JobMemory {
        let mut job = self.clone();
        job.training.recompute = recompute;
        if job.training.mode == Mode::Train {
            // More change nothing: no stage has as many in flight before its first backward.
            let enough = 4 * job.parallelism.pp;
            job.training.micro_batches = job.training.micro_batches.min(enough);
        }
        let stage = |stage| {
            let Peak { parts, in_flight } = job.peak(memory, stage);
            let overhead = Parts::of(&[(Holds::Overhead, memory.overhead_bytes.into())]);
            let parts = job.states(memory, stage).plus(parts).plus(overhead);
            StageMemory { stage, in_flight, parts }
        };
        JobMemory { recompute, stages: (0..self.parallelism.pp).map(stage).collect() }
    }
}
