//! A predictor with its history: what a simulator or a controller drives.

use super::form::Predictor;
use super::history::{History, Window};

/// Predicts what each source sends each expert of a layer, before its gate; learns what came.
#[derive(Debug)]
pub struct Forecaster {
    predictor: Box<dyn Predictor>,
    sources: Vec<History>,
}

/// What a layer's experts will receive.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// For each source, the share of its tokens for each expert.
    pub rows: Vec<Vec<f64>>,
    /// The name of who said so: with `auto` whoever it weighed most.
    pub by: &'static str,
}

impl Forecaster {
    /// For a predictor that has seen nothing. With one source it works on the loads of all.
    ///
    /// # Panics
    /// As [`History::new`], or if there are no sources.
    pub fn new(
        predictor: Box<dyn Predictor>,
        sources: usize,
        experts: usize,
        window: Window,
    ) -> Self {
        assert!(sources > 0, "at least one source");
        Forecaster { predictor, sources: vec![History::new(experts, window); sources] }
    }

    /// The rows of the layer that comes next.
    pub fn predict(&mut self, layer: usize) -> Prediction {
        let rows = self.predictor.predict(&self.sources, layer);
        Prediction { rows, by: self.predictor.by() }
    }

    /// What a layer's gate decided, in any unit: `sources * experts` numbers, source by source.
    ///
    /// # Panics
    /// As [`History::observe`], or if there are not as many rows as sources.
    pub fn observe(&mut self, layer: usize, rows: &[f64]) {
        let experts = self.sources[0].experts();
        assert_eq!(rows.len(), self.sources.len() * experts, "rows of all sources");
        for (source, row) in self.sources.iter_mut().zip(rows.chunks_exact(experts)) {
            source.observe(layer, row);
        }
        self.predictor.observe(&self.sources, layer);
    }

    /// What has been observed, source by source.
    pub fn sources(&self) -> &[History] {
        &self.sources
    }

    /// Steps of the fit behind the last prediction, if there was one.
    pub fn fit_steps(&self) -> Option<u32> {
        self.predictor.fit_steps()
    }
}
