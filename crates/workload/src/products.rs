//! How long a matrix product, and fused attention, takes by its shape: measured, or by a curve.
//!
//! Modelled (`Products::curve`): a product is cut into tiles, as many at once as the GPU has
//! multiprocessors (NVIDIA, Matrix Multiplication Background User's Guide, "Tile Quantization" and
//! "Wave Quantization"); a full wave runs at the rate that was measured as the most that large
//! products reach on this GPU; operands are read under the products, the outcome is written after them;
//! the fastest of eleven tiles is taken. Small tiles read an operand more often, so that below 128 x 128
//! the rate falls as that traffic grows. Attention reaches its share of the peak as
//! `length / (length + 330)`.
//! Ignored: split-k and stream-k, which help where few tiles are long; clocks that fall in long runs.
//! Checked: against the shapes of DeepGEMM's table for H800 (`tests/all/products.rs`, docs/compute.md).

use crate::compute::{Compute, LONGEST, Origin};
use crate::error::{WorkloadError, require};
use crate::kernels::{Kernel, Product, Scores};
use crate::near::{Near, Point};
use crate::pipeline::Pass;
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
}

/// Precision of a product's factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 16 bits.
    #[default]
    Bf16,
    /// 8 bits.
    Fp8,
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
    /// Products whose time was measured.
    #[serde(default)]
    pub matmul: Vec<MatmulTime>,
    /// Fused attention whose time was measured.
    #[serde(default)]
    pub attention: Vec<ScoresTime>,
}

/// The measured time of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatmulTime {
    /// Rows.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// The inner width.
    pub k: u64,
    /// How many at once.
    pub groups: u64,
    /// Of both factors.
    pub dtype: Precision,
    /// How long it took \[ps\].
    pub time_ps: u64,
}

/// The measured time of fused, causal attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoresTime {
    /// Sequences.
    pub sequences: u64,
    /// Query heads.
    pub heads: u64,
    /// Queries a sequence.
    pub queries: u64,
    /// Keys a sequence.
    pub keys: u64,
    /// Width of a head's queries and keys.
    pub key_width: u64,
    /// Width of a head's values.
    pub value_width: u64,
    /// Forward or backward.
    pub pass: Pass,
    /// How long it took \[ps\].
    pub time_ps: u64,
}

/// Tiles that a library chooses from; not above 128 x 256 elements, which accumulators fill.
const TILES: [(u64, u64); 11] = [
    (128, 256),
    (256, 128),
    (128, 192),
    (192, 128),
    (128, 128),
    (64, 256),
    (256, 64),
    (64, 128),
    (128, 64),
    (64, 64),
    (64, 32),
];
/// The smallest tile that is read as fast as it is multiplied: stated assumption.
const FULL_RATE_TILE: f64 = 128.0;
/// From a kernel's launch to its first product, and its end: stated assumption.
const START_S: f64 = 2e-6;
/// Backward over forward rate of attention, and the length at which half of the rate is reached: cuDNN
/// on H100, width 128, of 512 to 16,384 tokens (FlashAttention-3, arXiv 2407.08608, Figures 5 and 6).
const SCORES_BACKWARD: f64 = 0.96;
const SCORES_HALF: f64 = 330.0;

impl Precision {
    /// The name in specifications and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Precision::Bf16 => "bf16",
            Precision::Fp8 => "fp8",
        }
    }

    const fn bytes(self) -> f64 {
        match self {
            Precision::Bf16 => 2.0,
            Precision::Fp8 => 1.0,
        }
    }
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
        let fp8 = self.precision == Precision::Fp8;
        require(!fp8 || self.peak_fp8_flops > 0, "compute.products", "fp8", || {
            "needs compute.peak_fp8: what the GPU multiplies at 8 bits".into()
        })?;
        for (i, entry) in self.matmul.iter().enumerate() {
            let key = format!("compute.matmul[{i}]");
            let sizes = [entry.m, entry.n, entry.k, entry.groups];
            check_entry(&key, &sizes, entry.time_ps)?;
            let same = |o: &MatmulTime| (o.m, o.n, o.k, o.groups, o.dtype);
            let twin = self.matmul[..i].iter().any(|other| same(other) == same(entry));
            require(!twin, &key, entry.m, || "the same shape twice".into())?;
        }
        for (i, entry) in self.attention.iter().enumerate() {
            let key = format!("compute.attention[{i}]");
            let e = entry;
            let sizes = [e.sequences, e.heads, e.queries, e.keys, e.key_width, e.value_width];
            check_entry(&key, &sizes, entry.time_ps)?;
        }
        if self.efficiency == Efficiency::Share {
            return Ok(());
        }
        require(
            self.scores > 0.0 || !self.attention.is_empty(),
            "compute.efficiency",
            "shape",
            || "needs compute.scores_efficiency".into(),
        )?;
        let missing = |precision, ceiling: f64| {
            let known = ceiling > 0.0 && self.sms > 0;
            !known && !self.matmul.iter().any(|entry| entry.dtype == precision)
        };
        require(!missing(Precision::Bf16, self.ceiling), "compute.efficiency", "shape", || {
            "needs compute.sms and compute.matmul_ceiling, or measured products".into()
        })?;
        let fp8 = fp8 && missing(Precision::Fp8, self.ceiling_fp8);
        require(!fp8, "compute.efficiency", "shape", || {
            "needs compute.sms and compute.matmul_ceiling_fp8, or measured products".into()
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

impl Compute {
    /// The time of a kernel by its shape [s], and where it comes from.
    pub fn kernel_s(&self, kernel: &Kernel) -> (f64, Origin) {
        match kernel {
            Kernel::Product(product) => self.product_s(product),
            Kernel::Scores(scores) => self.scores_s(scores),
        }
    }

    fn product_s(&self, product: &Product) -> (f64, Origin) {
        let of = |m: u64, n: u64, k: u64, groups: u64| [m, n, k, groups, 1];
        let wanted = of(product.m, product.n, product.k, product.groups);
        let points = self.products.matmul.iter().filter(|e| e.dtype == product.precision);
        let points = points.map(|e| {
            let flops = 2.0 * e.m as f64 * e.n as f64 * e.k as f64 * e.groups as f64;
            Point { at: of(e.m, e.n, e.k, e.groups), flops, seconds: e.time_ps as f64 * 1e-12 }
        });
        match Near::of(points, wanted).map(|near| near.seconds(product.flops())) {
            Some(found) => found,
            None => (self.curve(product), Origin::Shape),
        }
    }

    fn scores_s(&self, scores: &Scores) -> (f64, Origin) {
        let s = scores;
        let wanted = [s.queries, s.keys, s.heads * s.sequences, s.key_width, s.value_width];
        let points = self.products.attention.iter().filter(|e| e.pass == s.pass);
        let points = points.map(|e| {
            let same = Scores {
                sequences: e.sequences,
                heads: e.heads,
                queries: e.queries,
                keys: e.keys,
                key_width: e.key_width,
                value_width: e.value_width,
                pass: e.pass,
            };
            let at = [e.queries, e.keys, e.heads * e.sequences, e.key_width, e.value_width];
            Point { at, flops: same.flops(), seconds: e.time_ps as f64 * 1e-12 }
        });
        if let Some(near) = Near::of(points, wanted) {
            return near.seconds(s.flops());
        }
        let length = s.queries as f64;
        let pass = if s.pass == Pass::Backward { SCORES_BACKWARD } else { 1.0 };
        let share = self.products.scores * pass * length / (length + SCORES_HALF);
        (START_S + s.flops() / (self.peak_flops as f64 * share), Origin::Shape)
    }

    /// The curve of the module's head \[s\].
    pub fn curve(&self, product: &Product) -> f64 {
        let Product { m, n, k, groups, precision, out_bytes } = *product;
        let (peak, ceiling) = match precision {
            Precision::Bf16 => (self.peak_flops, self.products.ceiling),
            Precision::Fp8 => (self.products.peak_fp8_flops, self.products.ceiling_fp8),
        };
        let sms = u64::from(self.products.sms).max(1);
        let wave = |(rows, columns): (u64, u64)| {
            let tiles = groups * m.div_ceil(rows) * n.div_ceil(columns);
            let padded = tiles.div_ceil(sms) * sms * rows * columns;
            let traffic = FULL_RATE_TILE * (1.0 / rows as f64 + 1.0 / columns as f64) / 2.0;
            2.0 * padded as f64 * k as f64 * traffic.max(1.0)
        };
        let flops = TILES.into_iter().map(wave).fold(f64::INFINITY, f64::min);
        let of = |a: u64, b: u64| groups as f64 * a as f64 * b as f64;
        let read = self.memory_s(precision.bytes() * (of(m, k) + of(k, n)));
        let multiplied = flops / (peak as f64 * ceiling);
        START_S + multiplied.max(read) + self.memory_s(out_bytes * of(m, n))
    }
}
