//! What of a forward pass is computed anew in the backward pass, so that it need not be kept.
//!
//! Modelled: `full`: a layer keeps its input alone, and its whole forward pass runs again right before its
//! backward pass, with its collectives and all-to-alls, as Megatron-LM's `--recompute-granularity full
//! --recompute-method uniform --recompute-num-layers 1` checkpoints a whole layer (Korthikanti et al., arXiv
//! 2205.05198, Section 5). `selective`: some modules of a layer run again inside the backward tasks of their
//! components, and nothing is sent again: Megatron-Core's `--recompute-modules`. Attention is fused
//! (FlashAttention): it keeps no scores, so that `core_attn` saves next to nothing and takes the time of the
//! scores. Norms and activations take the time of reading and writing memory once, MLA's up-projections that
//! of their products.
//! Ignored: methods that recompute some layers and not others, Megatron's recomputation of whole expert
//! layers alone, offloading. Embedding and head are never computed anew.
//! How long it takes: `again.rs`. Checked: closed forms of time and bytes in `tests/all/recompute.rs`.

use serde::Deserialize;

/// What of a forward pass is computed anew in the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    /// Nothing.
    #[default]
    None,
    /// Some modules of each layer.
    Selective,
    /// Each layer.
    Full,
    /// The least of these with which the job fits; its time is not counted.
    Untimed,
}

/// A part of a layer that is cheap to compute anew, by the names of specifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Module {
    /// Scores, softmax and the sum of values.
    CoreAttn,
    /// The outputs of both norms (Megatron-Core: `layernorm`; DeepSeek-V3, Section 3.2.3).
    Norms,
    /// The products of gates and ups (Megatron-Core: `moe_act`; DeepSeek-V3, Section 3.3.3).
    Activations,
    /// Queries, keys and values of latent attention (Megatron-Core, DeepSeek-V3: `mla_up_proj`).
    MlaUpProj,
}

impl Recompute {
    /// The name in specifications.
    pub const fn as_str(self) -> &'static str {
        match self {
            Recompute::None => "none",
            Recompute::Selective => "selective",
            Recompute::Full => "full",
            Recompute::Untimed => "untimed",
        }
    }
}
