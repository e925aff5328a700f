//! What a seed decides.

use lightloom_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The dice of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Chance(ChaCha8Rng);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `end`, or 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.0.next_u64() % end }
    }

    /// From `low` to `high`, both of them too.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Comes true so often of a thousand times.
    pub fn hit(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub fn ms(&mut self, low: u64, high: u64) -> Time {
        Time::from_us(self.between(low * 1000, high * 1000))
    }

    pub fn up_to(&mut self, most: Time) -> Time {
        Time::from_ps(self.below(most.ps() + 1))
    }

    /// Exponential with this mean.
    pub fn tail(&mut self, mean: Time) -> Time {
        let uniform = ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        Time::from_ps((-uniform.ln() * mean.ps() as f64) as u64)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub fn shuffle<T>(&mut self, of: &mut [T]) {
        for at in (1..of.len()).rev() {
            of.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}
