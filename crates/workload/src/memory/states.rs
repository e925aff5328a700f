//! Weights, gradients and the optimizer's state.
//!
//! Modelled: weights at the activations' precision, with two copies at 8 bits, by rows and by columns, where
//! products are at 8 bits (Transformer Engine keeps both on Hopper); gradients added up at a precision of
//! their own; the optimizer's state. With [`Shard::Optimizer`] the ranks that sum a gradient share the
//! optimizer's state of its weight. With [`Shard::Full`] they share all three; two layers' weights are gathered
//! at a time, the next while one is computed, and the head's, which stay; a module's gradients are whole until
//! they are summed. In a pipeline weights and gradients stay whole between micro-batches (torchtitan:
//! `reshard_after_forward` off, one sum an iteration).
//! Ignored: that shares are not equal, buckets of gradients, the gathering's traffic (each iteration sends as
//! without it).
//! Checked: 18 bytes a parameter without shares and 6 + 12 / d with an optimizer's, as Megatron-LM says of
//! its distributed optimizer.

use super::parts::{Holds, Parts};
use super::settings::{Memory, Shard};
use crate::job::Job;
use crate::kernel::Precision;
use crate::parallelism::Scope;
use crate::training::Mode;

impl Job {
    /// Weights, gradients and optimizer of a stage.
    pub(super) fn states(&self, memory: &Memory, stage: u32) -> Parts {
        let parameters = self.parameters_by_scope(stage);
        let all = parameters.iter().map(|&count| u128::from(count)).sum::<u128>();
        let element = u128::from(self.weight_bytes());
        if self.training.mode != Mode::Train {
            return Parts::of(&[(Holds::Weights, all * element)]);
        }
        let [gradient, optimizer] = [memory.gradient_bytes, memory.optimizer_bytes].map(u128::from);
        let placement = self.placement();
        // Shares of the ranks that sum a gradient.
        let shared: u128 = [Scope::Dense, Scope::Expert]
            .into_iter()
            .zip(parameters)
            .map(|(scope, count)| {
                u128::from(count).div_ceil(placement.gradient_group_size(scope).into())
            })
            .sum();
        let copies = match self.compute.products.precision {
            Precision::Fp8 => 2,
            Precision::Bf16 => 0,
        };
        let (weights, gradients, optimizer) = match memory.shard {
            Shard::None => ((element + copies) * all, gradient * all, optimizer * all),
            Shard::Optimizer => ((element + copies) * all, gradient * all, optimizer * shared),
            Shard::Full if self.parallelism.pp > 1 => {
                (element * all, gradient * all, optimizer * shared)
            }
            Shard::Full => {
                let [layer, ends] = self.largest_modules(stage);
                let head =
                    if self.has_part(stage, self.parts() - 1) { self.head_parameters() } else { 0 };
                let whole = (element + gradient) * layer.max(ends);
                (
                    element * (2 * layer + u128::from(head)),
                    gradient * shared + whole,
                    optimizer * shared,
                )
            }
        };
        Parts::of(&[
            (Holds::Weights, weights),
            (Holds::Gradients, gradients),
            (Holds::Optimizer, optimizer),
        ])
    }

    /// Parameters of a stage's largest layer, and of the larger of embedding and head, if it has one.
    fn largest_modules(&self, stage: u32) -> [u128; 2] {
        let layers = (0..self.chunks()).flat_map(|chunk| self.layers(stage, chunk));
        let layer = layers.map(|at| self.dense_parameters(at) + self.expert_parameters(at)).max();
        let embedding = match self.has_part(stage, 0) {
            true => self.model.embedding_weights().per_gpu(self.parallelism.tp),
            false => 0,
        };
        let head = match self.has_part(stage, self.parts() - 1) {
            true => self.head_parameters(),
            false => 0,
        };
        [layer.unwrap_or(0), embedding.max(head)].map(u128::from)
    }
}
