//! MixNet-Copilot: the layer before's load through a transition matrix fitted on the window (MixNet,
//! equation 1).

use super::{History, Sample, Transition, average};

/// The predictor, with its last fit.
#[derive(Clone, Debug, Default)]
pub struct Copilot {
    last: Option<Transition>,
}

impl Copilot {
    /// Fits end when the gap is this share of what the best constant prediction leaves unexplained.
    /// A hundred times more would change predictions by less than a percent of their error.
    pub const TOLERANCE: f64 = 1e-6;

    /// The load of the layer before, through the matrix. Where there is none, as for the first
    /// layer, or no pass from which to fit, the layer's average.
    ///
    /// See [the module](super) for an example.
    pub fn predict(&mut self, history: &History, layer: usize) -> Vec<f64> {
        self.last = None;
        let Some(before) = history.before(layer) else {
            return average(history, layer);
        };
        let samples: Vec<Sample<'_>> = history.pairs(layer).collect();
        if samples.is_empty() {
            return average(history, layer);
        }
        let fitted = Transition::fit(history.experts(), &samples, Self::TOLERANCE);
        let load = fitted.apply(before);
        self.last = Some(fitted);
        load
    }

    /// The matrix behind the last prediction, unless that was an average.
    pub fn last(&self) -> Option<&Transition> {
        self.last.as_ref()
    }
}
