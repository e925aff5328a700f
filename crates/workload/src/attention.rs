//! Attention blocks: widths of their projections and parameters of their matrices.
//!
//! Modelled: grouped-query attention and multi-head latent attention.
//! Modelled too: biases of grouped-query projections, as parameters.
//! Ignored: the biases' FLOPs, sliding windows, norms of queries and keys; copies of key and value heads where
//! the tensor-parallel degree exceeds their number.
//! Checked: with the models that use them, in `model.rs`.

use crate::error::{WorkloadError, require, within};
use serde::Deserialize;

/// An attention block.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Attention {
    /// Grouped-query attention (multi-head where `kv_heads == heads`).
    Gqa {
        /// Query heads.
        heads: u32,
        /// Key and value heads.
        kv_heads: u32,
        /// Width of a head.
        head_dim: u32,
        /// Which projections have a bias.
        #[serde(default)]
        bias: Bias,
    },
    /// Multi-head latent attention (DeepSeek-V2, Section 2.1), in its training form: keys and
    /// values are expanded for each head.
    Mla {
        /// Query heads.
        heads: u32,
        /// Rank of the queries' compression; 0 where queries are not compressed.
        q_lora_rank: u32,
        /// Rank of the joint compression of keys and values.
        kv_lora_rank: u32,
        /// Width of a head's part without rotary embedding.
        qk_nope_head_dim: u32,
        /// Width of a head's part with rotary embedding.
        qk_rope_head_dim: u32,
        /// Width of a head's value.
        v_head_dim: u32,
    },
}

/// Which projections of grouped-query attention add a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bias {
    /// None of them.
    #[default]
    None,
    /// Queries, keys and values.
    Qkv,
    /// Queries, keys, values and the output.
    Qkvo,
}

impl Attention {
    pub(crate) fn validate(&self) -> Result<(), WorkloadError> {
        let dim = |key: &str, value| within(&format!("model.attention.{key}"), value, 1..=1 << 13);
        dim("heads", self.heads())?;
        match *self {
            Attention::Gqa { heads, kv_heads, head_dim, .. } => {
                dim("head_dim", head_dim)?;
                require(
                    kv_heads > 0 && heads % kv_heads == 0,
                    "model.attention.kv_heads",
                    kv_heads,
                    || format!("must divide model.attention.heads = {heads}"),
                )
            }
            Attention::Mla {
                q_lora_rank,
                kv_lora_rank,
                qk_nope_head_dim,
                qk_rope_head_dim,
                v_head_dim,
                ..
            } => {
                within("model.attention.q_lora_rank", q_lora_rank, 0..=1 << 17)?;
                within("model.attention.kv_lora_rank", kv_lora_rank, 1..=1 << 17)?;
                dim("qk_nope_head_dim", qk_nope_head_dim)?;
                dim("qk_rope_head_dim", qk_rope_head_dim)?;
                dim("v_head_dim", v_head_dim)
            }
        }
    }

    /// Query heads.
    pub fn heads(&self) -> u32 {
        match *self {
            Attention::Gqa { heads, .. } | Attention::Mla { heads, .. } => heads,
        }
    }

    /// Widths of queries, keys and values of one token, all heads.
    pub fn projection_widths(&self) -> [u64; 3] {
        let [query, value] = self.score_widths();
        match *self {
            Attention::Gqa { kv_heads, head_dim, .. } => {
                let kv = u64::from(kv_heads) * u64::from(head_dim);
                [query, kv, kv]
            }
            Attention::Mla { .. } => [query, query, value],
        }
    }

    /// Widths of the products with keys and with values, all heads.
    pub(crate) fn score_widths(&self) -> [u64; 2] {
        match *self {
            Attention::Gqa { heads, head_dim, .. } => [u64::from(heads) * u64::from(head_dim); 2],
            Attention::Mla {
                heads,
                qk_nope_head_dim: nope,
                qk_rope_head_dim: rope,
                v_head_dim,
                ..
            } => [
                u64::from(heads) * (u64::from(nope) + u64::from(rope)),
                u64::from(heads) * u64::from(v_head_dim),
            ],
        }
    }

    /// Parameters of the matrices: split over TP, and replicated (the compressions of MLA).
    pub fn matrices(&self, hidden: u64) -> (u64, u64) {
        let [query, key, value] = self.projection_widths();
        match *self {
            Attention::Gqa { .. } => (hidden * (2 * query + key + value), 0),
            Attention::Mla {
                heads,
                q_lora_rank,
                kv_lora_rank,
                qk_nope_head_dim,
                qk_rope_head_dim,
                ..
            } => {
                let (q_rank, kv_rank) = (u64::from(q_lora_rank), u64::from(kv_lora_rank));
                let queries = if q_rank == 0 { hidden } else { q_rank } * query;
                let expanded = u64::from(heads) * u64::from(qk_nope_head_dim) + value;
                let compress = hidden * (q_rank + kv_rank + u64::from(qk_rope_head_dim));
                (queries + kv_rank * expanded + value * hidden, compress)
            }
        }
    }

    /// Parameters of the biases: split over TP, and replicated (the output's).
    pub(crate) fn biases(&self, hidden: u64) -> (u64, u64) {
        let projections = self.projection_widths().iter().sum();
        match *self {
            Attention::Gqa { bias: Bias::Qkv, .. } => (projections, 0),
            Attention::Gqa { bias: Bias::Qkvo, .. } => (projections, hidden),
            Attention::Gqa { .. } | Attention::Mla { .. } => (0, 0),
        }
    }

    /// Parameters of the norms inside the block.
    pub(crate) fn norms(&self) -> u64 {
        match *self {
            Attention::Gqa { .. } => 0,
            Attention::Mla { q_lora_rank, kv_lora_rank, .. } => {
                u64::from(q_lora_rank) + u64::from(kv_lora_rank)
            }
        }
    }
}
