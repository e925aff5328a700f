//! What a seed decides.

use lightloom_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The dice of a scenario.
pub struct Chance(ChaCha8Rng);

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

    pub fn us(&mut self, low: u64, high: u64) -> Time {
        Time::from_us(self.between(low, high))
    }

    pub fn ms(&mut self, low: u64, high: u64) -> Time {
        self.us(low * 1000, high * 1000)
    }

    pub fn nonce(&mut self) -> [u8; 16] {
        let mut nonce = [0; 16];
        self.0.fill_bytes(&mut nonce);
        nonce
    }
}
