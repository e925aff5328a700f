//! How a model is trained: sequences, micro-batches, schedule, bytes per element.

use crate::copies::DispatchCopies;
use crate::error::{WorkloadError, require, within};
use crate::pipeline::Schedule;
use crate::recompute::{Module, Recompute};
use lightloom_units::Time;
use serde::Deserialize;

/// What a run computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Forward and backward passes, gradients, the optimizer.
    #[default]
    Train,
    /// The forward pass over whole sequences, as when prompts are read; logits of the last token.
    Prefill,
    /// The forward pass of one token a sequence, which attends to a cache of keys and values.
    Decode,
}

/// Whether a block's all-to-alls run beside its own computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// No: one micro-batch goes through a block at a time, one task after the other.
    #[default]
    None,
    /// Two micro-batches go through a block at once (`rounds.rs`).
    TwoBatches,
    /// DualPipe (DeepSeek-V3, arXiv 2412.19437, Section 3.2.1).
    Dualpipe,
}

impl Overlap {
    /// The name in specifications.
    pub const fn as_str(self) -> &'static str {
        match self {
            Overlap::None => "none",
            Overlap::TwoBatches => "two-batches",
            Overlap::Dualpipe => "dualpipe",
        }
    }
}

/// The settings of one training iteration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// What is computed.
    #[serde(default)]
    pub mode: Mode,
    /// Tokens of a sequence; when decoding, those whose keys and values a new token attends to.
    pub sequence_length: u32,
    /// Sequences that one EP rank (its TP and CP ranks together) works on at a time.
    pub micro_batch: u32,
    /// Micro-batches of one iteration.
    pub micro_batches: u32,
    /// The pipeline schedule.
    pub schedule: Schedule,
    /// Chunks of layers a stage; 1 unless interleaved.
    pub virtual_stages: u32,
    /// Bytes of an element of activations and of their gradients.
    pub activation_bytes: u32,
    /// Bytes of an element of weights' gradients.
    pub gradient_bytes: u32,
    /// Bytes of an element on its way to an expert, forward and backward (1: FP8 dispatch); what
    /// comes back from experts has `activation_bytes` (DeepSeek-V3, Section 3.3.2).
    pub dispatch_bytes: u32,
    /// How often a token is sent that goes to several experts (DeepSeek-V3, Section 3.2.2).
    #[serde(default)]
    pub dispatch_copies: DispatchCopies,
    /// Whether gradients are summed while the backward pass still runs.
    pub overlap_gradients: bool,
    /// Whether all-to-alls run beside the block's own computation.
    #[serde(default)]
    pub overlap: Overlap,
    /// Share of a GPU's multiprocessors that all-to-alls take from what is computed beside them, in
    /// [0, 1); nothing reads it without `overlap`.
    #[serde(default)]
    pub communication_share: f64,
    /// Bytes of an element of weights where nothing is trained. Products with weights of half as many
    /// bytes as activations are twice as fast; nothing reads it in [`Mode::Train`].
    #[serde(default = "two")]
    pub weight_bytes: u32,
    /// What of a forward pass is computed anew in the backward pass.
    #[serde(default)]
    pub recompute: Recompute,
    /// Which modules, where that is [`Recompute::Selective`].
    #[serde(default)]
    pub recompute_modules: Vec<Module>,
    /// Whether TP ranks share a sequence between the layers' products, each with its part of the
    /// tokens, or have all tokens each (Korthikanti et al., arXiv 2205.05198, Section 4.2.2).
    #[serde(default = "yes")]
    pub sequence_parallel: bool,
}

fn two() -> u32 {
    2
}

fn yes() -> bool {
    true
}

impl Training {
    /// How long a computation takes beside all-to-alls.
    pub(crate) fn beside(&self, time: Time) -> Time {
        match self.communication_share {
            0.0 => time,
            share => Time::from_secs_f64(time.as_secs_f64() / (1.0 - share)),
        }
    }

    /// Checks every field by itself.
    ///
    /// # Errors
    /// Names the first key that is out of range.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        within("training.sequence_length", self.sequence_length, 1..=1 << 24)?;
        within("training.micro_batch", self.micro_batch, 1..=1 << 16)?;
        within("training.micro_batches", self.micro_batches, 1..=1 << 16)?;
        within("training.activation_bytes", self.activation_bytes, 1..=8)?;
        within("training.gradient_bytes", self.gradient_bytes, 1..=8)?;
        within("training.dispatch_bytes", self.dispatch_bytes, 1..=8)?;
        let share = self.communication_share;
        require((0.0..1.0).contains(&share), "training.communication_share", share, || {
            "must be at least 0 and below 1".into()
        })?;
        within("training.weight_bytes", self.weight_bytes, 1..=8)?;
        let (fits, allowed) = match self.schedule {
            Schedule::OneForwardOneBackward | Schedule::ZeroBubble => {
                (self.virtual_stages == 1, "must be 1 unless training.schedule = \"interleaved\"")
            }
            Schedule::Interleaved => (
                (2..=4096).contains(&self.virtual_stages),
                "must be between 2 and 4096 with training.schedule = \"interleaved\"",
            ),
        };
        require(fits, "training.virtual_stages", self.virtual_stages, || allowed.into())
    }
}
