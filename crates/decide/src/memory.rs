//! What a decider remembers of a region's demands.

use lightloom_circuits::{CircuitCounts, ServerDemand};

/// How many demands are remembered.
const REMEMBERED: usize = 16;

/// The last demands, and what the circuits that stand were set for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    seen: Vec<ServerDemand>,
    set: Option<(ServerDemand, CircuitCounts)>,
}

impl Memory {
    /// Remembers a demand, if it is not the last one again: a combine sends what its dispatch sent, the
    /// other way round. Before the first stands an even demand of as many bytes.
    pub fn see(&mut self, demand: &ServerDemand) {
        let n = demand.n;
        if self.seen.iter().any(|seen| seen.n != n) || self.seen.is_empty() {
            let pairs = (n * n - n).max(1) as u64;
            let even = vec![demand.bytes.iter().sum::<u64>() / pairs; n * n];
            self.seen = vec![ServerDemand { n, bytes: even }];
        } else if self.seen.last().is_some_and(|last| alike(last, demand)) {
            return;
        }
        if self.seen.len() > REMEMBERED {
            self.seen.remove(0);
        }
        self.seen.push(demand.clone());
    }

    /// The demands before the last.
    pub fn usual(&self) -> &[ServerDemand] {
        self.seen.split_last().map_or(&[], |(_, before)| before)
    }

    /// Remembers what these circuits were chosen for.
    pub fn set(&mut self, demand: &ServerDemand, counts: &CircuitCounts) {
        self.set = Some((demand.clone(), counts.clone()));
    }

    /// Whether these circuits stand because they were chosen for this demand.
    pub fn set_for(&self, demand: &ServerDemand, standing: &CircuitCounts) -> bool {
        self.set.as_ref().is_some_and(|(of, counts)| counts == standing && alike(of, demand))
    }
}

/// Whether two demands are the same but for their direction.
fn alike(a: &ServerDemand, b: &ServerDemand) -> bool {
    a == b || (a.n == b.n && transposed(a, b))
}

fn transposed(a: &ServerDemand, b: &ServerDemand) -> bool {
    (0..a.n).all(|i| (0..a.n).all(|j| i == j || a.get(i, j) == b.get(j, i)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(bytes: [u64; 4]) -> ServerDemand {
        ServerDemand { n: 2, bytes: bytes.to_vec() }
    }

    #[test]
    fn a_combine_is_not_another_demand() {
        let mut memory = Memory::default();
        memory.see(&demand([0, 4, 2, 0]));
        assert_eq!(memory.usual(), [demand([3, 3, 3, 3])]);
        memory.see(&demand([0, 2, 4, 0]));
        assert_eq!(memory.usual().len(), 1);
        memory.see(&demand([0, 2, 5, 0]));
        assert_eq!(memory.usual(), [demand([3, 3, 3, 3]), demand([0, 4, 2, 0])]);
        (0..40).for_each(|more| memory.see(&demand([0, more, 9, 0])));
        assert_eq!(memory.usual().len(), REMEMBERED);
    }
}
