//! A mixture of the others, weighted by how well each has predicted so far.
//!
//! Every candidate predicts every layer, and `auto` says the weighted mean of what they say. When the
//! truth is known each is charged its error: the sum of the absolute errors of a source's shares, mean
//! over sources. This loss is convex, so the mixture's error is at most the weighted mean of theirs,
//! and [`Hedge`] bounds how far the sum of these lies above the best candidate's: that is `auto`'s
//! regret, on any trace. One set of weights serves all layers, so that it learns from each.

use super::form::{Capabilities, Predictor};
use super::hedge::Hedge;
use super::history::History;
use super::scores::relative_error;
use lightloom_units::kind::Kind;

static KIND: Kind<Capabilities> = Kind {
    name: "auto",
    summary: "A mixture of these, by how well each has predicted so far (AdaHedge)",
    source: Some("de Rooij, van Erven, Grünwald, Koolen, JMLR 15, 2014"),
    keys: &[],
    capabilities: Capabilities { every_layer: true, learns: true },
};

/// What a predictor says: for each source, the share of its tokens for each expert.
pub type Rows = Vec<Vec<f64>>;

/// Averages what candidates say, and learns from what came.
#[derive(Clone, Debug)]
pub struct Mixture {
    hedge: Hedge,
}

impl Mixture {
    /// Of so many candidates, all trusted alike.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(candidates: usize) -> Self {
        Mixture { hedge: Hedge::new(candidates) }
    }

    /// What each candidate weighs, and what was lost so far.
    pub fn hedge(&self) -> &Hedge {
        &self.hedge
    }

    /// The weighted mean of what the candidates say, source by source.
    pub fn mix(&self, said: &[&Rows]) -> Rows {
        let mut mixed: Rows = said[0].iter().map(|row| vec![0.0; row.len()]).collect();
        for (weight, said) in self.hedge.weights().into_iter().zip(said) {
            for (mixed, row) in mixed.iter_mut().zip(*said) {
                mixed.iter_mut().zip(row).for_each(|(to, share)| *to += weight * share);
            }
        }
        mixed
    }

    /// Charges the candidates for what they said, and the mixture for its mean.
    pub fn learn(&mut self, said: &[&Rows], sources: &[History], layer: usize) {
        let error = |rows: &Rows| {
            let row = |(said, source): (&Vec<f64>, &History)| {
                source.latest(layer).map_or(0.0, |truth| relative_error(said, truth))
            };
            rows.iter().zip(sources).map(row).sum::<f64>() / sources.len() as f64
        };
        let losses: Vec<f64> = said.iter().map(|rows| error(rows)).collect();
        self.hedge.learn(&losses, error(&self.mix(said)));
    }
}

/// Says the [`Mixture`] of its candidates.
#[derive(Debug)]
pub struct Auto {
    candidates: Vec<Box<dyn Predictor>>,
    mixture: Mixture,
    /// What the candidates said last, by layer.
    said: Vec<Vec<Rows>>,
}

impl Auto {
    /// All candidates are trusted alike at first.
    ///
    /// # Panics
    /// If there are no candidates.
    pub fn new(candidates: Vec<Box<dyn Predictor>>) -> Self {
        let mixture = Mixture::new(candidates.len());
        Auto { candidates, mixture, said: Vec::new() }
    }
}

impl Predictor for Auto {
    fn kind(&self) -> &'static Kind<Capabilities> {
        &KIND
    }

    fn predict(&mut self, sources: &[History], layer: usize) -> Rows {
        let ask = |candidate: &mut Box<dyn Predictor>| candidate.predict(sources, layer);
        let said: Vec<Rows> = self.candidates.iter_mut().map(ask).collect();
        let mixed = self.mixture.mix(&said.iter().collect::<Vec<_>>());
        if self.said.len() <= layer {
            self.said.resize(layer + 1, Vec::new());
        }
        self.said[layer] = said;
        mixed
    }

    fn observe(&mut self, sources: &[History], layer: usize) {
        self.candidates.iter_mut().for_each(|candidate| candidate.observe(sources, layer));
        let said = self.said.get_mut(layer).map(std::mem::take).unwrap_or_default();
        if !said.is_empty() {
            self.mixture.learn(&said.iter().collect::<Vec<_>>(), sources, layer);
        }
    }

    /// Whoever weighs most, the first of equals.
    fn by(&self) -> &'static str {
        let weights = self.mixture.hedge.weights();
        let most = (0..weights.len()).fold(0, |a, b| if weights[b] > weights[a] { b } else { a });
        self.candidates[most].name()
    }
}
