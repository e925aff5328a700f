//! A predictor with its history: what a simulator or a controller drives.

use super::{
    Auto, Copilot, History, PredictorKind, Transition, Window, average, previous_iteration,
    previous_layer, relative_error, uniform,
};

/// Predicts each layer's load before its gate; is told what came.
#[derive(Clone, Debug)]
pub struct Forecaster {
    kind: PredictorKind,
    history: History,
    fade: f64,
    copilot: Copilot,
    auto: Auto,
}

/// What a layer's experts will receive.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Share of the tokens for each expert.
    pub load: Vec<f64>,
    /// Who said so: with [`PredictorKind::Auto`] whoever it trusted.
    pub by: PredictorKind,
}

impl Forecaster {
    /// A predictor that has seen nothing.
    ///
    /// # Panics
    /// As [`History::new`].
    pub fn new(kind: PredictorKind, experts: usize, window: Window) -> Self {
        Forecaster {
            kind,
            history: History::new(experts, window),
            fade: window.decay.sqrt(),
            copilot: Copilot::default(),
            auto: Auto::default(),
        }
    }

    /// The load of the layer that comes next.
    pub fn predict(&mut self, layer: usize) -> Prediction {
        let history = &self.history;
        let load = match self.kind {
            PredictorKind::Copilot => self.copilot.predict(history, layer),
            PredictorKind::PreviousLayer => previous_layer(history, layer),
            PredictorKind::PreviousIteration => previous_iteration(history, layer),
            PredictorKind::Average => average(history, layer),
            PredictorKind::Uniform => uniform(history.experts()),
            PredictorKind::Auto => {
                let (by, load) = self.auto.predict(history, layer);
                return Prediction { load, by };
            }
        };
        Prediction { load, by: self.kind }
    }

    /// What a layer's gate decided, in any unit. `auto` judges by the error of the loads.
    ///
    /// # Panics
    /// As [`History::observe`].
    pub fn observe(&mut self, layer: usize, load: &[f64]) {
        self.history.observe(layer, load);
        if let Some(truth) = self.history.latest(layer) {
            self.auto.charge(layer, self.fade, |predicted| relative_error(predicted, truth));
        }
    }

    /// [`Forecaster::observe`], with `auto` judging by what a prediction would have cost.
    ///
    /// # Panics
    /// As [`History::observe`].
    pub fn observe_costing(&mut self, layer: usize, load: &[f64], cost: impl FnMut(&[f64]) -> f64) {
        self.history.observe(layer, load);
        self.auto.charge(layer, self.fade, cost);
    }

    /// The matrix behind Copilot's last prediction, unless that was an average.
    pub fn transition(&self) -> Option<&Transition> {
        match self.kind {
            PredictorKind::Auto => self.auto.copilot().last(),
            _ => self.copilot.last(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CANDIDATES;
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Iterator<Item = PredictorKind> {
        CANDIDATES.into_iter().chain([PredictorKind::Auto])
    }

    proptest! {
        #[test]
        fn every_prediction_is_a_distribution_and_repeats(
            passes in prop::collection::vec(
                (0usize..4, prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0, 0.0..1e12], 5)),
                0..40,
            ),
            length in 1usize..6,
            decay in 0.01..1.0f64,
        ) {
            for kind in kinds() {
                let mut both = [(); 2].map(|()| Forecaster::new(kind, 5, Window { length, decay }));
                for (layer, load) in &passes {
                    let [one, two] = both.each_mut().map(|f| {
                        let said = f.predict(*layer);
                        f.observe(*layer, load);
                        said
                    });
                    prop_assert!((one.load.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{:?}", one);
                    prop_assert!(one.load.iter().all(|&share| (0.0..=1.0 + 1e-9).contains(&share)));
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
        let mut copilot = Forecaster::new(PredictorKind::Copilot, n, Window::default());
        let mut wrong = Vec::new();
        for pass in 0..60 {
            let (hot, shift) = (pass * 7 % 11, if pass < 30 { 1 } else { 2 });
            let (before, after): (Vec<f64>, Vec<f64>) = (load(hot), load(hot + shift));
            copilot.observe(0, &before);
            wrong.push(relative_error(&copilot.predict(1).load, &after));
            copilot.observe(1, &after);
        }
        assert!(wrong[29] < 0.01, "learnt: {}", wrong[29]);
        assert!(wrong[30] > 0.5, "surprised: {}", wrong[30]);
        assert!(wrong[48] < 0.01, "relearnt within a window: {}", wrong[48]);
    }

    #[test]
    fn auto_trusts_who_has_been_right_layer_by_layer() {
        let n = 4;
        let mut auto = Forecaster::new(PredictorKind::Auto, n, Window::default());
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
        // A cost of the caller's decides as well.
        let mut told = Forecaster::new(PredictorKind::Auto, n, Window::default());
        for _ in 0..3 {
            told.predict(0);
            told.observe_costing(0, &[1.0, 0.0, 0.0, 0.0], |said| 1.0 - said[3]);
        }
        assert_eq!(told.predict(0).by, PredictorKind::Uniform);
    }
}
