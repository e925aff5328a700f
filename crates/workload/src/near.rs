//! The rate at a shape from the rates at shapes that were measured.
//!
//! Modelled: a shape that was measured takes its time. If others differ from it in one size alone, the
//! rate \[FLOP/s\] is linear in that size's logarithm between the two around it; above the greatest it is
//! the greatest's, and below the least the time is the least's, as less cannot take longer. Any other
//! shape has the mean rate of the four nearest, weighted by the inverse square of their distance in
//! logarithms of all sizes (Shepard, ACM 1968).
//! Ignored: tiles and waves between two measured shapes.
//! Checked: closed forms below; a rate never leaves the range of those it is made of.

use crate::component::Origin;

/// Sizes of a shape.
type Sizes = [u64; 5];

/// A measured shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub at: Sizes,
    pub flops: f64,
    pub seconds: f64,
}

/// What is known around a shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Near {
    /// It was measured.
    Same(Point),
    /// Between two that differ in one size alone, and how far from the first to the second.
    Between(Point, Point, f64),
    /// Less than the least of those that differ in one size alone.
    Below(Point),
    /// More than the greatest of them.
    Above(Point),
    /// The nearest with their weights, and whether the shape lies inside the range of all.
    Around(Vec<(Point, f64)>, bool),
}

/// How many count.
const NEAREST: usize = 4;

impl Near {
    /// What is known of a shape; None if nothing is.
    pub(crate) fn of(points: impl Iterator<Item = Point> + Clone, at: Sizes) -> Option<Near> {
        if let Some(same) = points.clone().find(|point| point.at == at) {
            return Some(Near::Same(same));
        }
        let mut beyond = None;
        for axis in 0..at.len() {
            let apart = |point: &Point| (0..at.len()).all(|i| i == axis || point.at[i] == at[i]);
            let line = points.clone().filter(apart);
            let below = line.clone().filter(|p| p.at[axis] < at[axis]).max_by_key(|p| p.at[axis]);
            let above = line.filter(|p| p.at[axis] > at[axis]).min_by_key(|p| p.at[axis]);
            let log = |size: u64| (size as f64).ln();
            match (below, above) {
                (Some(a), Some(b)) => {
                    let way = log(at[axis]) - log(a.at[axis]);
                    return Some(Near::Between(a, b, way / (log(b.at[axis]) - log(a.at[axis]))));
                }
                (None, Some(least)) => beyond = beyond.or(Some(Near::Below(least))),
                (Some(greatest), None) => beyond = beyond.or(Some(Near::Above(greatest))),
                (None, None) => {}
            }
        }
        if beyond.is_some() {
            return beyond;
        }
        let distance = |point: &Point| -> f64 {
            let pairs = point.at.iter().zip(at);
            pairs.map(|(&a, b)| (a as f64 / b as f64).ln().powi(2)).sum()
        };
        let inside = (0..at.len()).all(|axis| {
            let sizes = || points.clone().map(|point| point.at[axis]);
            sizes().min() <= Some(at[axis]) && sizes().max() >= Some(at[axis])
        });
        let mut all: Vec<(Point, f64)> = points.map(|point| (point, distance(&point))).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all.truncate(NEAREST);
        for (_, weight) in &mut all {
            *weight = 1.0 / *weight;
        }
        (!all.is_empty()).then_some(Near::Around(all, inside))
    }

    /// The time of so many FLOPs of the shape \[s\], and where it comes from.
    pub(crate) fn seconds(&self, flops: f64) -> (f64, Origin) {
        let rate = |point: &Point| point.flops / point.seconds;
        match self {
            Near::Same(point) => (point.seconds, Origin::Measured),
            Near::Between(a, b, way) => {
                (flops / (rate(a) + way * (rate(b) - rate(a))), Origin::Interpolated)
            }
            Near::Below(point) => (point.seconds, Origin::Extrapolated),
            Near::Above(point) => (flops / rate(point), Origin::Extrapolated),
            Near::Around(all, inside) => {
                let weights: f64 = all.iter().map(|(_, weight)| weight).sum();
                let sum: f64 = all.iter().map(|(point, weight)| weight * rate(point)).sum();
                let origin = if *inside { Origin::Interpolated } else { Origin::Extrapolated };
                (flops / (sum / weights), origin)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(m: u64, n: u64, tflops: f64) -> Point {
        let flops = (2 * m * n * 64) as f64;
        Point { at: [m, n, 64, 1, 1], flops, seconds: flops / (tflops * 1e12) }
    }

    fn asked(points: &[Point], m: u64, n: u64) -> (f64, Origin) {
        let flops = (2 * m * n * 64) as f64;
        let near = Near::of(points.iter().copied(), [m, n, 64, 1, 1]).expect("points");
        let (seconds, origin) = near.seconds(flops);
        (flops / seconds / 1e12, origin)
    }

    #[test]
    fn on_a_line_the_rate_is_linear_in_the_logarithm() {
        let points = [point(1024, 256, 100.0), point(4096, 256, 300.0), point(64, 512, 1.0)];
        assert_eq!(asked(&points, 1024, 256), (100.0, Origin::Measured));
        let (rate, origin) = asked(&points, 2048, 256);
        assert!((rate - 200.0).abs() < 1e-9 && origin == Origin::Interpolated, "{rate}");
        let (rate, origin) = asked(&points, 16384, 256);
        assert!((rate - 300.0).abs() < 1e-9 && origin == Origin::Extrapolated, "{rate}");
        // A quarter of the least takes as long as the least.
        let (rate, origin) = asked(&points, 256, 256);
        assert!((rate - 25.0).abs() < 1e-9 && origin == Origin::Extrapolated, "{rate}");
    }

    #[test]
    fn elsewhere_it_is_a_mean_of_the_nearest() {
        let points = [point(128, 128, 100.0), point(512, 512, 300.0)];
        let (rate, origin) = asked(&points, 256, 256);
        assert!((rate - 200.0).abs() < 1e-9 && origin == Origin::Interpolated, "{rate}");
        let (rate, origin) = asked(&points, 64, 4096);
        assert!((100.0..300.0).contains(&rate) && origin == Origin::Extrapolated, "{rate}");
        assert!(Near::of([].into_iter(), [1; 5]).is_none());
    }
}
