//! Round robin, packet by packet: each sub-flow goes round all ways, from a start and with a stride of
//! its own, so that flows do not move in step.

use super::{mix, pick};

#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundRobin {
    way: u16,
    stride: u16,
    ways: u16,
}

impl RoundRobin {
    pub fn new(ways: u16, hash: u64) -> Self {
        let mut stride = 1 + pick(mix(hash), ways.max(2) - 1);
        while gcd(stride, ways) > 1 {
            stride = stride % ways + 1;
        }
        RoundRobin { way: pick(hash, ways), stride, ways }
    }
    #[inline]
    pub fn way(&mut self) -> u16 {
        let way = self.way;
        self.way = ((u32::from(way) + u32::from(self.stride)) % u32::from(self.ways)) as u16;
        way
    }
}

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_once_a_round() {
        for ways in [1, 2, 3, 4, 12, 16, 64, 100] {
            for hash in 0..20 {
                let mut b = RoundRobin::new(ways, hash);
                let mut seen: Vec<u16> = (0..ways).map(|_| b.way()).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..ways).collect::<Vec<_>>());
            }
        }
    }
}
