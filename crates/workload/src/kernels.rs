//! What a GPU runs for each component of a layer: matrix products and fused attention, with shapes.
//!
//! Modelled: the projections of attention (those of queries, keys and values in one; MLA's two
//! compressions in one, on a rank's share of the tokens), scores with a causal mask, gate and up
//! projections of SwiGLU in one, experts as one grouped product, router and head. Backward, each
//! product `m x k` by `k x n` is two: `m x n` by `n x k` for its input's gradient, and `n x m` by `m x k`
//! for its weights'; scores are computed anew (FlashAttention, arXiv 2205.14135, Section 3.1). What is
//! neither: bytes of norms, residuals, rotary embeddings, activations and of casts to FP8, read and
//! written once.
//! What a training does besides is in `besides.rs`.
//! Ignored: the experts of a rank that get more than others of it; a split of long products over k.
//! Checked: FLOPs are those of `model.rs`, of every model, split and pass.

use crate::component::Component;
use crate::job::Job;
use crate::kernel::{Kernel, Kernels, Precision, Product, Scores};
use crate::pipeline::Pass;

impl Job {
    /// What a component runs for one micro-batch on one GPU; experts where the EP rank received
    /// `assignments` token assignments, evenly over its experts.
    ///
    /// ```
    /// use lightloom_workload::{Component, Kernel, Pass, example};
    /// let job = example::deepseek_r1();
    /// let experts = job.kernels(Component::Expert, Pass::Forward, job.assignments_per_rank());
    /// let [Kernel::Product(up), Kernel::Product(down)] = experts.kernels[..] else { panic!() };
    /// assert_eq!((up.groups, up.m, up.n, up.k), (4, 65_536, 4096, 7168));
    /// assert_eq!((down.groups, down.m, down.n, down.k), (4, 65_536, 7168, 2048));
    /// ```
    pub fn kernels(&self, component: Component, pass: Pass, assignments: u64) -> Kernels {
        let (model, tp) = (&self.model, u64::from(self.parallelism.tp));
        let (hidden, tokens) = (u64::from(model.hidden), self.tokens_per_rank());
        let experts = u64::from(model.experts / self.parallelism.ep).max(1);
        let own = tokens.div_ceil(self.sequence_shards().into());
        // Router and head stay in bf16, as attention itself does: DeepSeek-V3, Section 3.3.1.
        let layers = self.compute.products.precision;
        let half = Precision::Bf16;
        let shared = u64::from(model.shared_experts) * u64::from(model.shared_intermediate);
        let mut list = List { job: self, pass, found: Kernels::default() };
        match component {
            Component::Attention => {
                for (m, n, k) in self.projections() {
                    list.product([m, n, k, 1], layers);
                }
                list.scores();
                let [query, key, _] = model.attention.projection_widths();
                // Of norm and residual a rank has its tokens, or all.
                let own = hidden * tp / u64::from(self.sequence_shards());
                // Norm, both rotary embeddings, residual.
                list.elements(tokens * (4 * own + 2 * (query + key)) / tp, 4);
            }
            Component::Gate => {
                list.product([own, u64::from(model.experts), hidden, 1], half);
                // Norm, softmax, choice, permutation and back, residual.
                list.elements(own * hidden * (5 + 2 * u64::from(model.top_k)), 6);
            }
            Component::Expert => {
                let shards = u64::from(self.parallelism.expert_shards());
                let width = u64::from(model.expert_intermediate).div_ceil(shards);
                let m = assignments.div_ceil(experts);
                list.swiglu([m, hidden, width, experts], layers);
            }
            Component::SharedExpert => {
                list.swiglu([tokens, hidden, shared.div_ceil(tp), 1], layers);
            }
            Component::DenseMlp => {
                let width = u64::from(model.dense_intermediate).div_ceil(tp);
                list.swiglu([tokens, hidden, width, 1], layers);
                list.elements(own * 4 * hidden, 2);
            }
            Component::Head => {
                let width = u64::from(model.vocabulary).div_ceil(tp);
                list.product([tokens, width, hidden, 1], half);
                list.elements(tokens * width + own * 2 * hidden, 1);
                list.loss(tokens * width);
            }
            Component::Embedding => {
                list.elements(2 * tokens * hidden, 1);
                list.dense_gradient(u64::from(model.vocabulary).div_ceil(tp) * hidden);
            }
            Component::Optimizer => {}
        }
        list.found
    }

    /// The projections around attention, forward: m, n, k.
    pub(crate) fn projections(&self) -> Vec<(u64, u64, u64)> {
        use crate::attention::Attention;
        let (tp, tokens) = (u64::from(self.parallelism.tp), self.tokens_per_rank());
        let own = tokens.div_ceil(self.sequence_shards().into());
        let hidden = u64::from(self.model.hidden);
        let [query, key, value] = self.model.attention.projection_widths();
        match self.model.attention {
            Attention::Gqa { .. } => vec![
                (tokens, (query + key + value).div_ceil(tp), hidden),
                (tokens, hidden, query.div_ceil(tp)),
            ],
            Attention::Mla {
                heads,
                q_lora_rank,
                kv_lora_rank,
                qk_nope_head_dim,
                qk_rope_head_dim,
                ..
            } => {
                let [q_rank, kv_rank] = [q_lora_rank, kv_lora_rank].map(u64::from);
                let down = q_rank + kv_rank + u64::from(qk_rope_head_dim);
                let from = if q_rank == 0 { hidden } else { q_rank };
                let expanded = u64::from(heads) * u64::from(qk_nope_head_dim) + value;
                vec![
                    (own, down, hidden),
                    (tokens, query.div_ceil(tp), from),
                    (tokens, expanded.div_ceil(tp), kv_rank),
                    (tokens, hidden, value.div_ceil(tp)),
                ]
            }
        }
    }
}

/// What is found so far.
pub(crate) struct List<'a> {
    pub job: &'a Job,
    pub pass: Pass,
    pub found: Kernels,
}

impl List<'_> {
    /// A forward product, or the two that it is backward.
    fn product(&mut self, [m, n, k, groups]: [u64; 4], precision: Precision) {
        let training = &self.job.training;
        let element = f64::from(training.activation_bytes);
        let mut push = |m, n, k, out_bytes| {
            let product = Product { m, n, k, groups, precision, out_bytes };
            self.found.kernels.push(Kernel::Product(product));
        };
        let mut casts = 0.0;
        let cast = element + 1.0;
        let of = |a: u64, b: u64| (groups * a * b) as f64;
        match self.pass {
            Pass::Backward => {
                push(m, k, n, element);
                // Added to the gradient that is there.
                push(n, k, m, 2.0 * f64::from(self.job.added_bytes()));
                // Along both axes of the output's gradient; the stored input is cast anew along
                // the other one (DeepSeek-V3, Section 3.5.2).
                casts += 2.0 * cast * of(m, n) + 2.0 * of(m, k);
            }
            // Of the product's two, the one that a split backward pass computes apart: `split.rs` takes its share of the whole.
            Pass::Forward | Pass::Recompute | Pass::Weight | Pass::None => {
                push(m, n, k, element);
                casts += cast * of(m, k);
            }
        }
        if precision == Precision::Fp8 {
            self.found.other_bytes += casts;
            self.found.launches += if self.pass == Pass::Backward { 3 } else { 1 };
        }
    }

    /// Gate and up projections in one, the activation, the down projection.
    fn swiglu(&mut self, [m, hidden, width, groups]: [u64; 4], precision: Precision) {
        self.product([m, 2 * width, hidden, groups], precision);
        self.product([m, hidden, width, groups], precision);
        self.elements(3 * m * width * groups, 1);
    }

    /// Elements that are read or written besides: forward so many, backward twice; by so many kernels.
    fn elements(&mut self, forward: u64, kernels: u32) {
        self.found.launches += kernels;
        let passes = if self.pass == Pass::Backward { 2.0 } else { 1.0 };
        let element = f64::from(self.job.training.activation_bytes);
        self.found.other_bytes += passes * element * forward as f64;
    }

    fn scores(&mut self) {
        let (job, attention) = (self.job, &self.job.model.attention);
        let heads = u64::from(attention.heads());
        let [key_width, value_width] = attention.score_widths().map(|all| all / heads);
        let length = u64::from(job.training.sequence_length);
        self.found.kernels.push(Kernel::Scores(Scores {
            sequences: u64::from(job.training.micro_batch),
            heads: heads / u64::from(job.parallelism.tp),
            queries: length / u64::from(job.parallelism.cp),
            keys: length,
            key_width,
            value_width,
            pass: self.pass,
        }));
    }
}

#[cfg(test)]
mod tests;
