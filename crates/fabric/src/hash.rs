//! The hash by which equal-cost paths are chosen: a 64-bit mix of source, destination and key, as a
//! switch hashes a flow's five-tuple. The seed of a run, and what tells apart the flows of a pair, go
//! into the key.

use lightloom_units::mix;

/// The state after hashing a flow; [`Choice::of`] draws from it, hop by hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice(u64);

impl Choice {
    pub(crate) fn new(source: u32, destination: u32, key: u64) -> Self {
        Choice(mix(key ^ mix(u64::from(source) << 32 | u64::from(destination))))
    }

    /// One of `0..n`, each as likely as another; `n` is at least 1. Another draw each time, so that
    /// the choices at successive tiers are independent (no polarisation).
    pub(crate) fn of(&mut self, n: usize) -> usize {
        self.0 = mix(self.0);
        ((u128::from(self.0) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_even_and_independent() {
        let mut seen = [[0u32; 8]; 8];
        for key in 0..64_000 {
            let mut choice = Choice::new(3, 4, key);
            let first = choice.of(8);
            seen[first][choice.of(8)] += 1;
        }
        // 1000 expected in each cell, standard deviation 31: six of them is one in 10^9.
        assert!(seen.iter().flatten().all(|&n| n.abs_diff(1000) < 190), "{seen:?}");
    }
}
