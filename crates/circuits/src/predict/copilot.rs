//! MixNet-Copilot: the layer before's load through a transition matrix fitted on the window (MixNet,
//! equation 1).
//!
//! Sources that are told apart share one matrix, fitted on the rows of all of them: that a token
//! which chose expert i goes on to expert j does not depend on where it is. A matrix for each source
//! would be fitted on as few samples as one for all loads (measured: docs/prediction.md).

use super::average::average;
use super::form::{Capabilities, Predictor};
use super::history::History;
use super::transition::{Sample, Transition};
use lightloom_units::kind::Kind;

static KIND: Kind<Capabilities> = Kind {
    name: "copilot",
    summary: "The layer before's load, through a transition matrix fitted on the window",
    source: Some("MixNet, equation 1"),
    keys: &[],
    capabilities: Capabilities { every_layer: false, learns: true },
};

/// For every source the load of its layer before, through the matrix. Where there is none, as for
/// the first layer, or no pass from which to fit, the layer's average.
///
/// See [the module](super) for an example.
#[derive(Clone, Debug, Default)]
pub struct Copilot {
    steps: Option<u32>,
}

impl Copilot {
    /// Fits end when the gap is this share of what the best constant prediction leaves unexplained.
    pub const TOLERANCE: f64 = 1e-6;
}

impl Predictor for Copilot {
    fn kind(&self) -> &'static Kind<Capabilities> {
        &KIND
    }

    fn predict(&mut self, sources: &[History], layer: usize) -> Vec<Vec<f64>> {
        let known = sources.iter().all(|source| source.before(layer).is_some());
        let samples: Vec<Sample<'_>> =
            sources.iter().flat_map(|source| source.pairs(layer)).collect();
        let fitted = (known && !samples.is_empty())
            .then(|| Transition::fit(sources[0].experts(), &samples, Self::TOLERANCE));
        self.steps = fitted.as_ref().map(|fitted| fitted.steps);
        let row = |source: &History| match (&fitted, source.before(layer)) {
            (Some(fitted), Some(before)) => fitted.apply(before),
            _ => average(source, layer),
        };
        sources.iter().map(row).collect()
    }

    fn fit_steps(&self) -> Option<u32> {
        self.steps
    }
}
