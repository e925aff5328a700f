//! REPS (Bonato et al., arXiv 2407.21625): a packet takes again a way whose last packet came through
//! without a mark; while no such way is known, the next one of its NIC's round.
//!
//! Each acknowledgement without a mark puts its way into a small ring; each packet takes the oldest
//! out. Departure: no frozen mode after failures.

use super::mix;

/// Ways that are remembered (the paper's circular buffer has 8).
const REMEMBERED: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Reps {
    good: [u16; REMEMBERED],
    first: u8,
    count: u8,
    ways: u16,
    paths: u16,
    hash: u64,
}

impl Reps {
    pub fn new(ways: u16, hash: u64, paths: u32) -> Self {
        let paths = paths.clamp(1, u32::from(ways.max(1))) as u16;
        Reps { good: [0; REMEMBERED], first: 0, count: 0, ways, paths, hash }
    }

    #[inline]
    pub fn way(&mut self, turn: u32) -> u16 {
        if self.count > 0 {
            let way = self.good[self.first as usize];
            self.first = (self.first + 1) % REMEMBERED as u8;
            self.count -= 1;
            return way;
        }
        let path = turn % u32::from(self.paths);
        match self.paths == self.ways {
            true => path as u16,
            false => (mix(self.hash ^ u64::from(path)) % u64::from(self.ways)) as u16,
        }
    }

    #[inline]
    pub fn acked(&mut self, way: u16, marked: bool) {
        if marked {
            return;
        }
        if self.count as usize == REMEMBERED {
            self.first = (self.first + 1) % REMEMBERED as u8;
            self.count -= 1;
        }
        self.good[(self.first as usize + self.count as usize) % REMEMBERED] = way;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ways_are_taken_again_and_bad_ones_are_not() {
        let mut b = Reps::new(16, 3, 16);
        let mut first: Vec<u16> = (5..21).map(|turn| b.way(turn)).collect();
        first.sort_unstable();
        assert_eq!(first, (0..16).collect::<Vec<_>>(), "a round tries all");
        for way in 0..16 {
            b.acked(way, way != 5 && way != 9);
        }
        assert_eq!([b.way(0), b.way(1)], [5, 9]);
    }
}
