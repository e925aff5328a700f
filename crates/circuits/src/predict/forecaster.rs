//! A predictor with its history: what a simulator or a controller drives.

use super::auto::{Auto, CANDIDATES};
use super::average::average;
use super::copilot::Copilot;
use super::history::{History, Window};
use super::previous_iteration::previous_iteration;
use super::previous_layer::previous_layer;
use super::scores::relative_error;
use super::transition::Transition;
use super::uniform::uniform;
use lightloom_fabric::PredictorKind;

/// Predicts what each source sends each expert of a layer, before its gate; learns what came.
#[derive(Clone, Debug)]
pub struct Forecaster {
    kind: PredictorKind,
    sources: Vec<History>,
    copilot: Copilot,
    auto: Auto,
    /// What `auto`'s candidates said last, by layer.
    said: Vec<Option<[Vec<Vec<f64>>; CANDIDATES.len()]>>,
}

/// What a layer's experts will receive.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// For each source, the share of its tokens for each expert.
    pub rows: Vec<Vec<f64>>,
    /// Who said so: with [`PredictorKind::Auto`] whoever it trusted.
    pub by: PredictorKind,
}

impl Forecaster {
    /// A predictor that has seen nothing. With one source it works on the loads of all.
    ///
    /// # Panics
    /// As [`History::new`], or if there are no sources.
    pub fn new(kind: PredictorKind, sources: usize, experts: usize, window: Window) -> Self {
        assert!(sources > 0, "at least one source");
        Forecaster {
            kind,
            sources: vec![History::new(experts, window); sources],
            copilot: Copilot::default(),
            auto: Auto::new(window),
            said: Vec::new(),
        }
    }

    /// The rows of the layer that comes next.
    pub fn predict(&mut self, layer: usize) -> Prediction {
        if self.kind != PredictorKind::Auto {
            return Prediction { rows: self.ask(self.kind, layer), by: self.kind };
        }
        let by = self.auto.trusted(layer);
        let all = CANDIDATES.map(|kind| self.ask(kind, layer));
        let place = CANDIDATES.iter().position(|&kind| kind == by).unwrap_or(0);
        let rows = all[place].clone();
        if self.said.len() <= layer {
            self.said.resize(layer + 1, None);
        }
        self.said[layer] = Some(all);
        Prediction { rows, by }
    }

    fn ask(&mut self, kind: PredictorKind, layer: usize) -> Vec<Vec<f64>> {
        let one = |source: &History| match kind {
            PredictorKind::PreviousLayer => previous_layer(source, layer),
            PredictorKind::PreviousIteration => previous_iteration(source, layer),
            PredictorKind::Average => average(source, layer),
            _ => uniform(source.experts()),
        };
        match kind {
            PredictorKind::Copilot => self.copilot.predict(&self.sources, layer),
            _ => self.sources.iter().map(one).collect(),
        }
    }

    /// What a layer's gate decided, in any unit: `sources * experts` numbers, source by source.
    /// `auto` judges by the error of the rows.
    ///
    /// # Panics
    /// As [`History::observe`], or if there are not as many rows as sources.
    pub fn observe(&mut self, layer: usize, rows: &[f64]) {
        let experts = self.sources[0].experts();
        assert_eq!(rows.len(), self.sources.len() * experts, "rows of all sources");
        for (source, row) in self.sources.iter_mut().zip(rows.chunks_exact(experts)) {
            source.observe(layer, row);
        }
        let sources = &self.sources;
        let error = |said: &Vec<Vec<f64>>| {
            let row = |(source, said): (&History, &Vec<f64>)| {
                source.latest(layer).map_or(0.0, |truth| relative_error(said, truth))
            };
            sources.iter().zip(said).map(row).sum()
        };
        if let Some(all) = self.said.get_mut(layer).and_then(Option::take) {
            self.auto.charge(layer, all.each_ref().map(error));
        }
    }

    /// The matrix behind Copilot's last prediction, unless that was an average.
    pub fn transition(&self) -> Option<&Transition> {
        self.copilot.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Iterator<Item = PredictorKind> {
        CANDIDATES.into_iter().chain([PredictorKind::Auto])
    }

    proptest! {
        #[test]
        fn every_prediction_is_a_distribution_and_repeats(
            passes in prop::collection::vec(
                (0usize..4, prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0, 0.0..1e12], 10)),
                0..30,
            ),
            length in 1usize..6,
            decay in 0.01..1.0f64,
        ) {
            for kind in kinds() {
                let mut both = [(); 2].map(|()| Forecaster::new(kind, 2, 5, Window { length, decay }));
                for (layer, load) in &passes {
                    let [one, two] = both.each_mut().map(|f| {
                        let said = f.predict(*layer);
                        f.observe(*layer, load);
                        said
                    });
                    prop_assert_eq!(one.rows.len(), 2);
                    for row in &one.rows {
                        prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{:?}", one);
                        prop_assert!(row.iter().all(|&share| (0.0..=1.0 + 1e-9).contains(&share)));
                    }
                    prop_assert_eq!(one, two);
                }
            }
        }
    }

    /// Two regimes: what expert e of layer 0 gets goes to e + 1, later to e + 2.
    #[test]
    fn the_window_forgets_what_has_drifted_away() {
        let n = 5;
        let load = |hot: usize| (0..n).map(|e| if e == hot % n { 0.6 } else { 0.1 }).collect();
        let mut copilot = Forecaster::new(PredictorKind::Copilot, 1, n, Window::default());
        let mut wrong = Vec::new();
        for pass in 0..60 {
            let (hot, shift) = (pass * 7 % 11, if pass < 30 { 1 } else { 2 });
            let (before, after): (Vec<f64>, Vec<f64>) = (load(hot), load(hot + shift));
            copilot.observe(0, &before);
            wrong.push(relative_error(&copilot.predict(1).rows[0], &after));
            copilot.observe(1, &after);
        }
        assert!(wrong[29] < 0.01, "learnt: {}", wrong[29]);
        assert!(wrong[30] > 0.5, "surprised: {}", wrong[30]);
        assert!(wrong[48] < 0.01, "relearnt within a window: {}", wrong[48]);
    }

    #[test]
    fn auto_trusts_who_has_been_right_layer_by_layer() {
        let n = 4;
        let mut auto = Forecaster::new(PredictorKind::Auto, 1, n, Window::default());
        let load = |hot: usize| (0..n).map(|e| if e == hot { 0.7 } else { 0.1 }).collect();
        let mut by = Vec::new();
        for pass in 0..30 {
            // Layer 0 flips to and fro; layer 1 repeats it; layer 2 stays as it is.
            let (moving, standing): (Vec<f64>, Vec<f64>) = (load(pass * pass % 3), load(2));
            by.clear();
            for (layer, truth) in [&moving, &moving, &standing].into_iter().enumerate() {
                by.push(auto.predict(layer).by);
                auto.observe(layer, truth);
            }
        }
        assert_eq!(by[1], PredictorKind::PreviousLayer);
        assert_eq!(by[2], PredictorKind::PreviousIteration);
    }
}
