//! ECMP: a sub-flow stays on the way of its hash (RFC 2992).

use super::pick;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ecmp {
    way: u16,
}

impl Ecmp {
    pub fn new(ways: u16, hash: u64) -> Self {
        Ecmp { way: pick(hash, ways) }
    }
    #[inline]
    pub fn way(&self) -> u16 {
        self.way
    }
}
