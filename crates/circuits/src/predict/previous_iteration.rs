//! The same layer's load of the pass before.

use super::form::{Capabilities, Predictor};
use super::history::History;
use super::uniform::even;
use lightloom_units::kind::Kind;

static KIND: Kind<Capabilities> = Kind {
    name: "previous-iteration",
    summary: "The same layer's load of the iteration before",
    source: None,
    keys: &[],
    capabilities: Capabilities { every_layer: false, learns: false },
};

/// The layer's last load; uniform before there was one.
///
/// ```
/// use lightloom_circuits::predict::{History, Predictor, PreviousIteration, Window};
/// let mut history = History::new(2, Window::default());
/// history.observe(0, &[3.0, 1.0]);
/// assert_eq!(PreviousIteration.predict(&[history.clone()], 0), [[0.75, 0.25]]);
/// assert_eq!(PreviousIteration.predict(&[history], 1), [[0.5, 0.5]]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviousIteration;

impl Predictor for PreviousIteration {
    fn kind(&self) -> &'static Kind<Capabilities> {
        &KIND
    }

    fn predict(&mut self, sources: &[History], layer: usize) -> Vec<Vec<f64>> {
        let row = |source: &History| match source.latest(layer) {
            Some(load) => load.to_vec(),
            None => even(source.experts()),
        };
        sources.iter().map(row).collect()
    }
}
