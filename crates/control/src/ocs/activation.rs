//! How long a NIC takes to work again after its light came back.
//!
//! Modelled: a log-normal delay through a mean and a 99th percentile, as MixNet measured it
//! (Appendix C, Figure 23: 5.67 s and 6.33 s from the end of a reconfiguration to an active NIC), and
//! the remedy named there: a transceiver that loops its own light back while the switch moves keeps
//! its clock recovery locked, and has only to lock onto the new signal. Ignored: what the driver of
//! the NIC does. It is a delay apart from the switch's own. Checked: draws have the mean and the
//! percentile that they were given.

use super::delay::{lognormal, normal};
use lightloom_units::Time;
use rand_chacha::ChaCha8Rng;

/// What follows when light returns to a NIC.
///
/// ```
/// use lightloom_control::ocs::Activation;
/// use lightloom_units::Time;
/// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
/// let none = Activation::Loopback { lock: Time::ZERO };
/// assert_eq!(none.draw(&mut ChaCha8Rng::seed_from_u64(1)), Time::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The transceiver lost its signal and starts anew: log-normal.
    Restart {
        /// The mean of it.
        mean: Time,
        /// What 99 of 100 keep within.
        p99: Time,
    },
    /// The transceiver looped its light back: only the new signal has to be locked onto.
    Loopback {
        /// How long that takes; nothing with fast-locking clock recovery, as far as a scheduler sees.
        lock: Time,
    },
}

impl Activation {
    /// As measured on commodity NICs: MixNet, Appendix C.
    pub const MEASURED: Activation =
        Activation::Restart { mean: Time::from_ms(5670), p99: Time::from_ms(6330) };

    /// One activation: always the mean if the percentile is not above it.
    pub fn draw(&self, random: &mut ChaCha8Rng) -> Time {
        match *self {
            Activation::Restart { mean, p99 } if p99 <= mean => mean,
            Activation::Restart { mean, p99 } => {
                let (mu, sigma) = lognormal(mean.ps() as f64, p99.ps() as f64);
                Time::from_ps((mu + sigma * normal(random)).exp().round() as u64)
            }
            Activation::Loopback { lock } => lock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn activations_have_the_measured_mean_and_percentile() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut draws: Vec<f64> =
            (0..40_000).map(|_| Activation::MEASURED.draw(&mut random).as_secs_f64()).collect();
        draws.sort_by(f64::total_cmp);
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean / 5.67 - 1.0).abs() < 0.002, "{mean} s");
        assert!((draws[39_600] / 6.33 - 1.0).abs() < 0.01, "{} s", draws[39_600]);
        assert!(draws[0] > 4.0, "{} s", draws[0]);
    }

    #[test]
    fn loopback_avoids_it() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let before = random.clone();
        let lock = Time::from_us(10);
        assert_eq!(Activation::Loopback { lock }.draw(&mut random), lock);
        assert_eq!(random, before, "draws nothing");
        let none = Activation::Restart { mean: Time::ZERO, p99: Time::ZERO };
        assert_eq!(none.draw(&mut random), Time::ZERO);
    }
}
