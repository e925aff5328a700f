//! The circuits of a few servers, by branch and bound.
//!
//! Modelled: pair by pair, every number of circuits that ports allow. Pairs that are not decided yet
//! take no time as long as both have a free port, and packet switches otherwise; where even that is no
//! faster than the best known, nothing below is tried.
//! Ignored: regions of more servers, whose choices are too many.
//! Checked: against every matching, by [`super::choose`].

use super::timed::Rows;
use super::{CircuitCounts, Rates, ServerDemand};

/// Up to so many servers.
pub(super) const MOST: usize = 4;

/// Circuits that are faster than `time` \[ps\], the fastest there are, if there are such.
///
/// Gives up for the best it has found when `work` choices have been looked at.
pub(super) fn fastest(
    demand: &ServerDemand,
    ports: &[u32],
    rates: &Rates,
    time: f64,
    work: usize,
) -> Option<CircuitCounts> {
    let n = demand.n;
    let rows = Rows::new(demand, &CircuitCounts::dark(n), rates);
    let mut pairs: Vec<_> = (0..n)
        .flat_map(|a| (a + 1..n).map(move |b| (a, b)))
        .filter(|&(a, b)| rows.busier(a, b) > 0)
        .collect();
    pairs.sort_by_key(|&(a, b)| std::cmp::Reverse(rows.busier(a, b)));
    let mut tree = Tree { rows, pairs, free: ports.to_vec(), time, best: None, work };
    tree.decide(0);
    tree.best
}

struct Tree<'a> {
    rows: Rows<'a>,
    pairs: Vec<(usize, usize)>,
    free: Vec<u32>,
    time: f64,
    best: Option<CircuitCounts>,
    work: usize,
}

impl Tree<'_> {
    fn decide(&mut self, at: usize) {
        let Some(work) = self.work.checked_sub(1) else { return };
        self.work = work;
        for &(a, b) in &self.pairs[at..] {
            let dark = self.free[a].min(self.free[b]) == 0;
            self.rows.set(a, b, if dark { 0 } else { u32::MAX });
        }
        let least = self.rows.longest();
        if least >= self.time {
            return;
        }
        let Some(&(a, b)) = self.pairs.get(at) else {
            (self.time, self.best) = (least, Some(self.rows.counts().clone()));
            return;
        };
        for circuits in (0..=self.free[a].min(self.free[b])).rev() {
            self.rows.set(a, b, circuits);
            self.free[a] -= circuits;
            self.free[b] -= circuits;
            self.decide(at + 1);
            self.free[a] += circuits;
            self.free[b] += circuits;
        }
    }
}
