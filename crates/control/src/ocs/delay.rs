//! How long one reconfiguration takes: what the device's specification says, or a draw from what was
//! measured (MixNet, Figure 21: means and 99th percentiles at 1, 4 and 16 pairs).

use lightloom_decide::interpolate;
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

/// The 99th percentile of a standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

/// Draws the delay of changing so many pairs of ports.
///
/// A measured delay is log-normal; its mean and 99th percentile are interpolated in the number of
/// pairs and held beyond the first and last.
///
/// ```
/// use lightloom_control::ocs::delay;
/// use lightloom_fabric::ReconfigurationDelay;
/// use lightloom_units::Time;
/// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
/// let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
/// assert_eq!(delay::draw(&delay, 3, &mut ChaCha8Rng::seed_from_u64(1)), Time::from_ms(25));
/// ```
pub fn draw(delay: &ReconfigurationDelay, pairs: u32, random: &mut ChaCha8Rng) -> Time {
    match delay {
        ReconfigurationDelay::Fixed { ps } => *ps,
        ReconfigurationDelay::Lognormal { pairs: measured, mean_ps, p99_ps } => {
            let mean = interpolate(measured, mean_ps, pairs);
            let p99 = interpolate(measured, p99_ps, pairs);
            let (mu, sigma) = lognormal(mean, p99);
            Time::from_ps((mu + sigma * normal(random)).exp().round() as u64)
        }
    }
}

/// Parameters of the log-normal distribution with this mean and 99th percentile.
///
/// mean = exp(mu + sigma^2 / 2) and p99 = exp(mu + z sigma); the smaller root of the quadratic in
/// sigma is the one whose tail thins as p99 falls to the mean. A p99 out of reach of any sigma
/// (beyond exp(z^2 / 2), some 15 means) takes the widest.
pub(super) fn lognormal(mean: f64, p99: f64) -> (f64, f64) {
    let spread = (p99 / mean).ln().max(0.0);
    let sigma = Z99 - (Z99 * Z99 - 2.0 * spread).max(0.0).sqrt();
    (mean.ln() - sigma * sigma / 2.0, sigma)
}

/// A standard normal number (Box and Muller, 1958).
pub(super) fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (radius, angle) = (uniform(), uniform());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    /// MixNet, Appendix C.
    fn measured() -> ReconfigurationDelay {
        let ms = |values: [f64; 3]| values.map(|v| Time::from_secs_f64(v / 1e3)).to_vec();
        ReconfigurationDelay::Lognormal {
            pairs: vec![1, 4, 16],
            mean_ps: ms([41.44, 42.44, 46.75]),
            p99_ps: ms([60.0, 62.0, 68.0]),
        }
    }

    #[test]
    fn draws_have_the_mean_and_the_percentile_they_were_given() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for (pairs, mean, p99) in [(1, 41.44, 60.0), (4, 42.44, 62.0), (16, 46.75, 68.0)] {
            let mut draws: Vec<f64> = (0..40_000)
                .map(|_| draw(&measured(), pairs, &mut random).as_secs_f64() * 1e3)
                .collect();
            draws.sort_by(f64::total_cmp);
            let average = draws.iter().sum::<f64>() / draws.len() as f64;
            assert!((average / mean - 1.0).abs() < 0.01, "{average} against {mean}");
            assert!((draws[39_600] / p99 - 1.0).abs() < 0.02, "{} against {p99}", draws[39_600]);
        }
    }
}
