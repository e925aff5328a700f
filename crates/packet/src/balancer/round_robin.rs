//! Round robin, packet by packet: a NIC's packets go round all ways, whichever flow they are of. Each
//! NIC starts at its own number, so that neighbours under one switch take different ways at a time.

#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundRobin {
    ways: u16,
}

impl RoundRobin {
    pub fn new(ways: u16) -> Self {
        RoundRobin { ways }
    }
    #[inline]
    pub fn way(&self, turn: u32) -> u16 {
        (turn % u32::from(self.ways)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_once_a_round() {
        let b = RoundRobin::new(12);
        let mut seen: Vec<u16> = (7..19).map(|turn| b.way(turn)).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..12).collect::<Vec<_>>());
    }
}
