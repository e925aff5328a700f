//! What a layer keeps of a micro-batch for its backward pass, and what it works with for a moment.
//!
//! Modelled: of t tokens on a rank and its s-th part under sequence parallelism, in elements: both norms keep
//! their inputs and outputs, 4 t h / s; attention keeps queries, keys, values and its output, shared by TP, and
//! a sum of exponentials a query and head in fp32; latent attention, in its training form, keeps both
//! compressions before and behind their norms and each head's queries, keys and values; an MLP keeps gate, up
//! and their product; experts keep their input whole on each of the ranks that share an expert, for it is gathered
//! behind the all-to-all, and as an MLP; the router keeps probabilities in fp32. What products with weights read is kept at 8 bits
//! where they are at 8 bits, and nothing is kept twice: a norm's output is what the product behind it reads.
//! The weighting of experts' outputs is fused into their activation (Megatron-Core), so that what comes back
//! from experts is not kept.
//! For a moment there are: buffers of one all-to-all, what is sent and what is received, at the activations'
//! precision; the gradients of one component's outputs; what a layer computes anew.
//! Ignored: masks, indices of permutations, rotary tables, copies that fused kernels avoid.
//! Checked: Korthikanti's 34 s b h less what is not there, by hand; PyTorch's own saved tensors in
//! `tests/pytorch`.

use super::parts::{Holds, Parts};
use super::settings::Memory;
use crate::attention::Attention;
use crate::job::Job;
use crate::kernel::Precision;
use crate::recompute::Module;
use crate::training::Mode;

/// Bytes of fp32, which sums and probabilities have whatever activations have.
const SINGLE: u128 = 4;

/// Sizes that a layer's activations follow from.
struct Sizes {
    /// Tokens of a rank.
    tokens: u128,
    /// Those that are its own between products.
    own: u128,
    /// Assignments that a rank's experts receive.
    received: u128,
    hidden: u128,
    tp: u128,
    /// GPUs that share an expert.
    etp: u128,
    /// Bytes of an element, of one that a product with weights reads, and of gate and up.
    element: u128,
    read: u128,
    gated: u128,
}

impl Sizes {
    fn of(job: &Job, memory: &Memory) -> Self {
        let tokens = u128::from(job.tokens_per_rank());
        let element = u128::from(job.training.activation_bytes);
        let even = job.assignments_per_rank() as f64;
        Sizes {
            tokens,
            own: tokens.div_ceil(job.sequence_shards().into()),
            received: (even * memory.expert_load).ceil() as u128,
            hidden: job.model.hidden.into(),
            tp: job.parallelism.tp.into(),
            etp: job.parallelism.expert_shards().into(),
            element,
            read: match job.compute.products.precision {
                Precision::Fp8 => 1,
                Precision::Bf16 => element,
            },
            gated: match memory.swiglu_bytes {
                0 => element,
                bytes => bytes.into(),
            },
        }
    }

    /// Bytes of so many elements of each token, shared by TP.
    fn shard(&self, width: u64, bytes: u128) -> u128 {
        bytes * self.tokens * u128::from(width).div_ceil(self.tp)
    }
}

impl Job {
    /// What a layer keeps if nothing is computed anew.
    pub(super) fn kept_whole(&self, memory: &Memory, layer: u32) -> Parts {
        self.kept_but(memory, layer, &[])
    }

    /// What a layer keeps.
    pub(super) fn kept(&self, memory: &Memory, layer: u32) -> Parts {
        if self.repeats_layers() {
            return Parts::of(&[(Holds::LayerInputs, self.layer_input(memory))]);
        }
        let all = [Module::CoreAttn, Module::Norms, Module::Activations, Module::MlaUpProj];
        let anew: Vec<Module> = all.into_iter().filter(|&module| self.repeats(module)).collect();
        self.kept_but(memory, layer, &anew)
    }

    /// Bytes of a layer's input.
    pub(super) fn layer_input(&self, memory: &Memory) -> u128 {
        let s = Sizes::of(self, memory);
        s.element * s.own * s.hidden
    }

    fn kept_but(&self, memory: &Memory, layer: u32, anew: &[Module]) -> Parts {
        let (s, model) = (Sizes::of(self, memory), &self.model);
        let kept = |module| !anew.contains(&module);
        let mut norms = 2 * s.element * s.own * s.hidden;
        if kept(Module::Norms) {
            norms += 2 * s.read * s.own * s.hidden;
        }
        let swiglu = |tokens: u128, width: u128, shards: u128| {
            let product = if kept(Module::Activations) { s.read } else { 0 };
            tokens * (2 * s.gated + product) * width.div_ceil(shards)
        };
        let (mlp, experts, router) = match model.is_moe(layer) {
            true => {
                let shared = u128::from(model.shared_experts);
                let own = swiglu(s.received, model.expert_intermediate.into(), s.etp);
                (
                    swiglu(s.tokens, shared * u128::from(model.shared_intermediate), s.tp),
                    s.read * s.received * s.hidden + own,
                    SINGLE * s.own * u128::from(model.experts),
                )
            }
            false => (swiglu(s.tokens, model.dense_intermediate.into(), s.tp), 0, 0),
        };
        Parts::of(&[
            (Holds::Norms, norms),
            (Holds::Attention, self.attention_kept(&s, anew)),
            (Holds::Mlp, mlp),
            (Holds::Experts, experts),
            (Holds::Router, router),
        ])
    }

    fn attention_kept(&self, s: &Sizes, anew: &[Module]) -> u128 {
        let kept = |module| !anew.contains(&module);
        let attention = &self.model.attention;
        let [query, key, value] = attention.projection_widths();
        let output = attention.score_widths()[1];
        let mut bytes = s.shard(output, s.element);
        if s.read != s.element {
            // Beside what attention keeps at its own precision, what the product behind it reads.
            bytes += s.shard(output, s.read);
        }
        if kept(Module::CoreAttn) {
            bytes += s.shard(attention.heads().into(), SINGLE);
        }
        let latent = matches!(attention, Attention::Mla { .. });
        if !latent || kept(Module::MlaUpProj) {
            bytes += s.shard(query + key + value, s.element);
        }
        if let Attention::Mla { q_lora_rank, kv_lora_rank, qk_rope_head_dim, .. } = *attention {
            let ranks = u128::from(q_lora_rank) + u128::from(kv_lora_rank);
            bytes += s.own * (s.element * (ranks + u128::from(qk_rope_head_dim)) + s.read * ranks);
        }
        bytes
    }

    /// What a layer's forward pass works with where it keeps nothing: its largest component.
    pub(super) fn forward_work(&self, memory: &Memory, layer: u32) -> u128 {
        let whole = self.kept_whole(memory, layer);
        self.layer_input(memory) + whole.largest()
    }

    /// Gradients that a layer's backward pass works with: of the residual stream, and of the component whose
    /// inputs, outputs and products' gradients are largest.
    pub(super) fn backward_work(&self, memory: &Memory, layer: u32) -> u128 {
        let (s, model) = (Sizes::of(self, memory), &self.model);
        let attention: u64 = model.attention.projection_widths().iter().sum();
        let attention = s.shard(attention + model.attention.score_widths()[1], s.element);
        // Of the output, the product, gate and up.
        let swiglu = |tokens: u128, width: u128, shards: u128| {
            s.element * tokens * (s.hidden + 3 * width.div_ceil(shards))
        };
        let network = match model.is_moe(layer) {
            true => swiglu(s.received, model.expert_intermediate.into(), s.etp),
            false => swiglu(s.tokens, model.dense_intermediate.into(), s.tp),
        };
        s.element * s.own * s.hidden + attention.max(network)
    }

    /// Buffers of one all-to-all: what is sent, and what is received.
    pub(super) fn exchange_buffers(&self, memory: &Memory, layer: u32) -> u128 {
        if self.parallelism.ep == 1 || !self.model.is_moe(layer) {
            return 0;
        }
        let s = Sizes::of(self, memory);
        let width = s.hidden / u128::from(self.exchange_shards());
        s.element * width * (u128::from(self.assignments_per_rank()) + s.received)
    }

    /// What the head keeps: the final norm's input and output.
    pub(super) fn head_kept(&self, memory: &Memory) -> Parts {
        let s = Sizes::of(self, memory);
        Parts::of(&[(Holds::Head, 2 * s.element * s.own * s.hidden)])
    }

    /// Logits of a micro-batch while the loss is taken.
    pub(super) fn logits_work(&self, memory: &Memory) -> Parts {
        let bytes = match self.training.mode {
            Mode::Train => u128::from(memory.logits_bytes),
            _ => SINGLE,
        };
        let width = u128::from(self.model.vocabulary).div_ceil(self.parallelism.tp.into());
        Parts::of(&[(Holds::Head, bytes * u128::from(self.logits()) * width)])
    }
}
