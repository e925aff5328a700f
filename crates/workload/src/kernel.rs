//! Shapes of what a GPU runs: matrix products and fused attention.

use crate::pipeline::Pass;
use serde::{Deserialize, Serialize};

/// Precision of a product's factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 16 bits.
    #[default]
    Bf16,
    /// 8 bits.
    Fp8,
}

/// `groups` products of `m x k` by `k x n`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Product {
    /// Rows: tokens, or outputs where weights' gradients are computed.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// The inner width.
    pub k: u64,
    /// How many of them at once.
    pub groups: u64,
    /// Of both factors.
    #[serde(rename = "dtype")]
    pub precision: Precision,
    /// Bytes that cross the memory's interface for an element of the outcome; not of what was measured.
    #[serde(skip)]
    pub out_bytes: f64,
}

/// Fused attention of one micro-batch: scores, softmax, and the sum of values, causal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    /// Sequences of the micro-batch.
    pub sequences: u64,
    /// Query heads on this GPU.
    pub heads: u64,
    /// Tokens of a sequence that are on this GPU.
    pub queries: u64,
    /// Tokens of a sequence.
    pub keys: u64,
    /// Width of a head's queries and keys.
    pub key_width: u64,
    /// Width of a head's values.
    pub value_width: u64,
    /// The pass.
    pub pass: Pass,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    /// A matrix product.
    Product(Product),
    /// Fused attention.
    Scores(Scores),
}

/// What a component runs in a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernels {
    /// In order.
    pub kernels: Vec<Kernel>,
    /// Bytes that cross the memory's interface besides.
    pub other_bytes: f64,
    /// Kernels that move these.
    pub launches: u32,
}

impl Product {
    /// A multiply and an add are two.
    pub fn flops(&self) -> f64 {
        2.0 * self.groups as f64 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

impl Scores {
    /// Those that a causal mask leaves; backward two and a half times as many, as scores are computed
    /// anew.
    pub fn flops(&self) -> f64 {
        let pairs = self.sequences as f64 * self.heads as f64 * self.queries as f64;
        let once = pairs * self.keys as f64 * (self.key_width + self.value_width) as f64;
        if self.pass == Pass::Backward { 2.5 * once } else { once }
    }
}

impl Kernel {
    /// FLOPs that the GPU carries out.
    pub fn flops(&self) -> f64 {
        match self {
            Kernel::Product(product) => product.flops(),
            Kernel::Scores(scores) => scores.flops(),
        }
    }
}

impl Precision {
    /// The name in specifications and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Precision::Bf16 => "bf16",
            Precision::Fp8 => "fp8",
        }
    }

    pub(crate) const fn bytes(self) -> f64 {
        match self {
            Precision::Bf16 => 2.0,
            Precision::Fp8 => 1.0,
        }
    }
}
