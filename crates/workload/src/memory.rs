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
mod parts;
mod settings;
mod states;

use crate::job::Job;
use crate::recompute::Recompute;
use crate::training::Mode;
use flight::Peak;
pub use parts::Holds;
use parts::Parts;
pub use settings::{Memory, Shard};

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
        u64::try_from(self.parts.get(holds)).unwrap_or(u64::MAX)
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
