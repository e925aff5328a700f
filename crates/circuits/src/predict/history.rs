//! What gates have decided: a window of recent passes for each layer.
//!
//! A pass is one run of a micro-batch through the model, layer by layer; it ends when a layer comes
//! that is not deeper than the last one.

use super::transition::Sample;
use std::collections::VecDeque;

/// How far back predictors look, and how fast they forget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Passes that are remembered.
    pub length: usize,
    /// Weight of a pass beside that of the next one, above 0 and at most 1.
    pub decay: f64,
}

impl Default for Window {
    /// Sixteen passes; the oldest weighs a fifth of the youngest.
    fn default() -> Self {
        Window { length: 16, decay: 0.9 }
    }
}

/// Loads of each layer, as shares that sum to 1.
#[derive(Clone, Debug)]
pub struct History {
    experts: usize,
    window: Window,
    layers: Vec<VecDeque<Seen>>,
    pass: u64,
    last: Option<usize>,
}

#[derive(Clone, Debug)]
struct Seen {
    pass: u64,
    load: Vec<f64>,
}

impl History {
    /// Nothing seen yet.
    ///
    /// # Panics
    /// If there are no experts, or the window is empty or its decay is not in (0, 1].
    pub fn new(experts: usize, window: Window) -> Self {
        assert!(experts > 0, "at least one expert");
        assert!(window.length > 0 && window.decay > 0.0 && window.decay <= 1.0, "{window:?}");
        History { experts, window, layers: Vec::new(), pass: 0, last: None }
    }

    /// The number of experts of every layer.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// How far back it looks.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Adds what a layer's gate decided, in any unit. No tokens at all count as equal shares.
    ///
    /// # Panics
    /// If `load` has not one entry an expert, or one that is negative or not finite.
    pub fn observe(&mut self, layer: usize, load: &[f64]) {
        assert_eq!(load.len(), self.experts, "loads of {} experts", self.experts);
        assert!(load.iter().all(|l| l.is_finite() && *l >= 0.0), "loads are numbers from 0 on");
        self.pass = self.upcoming(layer);
        self.last = Some(layer);
        if self.layers.len() <= layer {
            self.layers.resize(layer + 1, VecDeque::new());
        }
        let most = load.iter().copied().fold(0.0, f64::max);
        let sum: f64 = load.iter().sum();
        // The sum of huge loads is infinite, that of tiny ones imprecise.
        let unit = if sum.is_normal() { 1.0 } else { most };
        let sum: f64 = load.iter().map(|l| l / unit).sum();
        let share = |l: &f64| if most > 0.0 { l / unit / sum } else { 1.0 / load.len() as f64 };
        let seen = Seen { pass: self.pass, load: load.iter().map(share).collect() };
        let kept = &mut self.layers[layer];
        kept.push_back(seen);
        // One more than the window: the layer after may still have to pair with the oldest.
        if kept.len() > self.window.length + 1 {
            kept.pop_front();
        }
    }

    /// The pass to which a layer that comes next belongs.
    fn upcoming(&self, layer: usize) -> u64 {
        self.pass + u64::from(self.last.is_some_and(|last| layer <= last))
    }

    fn seen(&self, layer: usize) -> impl DoubleEndedIterator<Item = &Seen> + Clone {
        self.layers.get(layer).into_iter().flatten()
    }

    /// The layer's last load.
    pub fn latest(&self, layer: usize) -> Option<&[f64]> {
        self.seen(layer).next_back().map(|seen| &seen.load[..])
    }

    /// The load of the layer before in the pass that is under way, if it has come by.
    pub fn before(&self, layer: usize) -> Option<&[f64]> {
        let seen = self.seen(layer.checked_sub(1)?).next_back()?;
        (seen.pass == self.upcoming(layer)).then_some(&seen.load[..])
    }

    /// The window of a layer from the youngest on: weight and load.
    pub fn recent(&self, layer: usize) -> impl Iterator<Item = (f64, &[f64])> {
        let mut weight = 1.0;
        self.seen(layer).rev().take(self.window.length).map(move |seen| {
            let now = weight;
            weight *= self.window.decay;
            (now, &seen.load[..])
        })
    }

    /// The loads of a layer and the one before in the same passes, from the youngest on.
    pub fn pairs(&self, layer: usize) -> impl Iterator<Item = Sample<'_>> {
        let mut weight = 1.0;
        self.seen(layer).rev().take(self.window.length).filter_map(move |after| {
            let now = weight;
            weight *= self.window.decay;
            let mut of_before = self.seen(layer.checked_sub(1)?);
            let before = of_before.find(|before| before.pass == after.pass)?;
            Some(Sample { before: &before.load, after: &after.load, weight: now })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_told_apart_even_if_layers_are_skipped() {
        let mut history = History::new(2, Window { length: 2, decay: 0.5 });
        let load = |share: f64| [share, 1.0 - share];
        history.observe(0, &load(0.0625));
        assert_eq!(history.before(1), Some(&load(0.0625)[..]));
        assert_eq!(history.before(0), None);
        history.observe(1, &load(0.125));
        history.observe(0, &load(0.1875));
        history.observe(2, &load(0.25)); // layer 1 is missing
        assert_eq!(history.before(3), Some(&load(0.25)[..]));
        assert_eq!(history.before(1), None, "layer 1 would be of the next pass");
        history.observe(0, &load(0.3125));
        history.observe(1, &load(0.375));
        let pairs: Vec<_> = history.pairs(1).map(|s| (s.before[0], s.after[0], s.weight)).collect();
        assert_eq!(pairs, [(0.3125, 0.375, 1.0), (0.0625, 0.125, 0.5)]);
        assert_eq!(history.pairs(0).count(), 0);
        history.observe(1, &load(0.4375)); // another pass without layer 0
        let pairs: Vec<_> = history.pairs(1).map(|s| (s.before[0], s.weight)).collect();
        assert_eq!(pairs, [(0.3125, 0.5)], "what has no partner still ages the others");
    }

    #[test]
    fn loads_of_any_size_become_shares() {
        let mut history = History::new(2, Window::default());
        for (load, shares) in [
            ([0.0, 0.0], [0.5, 0.5]),
            ([1e308, 1e308], [0.5, 0.5]),
            ([3e-320, 1e-320], [0.75, 0.25]),
            ([0.0, 7.0], [0.0, 1.0]),
        ] {
            history.observe(0, &load);
            let found = history.latest(0).unwrap();
            assert!(found.iter().zip(shares).all(|(a, b)| (a - b).abs() < 1e-3), "{found:?}");
        }
    }
}
