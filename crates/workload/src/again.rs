//! How long backward tasks take longer, where modules of a layer are computed anew inside them.
//!
//! Modelled: products and scores by their shapes or by their share of the peak, as in the forward pass;
//! norms and activations read and write memory once. See [`crate::recompute`].

use crate::attention::Attention;
use crate::component::Component;
use crate::compute::Compute;
use crate::job::Job;
use crate::kernel::{Kernel, Precision, Product};
use crate::pipeline::Pass;
use crate::products::Efficiency;
use crate::recompute::{Module, Recompute};

/// What the backward task of a component computes anew \[s\].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Again {
    pub component: Component,
    pub fixed_s: f64,
    /// For each token assignment of the most loaded rank.
    pub assignment_s: f64,
}

impl Job {
    /// Whether each layer's forward pass is run twice.
    pub(crate) fn repeats_layers(&self) -> bool {
        self.training.recompute == Recompute::Full
    }

    /// Whether a module is computed anew by itself.
    pub(crate) fn repeats(&self, module: Module) -> bool {
        let training = &self.training;
        training.recompute == Recompute::Selective && training.recompute_modules.contains(&module)
    }

    /// What backward tasks compute anew, where products take `slowdown` times what the roofline says.
    pub(crate) fn again(&self, slowdown: f64) -> Vec<Again> {
        let (model, t, compute) = (&self.model, &self.training, &self.compute);
        let tokens = self.tokens_per_rank();
        let own = tokens as f64 / f64::from(self.sequence_shards());
        let (tp, etp) = (self.parallelism.tp, self.parallelism.expert_shards());
        let element = f64::from(t.activation_bytes);
        let mut found = Vec::new();
        let mut add = |component, fixed_s, assignment_s| {
            found.push(Again { component, fixed_s, assignment_s });
        };
        if self.repeats(Module::CoreAttn) {
            let all = self.kernels(Component::Attention, Pass::Forward, 0).kernels;
            let scores = all.iter().filter(|kernel| matches!(kernel, Kernel::Scores(_)));
            add(Component::Attention, slowdown * seconds(compute, scores), 0.0);
        }
        if self.repeats(Module::MlaUpProj) {
            let products = self.up_projections();
            add(Component::Attention, slowdown * seconds(compute, products.iter()), 0.0);
        }
        if self.repeats(Module::Norms) {
            let norm = compute.memory_s(2.0 * element * own * f64::from(model.hidden));
            add(Component::Attention, norm, 0.0);
            add(Component::Gate, norm, 0.0);
            add(Component::DenseMlp, norm, 0.0);
        }
        if self.repeats(Module::Activations) {
            // Two are read and one is written, for each token and each element of a rank's width.
            let width = |width: u32, shards: u32| {
                compute.memory_s(3.0 * element * f64::from(width) / f64::from(shards))
            };
            let shared = f64::from(model.shared_experts) * width(model.shared_intermediate, tp);
            add(Component::Expert, tokens as f64 * shared, width(model.expert_intermediate, etp));
            add(Component::DenseMlp, tokens as f64 * width(model.dense_intermediate, tp), 0.0);
        }
        found
    }

    /// The products that expand latent attention's queries, keys and values.
    fn up_projections(&self) -> Vec<Kernel> {
        let precision = self.compute.products.precision;
        let out_bytes = f64::from(self.training.activation_bytes);
        let kernel = |&(m, n, k): &(u64, u64, u64)| {
            Kernel::Product(Product { m, n, k, groups: 1, precision, out_bytes })
        };
        match self.model.attention {
            // Down, queries up, keys and values up, out.
            Attention::Mla { .. } => self.projections()[1..3].iter().map(kernel).collect(),
            Attention::Gqa { .. } => Vec::new(),
        }
    }
}

/// How long kernels take, by their shapes or by a share of the peak \[s\].
fn seconds<'a>(compute: &Compute, kernels: impl Iterator<Item = &'a Kernel>) -> f64 {
    let one = |kernel: &Kernel| match (compute.products.efficiency, kernel) {
        (Efficiency::Shape | Efficiency::Training, _) => compute.kernel_s(kernel).0,
        (Efficiency::Share, Kernel::Product(Product { precision: Precision::Fp8, .. })) => {
            compute.matmul_s(compute.at_bf16(kernel.flops()))
        }
        (Efficiency::Share, _) => compute.matmul_s(kernel.flops()),
    };
    kernels.map(one).sum()
}
