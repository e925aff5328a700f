//! What a training does besides products and scores: `compute.efficiency = "training"`.
//!
//! Modelled, as Megatron-Core does it: weights' gradients are added up at their own precision, read and
//! written for each micro-batch (`gradient_accumulation_fusion`); the embedding's gradient is cleared,
//! written and added to the sum as a whole matrix, also where few of its rows were looked up; the loss
//! passes over its logits in fp32 (`vocab_parallel_cross_entropy`), half of `compute.loss_bytes` forward
//! and half backward; each kernel that only moves memory starts as a product does.
//! Ignored: kernels that start late because the CPU is busy, clipping of gradients, data loading.
//! Checked: each term by its closed form (`tests/all/besides.rs`), trainings that were measured
//! (docs/compute.md).

use crate::compute::Compute;
use crate::curve::START_S;
use crate::job::Job;
use crate::kernels::List;
use crate::pipeline::Pass;
use crate::products::Efficiency;

impl Compute {
    fn whole(&self) -> bool {
        self.products.efficiency == Efficiency::Training
    }

    /// What starts of kernels take that are no products \[s\].
    pub(crate) fn launches_s(&self, launches: u32) -> f64 {
        if self.whole() { f64::from(launches) * START_S } else { 0.0 }
    }
}

impl Job {
    /// Bytes of a weight's gradient as it is added up.
    pub(crate) fn added_bytes(&self) -> u32 {
        match self.compute.whole() {
            true => self.compute.products.gradient_bytes,
            false => self.training.gradient_bytes,
        }
    }
}

impl List<'_> {
    /// The passes over logits that the loss makes.
    pub(crate) fn loss(&mut self, logits: u64) {
        if self.job.compute.whole() {
            let bytes = f64::from(self.job.compute.products.loss_bytes) / 2.0;
            self.found.other_bytes += bytes * logits as f64;
            // Forward: fp32, maximum, difference, exponential, sum, quotient; backward: product, bf16.
            self.found.launches += if self.pass == Pass::Backward { 2 } else { 6 };
        }
    }

    /// The gradient of a matrix of which rows were looked up.
    pub(crate) fn dense_gradient(&mut self, weights: u64) {
        if self.job.compute.whole() && self.pass == Pass::Backward {
            let element = self.job.training.activation_bytes;
            let bytes = 2 * element + 2 * self.job.added_bytes();
            self.found.other_bytes += f64::from(bytes) * weights as f64;
            self.found.launches += 2;
        }
    }
}
