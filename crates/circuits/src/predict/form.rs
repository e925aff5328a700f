//! What a predictor is.

use super::history::History;
use lightloom_units::kind::Kind;
use serde::Serialize;
use std::fmt::Debug;

/// What others must know of a predictor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Capabilities {
    /// It learns from what it predicted, so it is asked before every layer, whether anybody needs the
    /// answer or not.
    pub every_layer: bool,
    /// It learns from the whole window, and is not itself before that is full.
    pub learns: bool,
}

/// Predicts what each source sends each expert of a layer, before its gate.
pub trait Predictor: Debug + Send {
    /// What it says of itself.
    fn kind(&self) -> &'static Kind<Capabilities>;

    /// As in a specification.
    fn name(&self) -> &'static str {
        self.kind().name
    }

    /// For each source, the share of its tokens for each expert of the layer that comes next.
    fn predict(&mut self, sources: &[History], layer: usize) -> Vec<Vec<f64>>;

    /// Learns from a layer whose gate has decided; the sources have its loads already.
    fn observe(&mut self, _sources: &[History], _layer: usize) {}

    /// Whose the last prediction was: another's name if this one mixes others and weighs that one most.
    fn by(&self) -> &'static str {
        self.name()
    }

    /// Steps of the fit behind the last prediction, if there was one.
    fn fit_steps(&self) -> Option<u32> {
        None
    }
}
