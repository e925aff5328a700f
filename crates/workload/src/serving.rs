//! What a model computes where nothing is trained: prompts read (prefill), and one token a sequence after
//! another (decode), which attends to a cache of keys and values.
//!
//! Modelled: prefill is the forward pass of training, with logits of each sequence's last token alone. In
//! decode a sequence has one token. Grouped-query attention reads the keys and values of all tokens before,
//! each group's once for its query heads. Latent attention keeps, for a token, its compressed keys and
//! values and the rotary part that all heads share, and attends in the compressed space: the expansions
//! are absorbed into queries and outputs (DeepSeek-V2, arXiv 2405.04434, Section 2.1.2; FlashMLA), so
//! that they cost what they cost in training, a score costs `kv_lora_rank + qk_rope_head_dim` and a value
//! `kv_lora_rank` products a head, and every TP rank reads the whole cache. The cache has activations'
//! precision. Products with weights go at the weights' precision, twice as fast at half the bytes, as data
//! sheets of NVIDIA's GPUs say of FP8 beside BF16; scores and values at the activations'
//! (`training.weight_bytes`).
//! Ignored: paging, sampling, speculative tokens, prompts that are cached, that sequences differ in length,
//! requests that come and go: a batch stands still.
//! Checked: FLOPs and bytes of both attentions by hand; FlashMLA's intensity.

use crate::attention::Attention;
use crate::job::Job;
use crate::model::{Load, Model, Work};
use crate::training::Mode;

impl Job {
    /// FLOPs that a token of the job needs in all passes, nothing computed anew: with the half of attention
    /// that a causal mask leaves, and with all of it ([`Model::token_flops_uncausal`]). Backward there are
    /// twice as many as forward.
    ///
    /// ```
    /// # use lightloom_workload::{Mode, example};
    /// let mut job = example::mixtral_8x7b();
    /// let [causal, full] = job.token_flops();
    /// assert!(causal < full);
    /// // A token that is decoded sees all that was before it.
    /// job.training.mode = Mode::Decode;
    /// assert_eq!(job.token_flops(), [full / 3.0; 2]);
    /// ```
    pub fn token_flops(&self) -> [f64; 2] {
        let (model, length) = (&self.model, self.training.sequence_length);
        let (causal, full) = (model.token_flops(length), model.token_flops_uncausal(length));
        match self.training.mode {
            Mode::Train => [3.0 * causal, 3.0 * full],
            Mode::Prefill => {
                // Only a sequence's last token has logits.
                let silent = model.head_flops() * (1.0 - 1.0 / f64::from(length));
                [causal - silent, full - silent]
            }
            Mode::Decode => [full, full],
        }
    }
}

impl Model {
    /// One token a sequence that attends to `context` tokens; `load.tokens` sequences on each of
    /// `load.tp` GPUs.
    pub(crate) fn decode_attention_work(&self, load: Load, context: u32) -> Work {
        let (split, replicated) = self.attention.matrices(u64::from(self.hidden));
        let context = f64::from(context);
        let weights = 2.0 * (split + replicated) as f64 * load.weight_speed();
        let [shared, sharded] = self.attention.cache_widths().map(|width| width as f64);
        let (hidden, widths) = (f64::from(self.hidden), self.attention.decode_widths() as f64);
        // As in training, but for keys and values: those of the context are read, a token's are written.
        let whole = 2.0 * hidden + shared * (context + 1.0);
        let shard = load.own(4.0 * hidden) + 2.0 * widths + sharded * (context + 1.0);
        Work {
            flops: load.tokens * (weights + 2.0 * context * widths) / load.tp,
            bytes: load.bytes(self.attention_weights(), whole, shard),
        }
    }

    /// Bytes of a sequence's cache of keys and values on one GPU of `tp`, of all layers.
    ///
    /// ```
    /// let v3 = lightloom_workload::example::deepseek_r1().model;
    /// // (512 + 64) * 2 bytes a token and layer: 70 kB a token (arXiv 2505.09343, Table 1).
    /// assert_eq!(v3.cache_bytes(1, 1, 2), 576 * 2 * 61);
    /// ```
    pub fn cache_bytes(&self, context: u64, tp: u32, element_bytes: u32) -> u64 {
        let [shared, sharded] = self.attention.cache_widths();
        let width = shared + sharded.div_ceil(u64::from(tp));
        width * u64::from(element_bytes) * context * u64::from(self.layers)
    }
}

impl Attention {
    /// Elements that a token leaves in a layer's cache: those that every TP rank has, and those that TP
    /// ranks share.
    pub(crate) fn cache_widths(&self) -> [u64; 2] {
        match *self {
            Attention::Gqa { kv_heads, head_dim, .. } => {
                [0, 2 * u64::from(kv_heads) * u64::from(head_dim)]
            }
            Attention::Mla { kv_lora_rank, qk_rope_head_dim, .. } => {
                [u64::from(kv_lora_rank) + u64::from(qk_rope_head_dim), 0]
            }
        }
    }

    /// Products of a new token with one token of the cache, scores and values of all heads.
    pub(crate) fn decode_widths(&self) -> u64 {
        match *self {
            Attention::Gqa { .. } => self.score_widths().iter().sum(),
            Attention::Mla { heads, kv_lora_rank, qk_rope_head_dim, .. } => {
                u64::from(heads) * (2 * u64::from(kv_lora_rank) + u64::from(qk_rope_head_dim))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn load(tokens: f64, tp: f64) -> Load {
        Load { tokens, tp, sequence: tp, bytes_per_element: 2.0, weight_bytes: 2.0 }
    }

    /// Mixtral 8x7B: 2 * (4096 + 1024) * 4096 * 2 products with weights and 4 * 4096 of scores and values
    /// for each of the context; 2 * 1024 elements of cache a token, shared by TP.
    #[test]
    fn grouped_queries_by_hand() {
        let model = example::mixtral_8x7b().model;
        let work = model.decode_attention_work(load(32.0, 4.0), 1000);
        let matrices = 4096 * (2 * 4096 + 2 * 1024);
        assert_eq!(work.flops, 32.0 * (2 * matrices + 1000 * 4 * 4096) as f64 / 4.0);
        let weights = matrices / 4 + 2 * 4096;
        let token = 2 * 4096 + (4 * 4096 + 4 * 4096 + 2 * 1024 * 1001) / 4;
        assert_eq!(work.bytes, 2.0 * f64::from(weights + 32 * token));
    }

    /// FlashMLA: 128 heads do 2 * 128 * (576 + 512) FLOPs for 576 * 2 bytes of cache: 242 a byte.
    #[test]
    fn latent_attention_is_as_intense_as_flash_mla_says() {
        let model = example::deepseek_r1().model;
        let at = |context| model.decode_attention_work(load(1.0, 1.0), context);
        let (short, long) = (at(0), at(1_000_000));
        let intensity = (long.flops - short.flops) / (long.bytes - short.bytes);
        assert!((intensity - 256.0 * 1088.0 / 1152.0).abs() < 1e-6, "{intensity}");
        // What weights do is what they do in training, which has no context yet at length 0.
        let trained = model.attention_flops(0);
        assert_eq!(short.flops, trained);
    }

    #[test]
    fn weights_of_one_byte_are_twice_as_fast_and_half_as_heavy() {
        let model = example::deepseek_r1().model;
        let fp8 = Load { weight_bytes: 1.0, ..load(1.0, 1.0) };
        let (slow, fast) =
            (model.decode_attention_work(load(1.0, 1.0), 0), model.decode_attention_work(fp8, 0));
        assert_eq!(fast.flops, slow.flops / 2.0);
        let weights = model.attention_weights().total() as f64;
        assert!((slow.bytes - fast.bytes - weights).abs() < 1.0);
    }
}
