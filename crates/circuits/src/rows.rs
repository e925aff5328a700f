//! Circuits, and each server's time with them, kept while they change: what a search looks at.
//!
//! Modelled: as [`super::timed`]. A server's peers are bits, so that a change moves nothing.
//! Checked: against circuits timed anew.

use super::timed::{Pace, busier, joined, ps, totals};
use crate::demand::ServerDemand;
use crate::greedy::CircuitCounts;
use crate::timed::Rates;

/// Circuits, and each server's time with them, kept while they change.
pub(super) struct Rows<'a> {
    demand: &'a ServerDemand,
    counts: CircuitCounts,
    /// By server: a bit for each that it has circuits to, in so many words.
    near: Vec<u64>,
    words: usize,
    /// By server: bytes out and in without a circuit.
    packets: Vec<(u64, u64)>,
    pace: Pace,
}

impl<'a> Rows<'a> {
    pub fn new(demand: &'a ServerDemand, counts: &CircuitCounts, rates: &Rates) -> Self {
        let n = demand.n;
        assert_eq!(counts.servers(), n, "servers of the circuits and of the demand");
        let words = n.div_ceil(64);
        let (mut near, mut packets) = (vec![0; n * words], totals(demand));
        for a in 0..n {
            for (b, _) in joined(counts, a) {
                near[a * words + b / 64] |= 1 << (b % 64);
                packets[a].0 -= demand.get(a, b);
                packets[b].1 -= demand.get(a, b);
            }
        }
        Rows { demand, counts: counts.clone(), near, words, packets, pace: Pace::new(rates) }
    }

    pub fn counts(&self) -> &CircuitCounts {
        &self.counts
    }

    pub fn into_counts(self) -> CircuitCounts {
        self.counts
    }

    /// The first server from `from` on that `server` has circuits to.
    pub fn next_near(&self, server: usize, from: usize) -> Option<usize> {
        let row = &self.near[server * self.words..][..self.words];
        let mut word = from / 64;
        let mut bits = row.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *row.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The servers that `server` has circuits to, in order.
    pub fn near(&self, server: usize) -> Bits<'_> {
        Bits { words: self.near[server * self.words..][..self.words].iter(), bits: 0, end: 0 }
    }

    fn joined(&self, server: usize) -> impl Iterator<Item = (usize, u32)> + Clone + '_ {
        self.near(server).map(move |to| (to, self.counts.get(server, to)))
    }

    /// Bytes of the busier direction of a pair.
    pub fn busier(&self, a: usize, b: usize) -> u64 {
        busier(self.demand, a, b)
    }

    /// Gives a pair so many circuits.
    pub fn set(&mut self, a: usize, b: usize, circuits: u32) {
        let before = self.counts.get(a, b);
        self.counts.set(a, b, circuits);
        if (before > 0) == (circuits > 0) {
            return;
        }
        let (out, into) = (self.demand.get(a, b), self.demand.get(b, a));
        if circuits > 0 {
            self.packets[a] = (self.packets[a].0 - out, self.packets[a].1 - into);
            self.packets[b] = (self.packets[b].0 - into, self.packets[b].1 - out);
        } else {
            self.packets[a] = (self.packets[a].0 + out, self.packets[a].1 + into);
            self.packets[b] = (self.packets[b].0 + into, self.packets[b].1 + out);
        }
        for (at, to) in [(a, b), (b, a)] {
            self.near[at * self.words + to / 64] ^= 1 << (to % 64);
        }
    }

    /// The time of one server \[ps\].
    pub fn time(&self, server: usize) -> f64 {
        self.pace.time(self.demand, server, self.packets[server], self.joined(server))
    }

    /// The peer whose circuits take longest, and how long \[ps\]; none where packets help circuits.
    pub fn slowest(&self, server: usize) -> Option<(usize, f64)> {
        let near = self.joined(server).filter(|_| !self.pace.share_eps);
        let time = |(to, circuits)| (to, self.pace.circuits(self.demand, server, to, circuits));
        near.map(time).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// How long at least a server's packets take \[ps\], were `peer` given a circuit.
    pub fn packets_with(&self, server: usize, peer: usize) -> f64 {
        let (mut out, mut into) = self.packets[server];
        if self.counts.get(server, peer) == 0 {
            out -= self.demand.get(server, peer);
            into -= self.demand.get(peer, server);
        }
        ps(out.max(into), self.pace.packet_ps)
    }

    /// When the last pair ends that has circuits beyond those that stood, if these are dark for
    /// `dark` \[ps\].
    pub fn latest(&self, stood: &CircuitCounts, dark: f64) -> f64 {
        let mut latest = 0.0_f64;
        for server in 0..self.demand.n {
            for (to, circuits) in self.joined(server).filter(|&(to, _)| to > server) {
                if circuits > stood.get(server, to) && self.busier(server, to) > 0 {
                    let time = self.pace.circuits(self.demand, server, to, circuits);
                    latest = latest.max(dark + time);
                }
            }
        }
        latest
    }

    /// The time of the whole \[ps\].
    pub fn longest(&self) -> f64 {
        (0..self.demand.n).map(|server| self.time(server)).fold(0.0, f64::max)
    }
}

/// The bits that are set in some words, in order.
#[derive(Clone)]
pub(super) struct Bits<'a> {
    words: std::slice::Iter<'a, u64>,
    /// What is left of the last word, and where it ends.
    bits: u64,
    end: usize,
}

impl Iterator for Bits<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.bits == 0 {
            self.bits = *self.words.next()?;
            self.end += 64;
        }
        let at = self.end - 64 + self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timed::tests::cases;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_that_change_are_those_of_new_circuits(
            (demand, counts, rates) in cases(),
            changes in prop::collection::vec((0usize..6, 1usize..6, 0u32..4), 0..20),
        ) {
            let n = demand.n;
            let mut rows = Rows::new(&demand, &counts, &rates);
            for (a, step, circuits) in changes {
                let (a, b) = (a % n, (a % n + 1 + step % (n - 1)) % n);
                rows.set(a, b, circuits);
            }
            let fresh = Rows::new(&demand, rows.counts(), &rates);
            for server in 0..n {
                prop_assert_eq!(rows.time(server).to_bits(), fresh.time(server).to_bits());
                prop_assert!(rows.near(server).eq(fresh.near(server)));
                prop_assert!(rows.near(server).eq((0..n).filter(|&to| rows.next_near(server, to) == Some(to))));
            }
        }
    }
}
