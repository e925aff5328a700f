//! MixNet-Copilot: the layer before's load through a transition matrix fitted on the window (MixNet,
//! equation 1).
//!
//! Sources that are told apart share one matrix, fitted on the rows of all of them: that a token
//! which chose expert i goes on to expert j does not depend on where it is. A matrix for each source
//! would be fitted on as few samples as one for all loads (measured: docs/prediction.md).

use super::average::average;
use super::history::History;
use super::transition::{Sample, Transition};

/// The predictor, with its last fit.
#[derive(Clone, Debug, Default)]
pub struct Copilot {
    last: Option<Transition>,
}

impl Copilot {
    /// Fits end when the gap is this share of what the best constant prediction leaves unexplained.
    pub const TOLERANCE: f64 = 1e-6;

    /// For every source the load of its layer before, through the matrix. Where there is none, as for
    /// the first layer, or no pass from which to fit, the layer's average.
    ///
    /// See [the module](super) for an example.
    pub fn predict(&mut self, sources: &[History], layer: usize) -> Vec<Vec<f64>> {
        self.last = None;
        let known = sources.iter().all(|source| source.before(layer).is_some());
        let samples: Vec<Sample<'_>> =
            sources.iter().flat_map(|source| source.pairs(layer)).collect();
        if !samples.is_empty() && known {
            self.last = Some(Transition::fit(sources[0].experts(), &samples, Self::TOLERANCE));
        }
        let row = |source: &History| match (&self.last, source.before(layer)) {
            (Some(fitted), Some(before)) => fitted.apply(before),
            _ => average(source, layer),
        };
        sources.iter().map(row).collect()
    }

    /// The matrix behind the last prediction, unless that was an average.
    pub fn last(&self) -> Option<&Transition> {
        self.last.as_ref()
    }
}
