//! How long a transition matrix takes to fit: `cargo run --release --example predict_time`.

use lightloom_schedule::mixnet::predict::{Sample, Transition};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Instant;

fn main() {
    for experts in [8, 16, 32, 64, 128, 256] {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut load = |around: &[f64]| {
            let mut load: Vec<f64> =
                around.iter().map(|&a| a * (1.0 + 0.1 * random.random_range(-1.0..1.0))).collect();
            let sum: f64 = load.iter().sum();
            load.iter_mut().for_each(|value| *value /= sum);
            load
        };
        let (x, y) = (load(&vec![1.0; experts]), load(&vec![1.0; experts]));
        let pairs: Vec<_> = (0..40).map(|_| (load(&x), load(&y))).collect();
        let (mut ms, mut steps, mut gap) = (0.0, 0, 0.0f64);
        for end in 16..40 {
            let samples: Vec<Sample> = pairs[end - 16..end]
                .iter()
                .zip(0i32..)
                .map(|((before, after), t)| Sample { before, after, weight: 0.9f64.powi(15 - t) })
                .collect();
            let start = Instant::now();
            let fitted = Transition::fit(experts, &samples, 1e-6);
            ms += start.elapsed().as_secs_f64() * 1e3 / 24.0;
            steps += fitted.steps;
            gap = gap.max(fitted.gap / fitted.constant_objective);
        }
        println!(
            "{experts} experts: {ms:.3} ms in {:.1} steps; gap {gap:.1e}",
            f64::from(steps) / 24.0
        );
    }
}
