//! How a job's memory is counted.

use crate::error::{WorkloadError, require, within};
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
    /// Bytes of an element of gate and up as they are kept; 0: as activations are.
    #[serde(default)]
    pub swiglu_bytes: u32,
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
            swiglu_bytes: 0,
            overhead_bytes: 0,
        }
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
        within("memory.swiglu_bytes", self.swiglu_bytes, 0..=8)?;
        let load = self.expert_load;
        require((1.0..=1024.0).contains(&load), "memory.expert_load", load, || {
            "must be at least 1 and at most 1024".into()
        })
    }
}
