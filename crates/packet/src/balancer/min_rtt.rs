//! MinRTT, MPTCP's default scheduler (Paasch et al., CSWS 2014): of the sub-flows with room in their
//! windows the one with the least smoothed round trip sends. A sub-flow itself stays on the way of
//! its hash.

use super::pick;

#[derive(Clone, Copy, Debug)]
pub(crate) struct MinRtt {
    way: u16,
    /// Smoothed as TCP does (RFC 6298); 0 before the first measurement \[ps\].
    smoothed: u64,
}

impl MinRtt {
    pub fn new(ways: u16, hash: u64) -> Self {
        MinRtt { way: pick(hash, ways), smoothed: 0 }
    }
    #[inline]
    pub fn way(&self) -> u16 {
        self.way
    }
    pub fn acked(&mut self, round_trip: u64) {
        self.smoothed = match self.smoothed {
            0 => round_trip,
            before => before - before / 8 + round_trip / 8,
        };
    }
    pub fn smoothed(&self) -> u64 {
        self.smoothed
    }
}
