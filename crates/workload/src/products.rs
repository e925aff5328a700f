//! Settings of matrix products: how their times are found, and those that were measured. The times: `curve.rs`.

use crate::component::LONGEST;
use crate::error::{WorkloadError, require, within};
use crate::kernel::{Precision, Product, Scores};
use serde::Deserialize;

/// How the time of matrix products is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Efficiency {
    /// All reach the same share of the peak.
    #[default]
    Share,
    /// By shape: as measured where there are times, by the curve elsewhere.
    Shape,
    /// By shape, with what a training does besides: the module `besides`.
    Training,
}

impl Efficiency {
    /// The name in specifications.
    pub const fn as_str(self) -> &'static str {
        match self {
            Efficiency::Share => "share",
            Efficiency::Shape => "shape",
            Efficiency::Training => "training",
        }
    }

    /// Whether products take their time by their shapes.
    pub const fn by_shape(self) -> bool {
        !matches!(self, Efficiency::Share)
    }
}

/// Settings of matrix products; by default all take a share of the peak.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// How their times are found.
    #[serde(default)]
    pub efficiency: Efficiency,
    /// Precision of the layers' products with weights; all else is bf16.
    #[serde(default)]
    pub precision: Precision,
    /// Dense FP8 FLOPs per second; 0 where the GPU has none, or it is not said.
    #[serde(default)]
    pub peak_fp8_flops: u64,
    /// Most of `peak_flops` that large products reach; 0: not known.
    #[serde(default)]
    pub ceiling: f64,
    /// Most of `peak_fp8_flops`; 0: not known.
    #[serde(default)]
    pub ceiling_fp8: f64,
    /// Multiprocessors; 0: not known.
    #[serde(default)]
    pub sms: u32,
    /// Most of `peak_flops` that fused attention reaches, forward.
    #[serde(default)]
    pub scores: f64,
    /// Bytes of a weight's gradient as it is added up; read by [`Efficiency::Training`].
    #[serde(default)]
    pub gradient_bytes: u32,
    /// Bytes that the loss reads and writes for each logit, forward and backward; read by it, too.
    #[serde(default)]
    pub loss_bytes: u32,
    /// Products whose time was measured.
    #[serde(default)]
    pub matmul: Vec<MatmulTime>,
    /// Fused attention whose time was measured.
    #[serde(default)]
    pub attention: Vec<ScoresTime>,
}

/// The measured time of a product.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatmulTime {
    /// What was measured.
    pub shape: Product,
    /// How long it took \[ps\].
    pub time_ps: u64,
}

/// The measured time of fused, causal attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoresTime {
    /// What was measured.
    pub shape: Scores,
    /// How long it took \[ps\].
    pub time_ps: u64,
}

impl Products {
    /// Checks rates, shares and times.
    pub(crate) fn validate(&self) -> Result<(), WorkloadError> {
        for (key, share) in [
            ("compute.matmul_ceiling", self.ceiling),
            ("compute.matmul_ceiling_fp8", self.ceiling_fp8),
            ("compute.scores_efficiency", self.scores),
        ] {
            require((0.0..=1.0).contains(&share), key, share, || {
                "must be above 0 and at most 1".into()
            })?;
        }
        within("memory.gradient_bytes", self.gradient_bytes, 0..=8)?;
        within("compute.loss_bytes", self.loss_bytes, 0..=1024)?;
        let fp8 = self.precision == Precision::Fp8;
        require(!fp8 || self.peak_fp8_flops > 0, "compute.products", "fp8", || {
            "needs compute.peak_fp8: what the GPU multiplies at 8 bits".into()
        })?;
        for (i, entry) in self.matmul.iter().enumerate() {
            let key = format!("compute.matmul[{i}]");
            let Product { m, n, k, groups, .. } = entry.shape;
            check_entry(&key, &[m, n, k, groups], entry.time_ps)?;
            let twin = self.matmul[..i].iter().any(|other| other.shape == entry.shape);
            require(!twin, &key, m, || "the same shape twice".into())?;
        }
        for (i, entry) in self.attention.iter().enumerate() {
            let key = format!("compute.attention[{i}]");
            let s = entry.shape;
            let sizes = [s.sequences, s.heads, s.queries, s.keys, s.key_width, s.value_width];
            check_entry(&key, &sizes, entry.time_ps)?;
        }
        if self.efficiency == Efficiency::Share {
            return Ok(());
        }
        let (key, name) = ("compute.efficiency", self.efficiency.as_str());
        require(self.scores > 0.0 || !self.attention.is_empty(), key, name, || {
            "needs compute.scores_efficiency".into()
        })?;
        let most = match self.efficiency {
            Efficiency::Training => "compute.matmul_sustained",
            _ => "compute.matmul_ceiling",
        };
        let missing = |precision, ceiling: f64| {
            let known = ceiling > 0.0 && self.sms > 0;
            !known && !self.matmul.iter().any(|entry| entry.shape.precision == precision)
        };
        require(!missing(Precision::Bf16, self.ceiling), key, name, || {
            format!("needs compute.sms and {most}, or measured products")
        })?;
        let fp8 = fp8 && missing(Precision::Fp8, self.ceiling_fp8);
        require(!fp8, key, name, || {
            format!("needs compute.sms and {most}_fp8, or measured products")
        })
    }
}

fn check_entry(key: &str, sizes: &[u64], time_ps: u64) -> Result<(), WorkloadError> {
    for &size in sizes {
        require((1..=1 << 30).contains(&size), key, size, || {
            format!("sizes must be between 1 and {}", 1 << 30)
        })?;
    }
    require((1..=LONGEST.ps()).contains(&time_ps), key, time_ps, || {
        format!("time_ps must be between 1 and {}", LONGEST.ps())
    })
}
