//! How a model is trained: sequences, micro-batches, schedule, bytes per element.

use crate::copies::DispatchCopies;
use crate::error::{WorkloadError, require, within};
use crate::pipeline::Schedule;
use serde::Deserialize;

/// The settings of one training iteration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Tokens of a sequence.
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
}

impl Training {
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
        let (fits, allowed) = match self.schedule {
            Schedule::OneForwardOneBackward => {
                (self.virtual_stages == 1, "must be 1 with training.schedule = \"1f1b\"")
            }
            Schedule::Interleaved => (
                (2..=4096).contains(&self.virtual_stages),
                "must be between 2 and 4096 with training.schedule = \"interleaved\"",
            ),
        };
        require(fits, "training.virtual_stages", self.virtual_stages, || allowed.into())
    }
}
