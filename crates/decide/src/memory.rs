//! What a decider remembers of a region's demands.

use lightloom_circuits::{CircuitCounts, ServerDemand, TimedDemand};

/// How many demands are remembered.
const REMEMBERED: usize = 16;

/// The last demands, and what the circuits that stand were set for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    seen: Vec<Seen>,
    set: Option<(ServerDemand, CircuitCounts)>,
}

/// A demand that was seen.
#[derive(Clone, Debug)]
struct Seen {
    demand: TimedDemand,
    /// The ports for which circuits of its own were chosen, and these.
    own: Option<(Vec<u32>, CircuitCounts)>,
}

impl Seen {
    fn new(demand: ServerDemand) -> Self {
        Seen { demand: TimedDemand::new(demand), own: None }
    }
}

impl Memory {
    /// Remembers a demand, if it is not the last one again: a combine sends what its dispatch sent, the
    /// other way round. Before the first stands an even demand of as many bytes.
    pub fn see(&mut self, demand: &ServerDemand) {
        let n = demand.n;
        if self.seen.iter().any(|seen| seen.demand.demand().n != n) || self.seen.is_empty() {
            let pairs = (n * n - n).max(1) as u64;
            let even = vec![demand.bytes.iter().sum::<u64>() / pairs; n * n];
            self.seen = vec![Seen::new(ServerDemand { n, bytes: even })];
        } else if self.seen.last().is_some_and(|last| alike(last.demand.demand(), demand)) {
            return;
        }
        if self.seen.len() > REMEMBERED {
            self.seen.remove(0);
        }
        self.seen.push(Seen::new(demand.clone()));
    }

    /// The demands before the last.
    pub fn usual(&self) -> Vec<&TimedDemand> {
        let before = self.seen.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().map(|seen| &seen.demand).collect()
    }

    /// Has circuits of its own chosen by `fit` for each of the demands before the last, once for the
    /// same ports, and tells them to `tell`.
    pub fn own<E>(
        &mut self,
        ports: &[u32],
        fit: impl Fn(&ServerDemand) -> Result<CircuitCounts, E>,
        mut tell: impl FnMut(&TimedDemand, &CircuitCounts),
    ) -> Result<(), E> {
        let Some((_, before)) = self.seen.split_last_mut() else { return Ok(()) };
        for Seen { demand, own } in before {
            let kept = own.take().filter(|(of, _)| of == ports);
            let chosen = kept.map_or_else(|| Ok((ports.to_vec(), fit(demand.demand())?)), Ok)?;
            tell(demand, &own.insert(chosen).1);
        }
        Ok(())
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
        let usual = |memory: &Memory| {
            memory.usual().into_iter().map(|usual| usual.demand().clone()).collect::<Vec<_>>()
        };
        assert_eq!(usual(&memory), [demand([3, 3, 3, 3])]);
        memory.see(&demand([0, 2, 4, 0]));
        assert_eq!(memory.usual().len(), 1);
        memory.see(&demand([0, 2, 5, 0]));
        assert_eq!(usual(&memory), [demand([3, 3, 3, 3]), demand([0, 4, 2, 0])]);
        (0..40).for_each(|more| memory.see(&demand([0, more, 9, 0])));
        assert_eq!(memory.usual().len(), REMEMBERED);
    }
}
