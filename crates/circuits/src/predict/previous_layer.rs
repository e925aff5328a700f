//! The layer before's load of the same pass, as it is: what circuits left unchanged assume.

use super::average::average;
use super::form::{Capabilities, Predictor};
use super::history::History;
use lightloom_units::kind::Kind;

static KIND: Kind<Capabilities> = Kind {
    name: "previous-layer",
    summary: "The layer before's load, as it is: what unchanged circuits assume",
    source: None,
    keys: &[],
    capabilities: Capabilities { every_layer: false, learns: false },
};

/// The load of the layer before. Where there is none, as for the first layer, the layer's average.
///
/// ```
/// use lightloom_circuits::predict::{History, Predictor, PreviousLayer, Window};
/// let mut history = History::new(2, Window::default());
/// history.observe(0, &[3.0, 1.0]);
/// assert_eq!(PreviousLayer.predict(&[history], 1), [[0.75, 0.25]]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviousLayer;

impl Predictor for PreviousLayer {
    fn kind(&self) -> &'static Kind<Capabilities> {
        &KIND
    }

    fn predict(&mut self, sources: &[History], layer: usize) -> Vec<Vec<f64>> {
        let row = |source: &History| match source.before(layer) {
            Some(load) => load.to_vec(),
            None => average(source, layer),
        };
        sources.iter().map(row).collect()
    }
}
