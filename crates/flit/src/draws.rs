//! Random numbers: one seeded generator a terminal.

/// A generator of random numbers (SplitMix64), one a terminal, so that who works on it is all one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub fn new(seed: u64, terminal: u32) -> Self {
        let mut draws = Draws(seed ^ 0x6c69_6768_746c_6f6f);
        let mixed = draws.next() ^ u64::from(terminal);
        draws.0 = mixed.wrapping_mul(0xd605_bbb5_8c8a_bc03);
        draws.next();
        draws
    }
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Evenly below `n`.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }
    /// Evenly in \[0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}
