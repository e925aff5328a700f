//! Shapes of mixture-of-experts transformers: parameters, FLOPs and bytes of each component.
//!
//! Modelled: grouped-query and multi-head latent attention, SwiGLU experts (three matrices), shared
//! experts, dense layers (the first ones, between others, or all), embedding and output head, tied
//! or not, RMS norms, the router, attention's biases.
//! Ignored: biases of networks and router, multi-token prediction heads, rotary tables. The first
//! and the last of several pipeline stages each hold a tied embedding, as in Megatron-LM; the sum of
//! its gradients over both is left out.
//! Checked: parameter totals of Mixtral 8x7B, 8x22B and DeepSeek-V3 against those published, and of
//! every model of `tests/data/models` through Python.

use crate::attention::Attention;
use crate::error::{WorkloadError, multiple, require, within};
use serde::Deserialize;

/// A transformer with or without experts. Widths are in elements; see the module for what is left out.
///
/// ```
/// use lightloom_workload::{Attention, Bias, Model};
/// let mixtral = Model {
///     name: "mixtral-8x7b".into(), layers: 32, dense_layers: 0, moe_layer_step: 1,
///     hidden: 4096, vocabulary: 32000,
///     attention: Attention::Gqa { heads: 32, kv_heads: 8, head_dim: 128, bias: Bias::None },
///     experts: 8, top_k: 2, expert_intermediate: 14336,
///     shared_experts: 0, shared_intermediate: 0, dense_intermediate: 0, tied_embeddings: false,
///     expert_groups: 1, groups_per_token: 1,
/// };
/// mixtral.validate().unwrap();
/// assert_eq!(mixtral.parameters(), 46_702_792_704);
/// assert_eq!(mixtral.active_parameters(), 12_879_925_248);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// How the model is called in results.
    pub name: String,
    /// All layers, dense ones included.
    pub layers: u32,
    /// The first so many layers have a dense MLP instead of experts: all, if there are none.
    pub dense_layers: u32,
    /// After them every so many-th layer has experts, the first of them included; 1: all of them.
    #[serde(default = "one")]
    pub moe_layer_step: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Rows of the embedding and of the output head.
    pub vocabulary: u32,
    /// The attention block.
    pub attention: Attention,
    /// Routed experts a layer; 0: a dense model.
    pub experts: u32,
    /// Routed experts a token.
    pub top_k: u32,
    /// Width of one routed expert.
    pub expert_intermediate: u32,
    /// Experts that every token visits.
    pub shared_experts: u32,
    /// Width of one shared expert.
    pub shared_intermediate: u32,
    /// Width of the MLP of a dense layer.
    pub dense_intermediate: u32,
    /// Whether embedding and output head are one matrix.
    #[serde(default)]
    pub tied_embeddings: bool,
    /// Groups of consecutive experts, of which a token chooses some; 1: there are none.
    #[serde(default = "one")]
    pub expert_groups: u32,
    /// A token's experts are in so many of the groups at most (DeepSeek-V3, Section 2.1.2).
    #[serde(default = "one")]
    pub groups_per_token: u32,
}

fn one() -> u32 {
    1
}

/// Parameters of a component: those that tensor parallelism splits, and those it replicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    pub split: u64,
    pub replicated: u64,
}

/// What a component does for one micro-batch on one GPU, forward.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    pub flops: f64,
    /// Bytes that cross the GPU's memory interface.
    pub bytes: f64,
}

impl Weights {
    pub fn per_gpu(self, tp: u32) -> u64 {
        self.split.div_ceil(u64::from(tp)) + self.replicated
    }
    pub fn total(self) -> u64 {
        self.split + self.replicated
    }
}

impl std::ops::Add for Weights {
    type Output = Weights;
    fn add(self, other: Weights) -> Weights {
        Weights { split: self.split + other.split, replicated: self.replicated + other.replicated }
    }
}

impl Model {
    /// Checks every field, and that byte and parameter counts fit in 64 bits.
    ///
    /// # Errors
    /// Names the first key that is out of range.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        within("model.layers", self.layers, 1..=4096)?;
        within("model.hidden", self.hidden, 1..=1 << 17)?;
        within("model.vocabulary", self.vocabulary, 1..=1 << 24)?;
        within("model.experts", self.experts, 0..=1 << 16)?;
        within("model.top_k", self.top_k, 0..=self.experts)?;
        within("model.expert_intermediate", self.expert_intermediate, 0..=1 << 20)?;
        within("model.shared_experts", self.shared_experts, 0..=1024)?;
        let least = u32::from(self.shared_experts > 0);
        within("model.shared_intermediate", self.shared_intermediate, least..=1 << 20)?;
        within("model.moe_layer_step", self.moe_layer_step, 1..=self.layers)?;
        self.validate_experts()?;
        self.validate_groups()?;
        let least = u32::from(self.moe_layers() < self.layers);
        within("model.dense_intermediate", self.dense_intermediate, least..=1 << 20)?;
        self.attention.validate()?;
        require(self.parameters_wide() < 1 << 56, "model.layers", self.layers, || {
            "the model must have fewer than 2^56 parameters".into()
        })
    }

    /// Checks that a layer has experts, or that nothing else speaks of experts.
    fn validate_experts(&self) -> Result<(), WorkloadError> {
        let (layers, dense) = (self.layers, self.dense_layers);
        let some = self.experts > 0;
        require(some || dense == layers, "model.dense_layers", dense, || {
            format!("must equal model.layers = {layers}, as model.experts = 0")
        })?;
        require(!some || dense < layers, "model.dense_layers", dense, || {
            format!("must be below model.layers = {layers}, so that one layer has experts")
        })?;
        for (key, value) in
            [("top_k", self.top_k), ("expert_intermediate", self.expert_intermediate)]
        {
            require(some == (value > 0), &format!("model.{key}"), value, || match some {
                true => "must be at least 1, as model.experts is not 0".into(),
                false => "must be 0, as model.experts = 0".into(),
            })?;
        }
        require(
            some || self.shared_experts == 0,
            "model.shared_experts",
            self.shared_experts,
            || "must be 0, as model.experts = 0".into(),
        )
    }

    /// Checks that groups share the experts, and that a token finds as many as it wants in its groups.
    fn validate_groups(&self) -> Result<(), WorkloadError> {
        let (groups, most) = (self.expert_groups, self.groups_per_token);
        within("model.expert_groups", groups, 1..=self.experts.max(1))?;
        multiple("model.experts", self.experts, "model.expert_groups", groups)?;
        within("model.groups_per_token", most, 1..=groups)?;
        let held = self.experts / groups * most;
        require(self.top_k <= held, "model.groups_per_token", most, || {
            format!("its groups hold {held} experts; a token chooses model.top_k = {}", self.top_k)
        })
    }

    /// Whether `layer` (counted from 0) has experts.
    pub fn is_moe(&self, layer: u32) -> bool {
        self.moe_index(layer).is_some()
    }

    /// How many layers with experts come before `layer`, if it has experts itself.
    pub(crate) fn moe_index(&self, layer: u32) -> Option<u32> {
        let after = layer.checked_sub(self.dense_layers)?;
        (after % self.moe_layer_step == 0).then_some(after / self.moe_layer_step)
    }

    /// Layers that have experts. Meaningful for a validated model, as all that follows.
    pub fn moe_layers(&self) -> u32 {
        self.layers.saturating_sub(self.dense_layers).div_ceil(self.moe_layer_step)
    }

    /// Layers that have none.
    pub fn dense_mlp_layers(&self) -> u32 {
        self.layers - self.moe_layers()
    }

    /// All parameters, embedding and head included; a tied embedding counts once.
    pub fn parameters(&self) -> u64 {
        u64::try_from(self.parameters_wide()).unwrap_or(u64::MAX)
    }

    /// Parameters that a token meets: all but the routed experts that it is not sent to.
    pub fn active_parameters(&self) -> u64 {
        let idle = u64::from(self.experts - self.top_k) * u64::from(self.moe_layers());
        self.parameters() - idle * self.expert_weights()
    }

    /// Parameters of the input embedding.
    pub fn embedding_parameters(&self) -> u64 {
        self.embedding_weights().total()
    }

    fn parameters_wide(&self) -> u128 {
        let dense = self.attention_weights().total() + self.dense_mlp_weights().total();
        let moe = self.attention_weights().total()
            + self.router_weights().total()
            + self.shared_weights().total()
            + self.expert_weights() * u64::from(self.experts);
        let copied = if self.tied_embeddings { self.embedding_parameters() } else { 0 };
        u128::from(dense) * u128::from(self.dense_mlp_layers())
            + u128::from(moe) * u128::from(self.moe_layers())
            + u128::from(self.embedding_parameters() + self.head_weights().total() - copied)
    }

    /// Attention's matrices and biases, and both norms of the layer.
    pub(crate) fn attention_weights(&self) -> Weights {
        let hidden = u64::from(self.hidden);
        let (split, replicated) = self.attention.matrices(hidden);
        let (split_bias, bias) = self.attention.biases(hidden);
        let norms = self.attention.norms() + 2 * hidden;
        Weights { split: split + split_bias, replicated: replicated + bias + norms }
    }

    pub(crate) fn router_weights(&self) -> Weights {
        Weights { split: 0, replicated: u64::from(self.hidden) * u64::from(self.experts) }
    }

    /// One routed expert.
    pub(crate) fn expert_weights(&self) -> u64 {
        self.swiglu_weights(self.expert_intermediate)
    }

    /// All shared experts of a layer.
    pub(crate) fn shared_weights(&self) -> Weights {
        Weights {
            split: self.swiglu_weights(self.shared_intermediate) * u64::from(self.shared_experts),
            replicated: 0,
        }
    }

    pub(crate) fn dense_mlp_weights(&self) -> Weights {
        Weights { split: self.swiglu_weights(self.dense_intermediate), replicated: 0 }
    }

    pub(crate) fn embedding_weights(&self) -> Weights {
        Weights { split: u64::from(self.vocabulary) * u64::from(self.hidden), replicated: 0 }
    }

    /// The output head and the norm before it.
    pub(crate) fn head_weights(&self) -> Weights {
        Weights {
            split: u64::from(self.vocabulary) * u64::from(self.hidden),
            replicated: u64::from(self.hidden),
        }
    }

    fn swiglu_weights(&self, width: u32) -> u64 {
        3 * u64::from(self.hidden) * u64::from(width)
    }

    /// FLOPs of a token's attention, forward, all TP shards together. Causal: a token sees half of
    /// the sequence on average.
    pub(crate) fn attention_flops(&self, sequence_length: u32) -> f64 {
        let (split, replicated) = self.attention.matrices(u64::from(self.hidden));
        2.0 * (split + replicated) as f64 + self.score_flops(sequence_length)
    }

    /// FLOPs of a token's scores and of its sum of values, forward, causal.
    pub(crate) fn score_flops(&self, sequence_length: u32) -> f64 {
        let [query, value] = self.attention.score_widths();
        f64::from(sequence_length) * (query + value) as f64
    }

    /// FLOPs of a token, forward, through the whole model, if each token saw the whole sequence: how
    /// PaLM (arXiv 2204.02311, Appendix B) and others count them for the model's FLOPs utilisation.
    pub fn token_flops_uncausal(&self, sequence_length: u32) -> f64 {
        let unseen = self.score_flops(sequence_length) * f64::from(self.layers);
        self.token_flops(sequence_length) + unseen
    }

    /// FLOPs of a token, forward, through the whole model.
    pub fn token_flops(&self, sequence_length: u32) -> f64 {
        let experts = self.expert_weights() * u64::from(self.top_k)
            + self.shared_weights().total()
            + self.router_weights().total();
        self.attention_flops(sequence_length) * f64::from(self.layers)
            + 2.0 * experts as f64 * f64::from(self.moe_layers())
            + 2.0 * self.dense_mlp_weights().total() as f64 * f64::from(self.dense_mlp_layers())
            + self.head_flops()
    }

    /// FLOPs of a token's logits, forward.
    pub(crate) fn head_flops(&self) -> f64 {
        2.0 * self.embedding_weights().total() as f64
    }

    /// Attention and its norm and residual for `tokens` tokens on each of `tp` GPUs.
    pub(crate) fn attention_work(&self, load: Load, sequence_length: u32) -> Work {
        let hidden = f64::from(self.hidden);
        let [query, key, value] = self.attention.projection_widths();
        // Gathered input and partial output are whole on each TP rank; the rest is a shard: norm
        // and residual (read and write each), queries, keys, values and the heads' outputs.
        let whole = 2.0 * hidden;
        let shard = load.own(4.0 * hidden) + 2.0 * (query + key + 2 * value) as f64;
        let (split, replicated) = self.attention.matrices(u64::from(self.hidden));
        let faster = 2.0 * (split + replicated) as f64 * (1.0 - load.weight_speed());
        Work {
            flops: load.tokens * (self.attention_flops(sequence_length) - faster) / load.tp,
            bytes: load.bytes(self.attention_weights(), whole, shard),
        }
    }

    /// Norm, router, and the permutation of tokens into the order of sending and back.
    pub(crate) fn gate_work(&self, load: Load) -> Work {
        let (hidden, top_k) = (f64::from(self.hidden), f64::from(self.top_k));
        let router = self.router_weights();
        Work {
            flops: 2.0 * load.tokens * router.total() as f64 / load.sequence,
            bytes: load.bytes(router, 0.0, load.own(hidden * (5.0 + 2.0 * top_k))),
        }
    }

    /// A grouped GEMM: `load.tokens` assignments over `experts` local experts.
    pub(crate) fn expert_work(&self, load: Load, experts: u32) -> Work {
        let weights = Weights { split: self.expert_weights() * u64::from(experts), replicated: 0 };
        Work {
            flops: 2.0 * load.weight_speed() * load.tokens * self.expert_weights() as f64 / load.tp,
            bytes: self.swiglu_bytes(load, weights, self.expert_intermediate),
        }
    }

    pub(crate) fn shared_work(&self, load: Load) -> Work {
        let weights = self.shared_weights();
        Work {
            flops: 2.0 * load.weight_speed() * load.tokens * weights.total() as f64 / load.tp,
            // At most 1024 * 2^20, by `validate`.
            bytes: self.swiglu_bytes(load, weights, self.shared_experts * self.shared_intermediate),
        }
    }

    pub(crate) fn dense_mlp_work(&self, load: Load) -> Work {
        let weights = self.dense_mlp_weights();
        Work {
            flops: 2.0 * load.weight_speed() * load.tokens * weights.total() as f64 / load.tp,
            bytes: self.swiglu_bytes(load, weights, self.dense_intermediate),
        }
    }

    pub(crate) fn embedding_work(&self, load: Load) -> Work {
        Work {
            flops: 0.0,
            bytes: load.bytes(Weights::default(), 2.0 * f64::from(self.hidden), 0.0),
        }
    }

    pub(crate) fn head_work(&self, load: Load) -> Work {
        let shard = 2.0 * f64::from(self.vocabulary);
        Work {
            flops: load.weight_speed() * load.tokens * self.head_flops() / load.tp,
            bytes: load.bytes(self.head_weights(), f64::from(self.hidden), shard),
        }
    }

    /// Input and output whole; the two up-projections and their product written and read once.
    fn swiglu_bytes(&self, load: Load, weights: Weights, width: u32) -> f64 {
        load.bytes(weights, 2.0 * f64::from(self.hidden), 6.0 * f64::from(width))
    }
}

/// Tokens that a component works on, and how they are held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub tokens: f64,
    pub tp: f64,
    /// TP ranks that share the tokens themselves, between products.
    pub sequence: f64,
    pub bytes_per_element: f64,
    /// Of an element of weights.
    pub weight_bytes: f64,
}

impl Load {
    /// Memory traffic: the weights once, and for each token `whole` elements on each GPU and
    /// `shard` elements split over TP.
    pub fn bytes(self, weights: Weights, whole: f64, shard: f64) -> f64 {
        let weights = weights.split as f64 / self.tp + weights.replicated as f64;
        self.weight_bytes * weights
            + self.bytes_per_element * self.tokens * (whole + shard / self.tp)
    }

    /// Elements of a token between the products, in shards of TP: more where ranks have all tokens.
    pub fn own(self, elements: f64) -> f64 {
        elements * (self.tp / self.sequence)
    }

    /// The time of a product with weights, as a share of that of one of activations: see
    /// [`crate::serving`].
    pub fn weight_speed(self) -> f64 {
        (self.weight_bytes / self.bytes_per_element).min(1.0)
    }
}

#[cfg(test)]
mod tests;
