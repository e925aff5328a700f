//! All experts alike: what a fabric that does not look at demand assumes.

use super::form::{Capabilities, Predictor};
use super::history::History;
use lightloom_units::kind::Kind;

static KIND: Kind<Capabilities> = Kind {
    name: "uniform",
    summary: "All experts alike",
    source: None,
    keys: &[],
    capabilities: Capabilities { every_layer: false, learns: false },
};

/// The same share for each expert.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uniform;

impl Predictor for Uniform {
    fn kind(&self) -> &'static Kind<Capabilities> {
        &KIND
    }

    fn predict(&mut self, sources: &[History], _: usize) -> Vec<Vec<f64>> {
        sources.iter().map(|source| even(source.experts())).collect()
    }
}

pub(super) fn even(experts: usize) -> Vec<f64> {
    vec![1.0 / experts as f64; experts]
}
