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

use crate::component::Origin;
use crate::compute::Compute;
use crate::kernel::{Kernel, Precision, Product, Scores};
use crate::near::{Near, Point};
use crate::pipeline::Pass;
use crate::products::{MatmulTime, ScoresTime};

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
pub(crate) const START_S: f64 = 2e-6;
/// Backward over forward rate of attention, and the length at which half of the rate is reached: cuDNN
/// on H100, width 128, of 512 to 16,384 tokens (FlashAttention-3, arXiv 2407.08608, Figures 5 and 6).
const SCORES_BACKWARD: f64 = 0.96;
const SCORES_HALF: f64 = 330.0;

impl Compute {
    /// The time of a kernel by its shape \[s\], and where it comes from.
    pub fn kernel_s(&self, kernel: &Kernel) -> (f64, Origin) {
        match kernel {
            Kernel::Product(product) => self.product_s(product),
            Kernel::Scores(scores) => self.scores_s(scores),
        }
    }

    fn product_s(&self, product: &Product) -> (f64, Origin) {
        let at = |p: &Product| [p.m, p.n, p.k, p.groups, 1];
        let points = self.products.matmul.iter();
        let points = points.filter(|entry| entry.shape.precision == product.precision);
        let points = points.map(|MatmulTime { shape, time_ps }| Point {
            at: at(shape),
            flops: shape.flops(),
            seconds: *time_ps as f64 * 1e-12,
        });
        match Near::of(points, at(product)).map(|near| near.seconds(product.flops())) {
            Some(found) => found,
            None => (self.curve(product), Origin::Shape),
        }
    }

    fn scores_s(&self, s: &Scores) -> (f64, Origin) {
        let at =
            |s: &Scores| [s.queries, s.keys, s.heads * s.sequences, s.key_width, s.value_width];
        let points = self.products.attention.iter().filter(|entry| entry.shape.pass == s.pass);
        let points = points.map(|ScoresTime { shape, time_ps }| Point {
            at: at(shape),
            flops: shape.flops(),
            seconds: *time_ps as f64 * 1e-12,
        });
        if let Some(near) = Near::of(points, at(s)) {
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
