//! The layer before's load of the same pass, as it is: what circuits left unchanged assume.

use super::average::average;
use super::history::History;

/// The load of the layer before. Where there is none, as for the first layer, the layer's average.
///
/// ```
/// use lightloom_circuits::predict::{History, Window, previous_layer};
/// let mut history = History::new(2, Window::default());
/// history.observe(0, &[3.0, 1.0]);
/// assert_eq!(previous_layer(&history, 1), [0.75, 0.25]);
/// ```
pub fn previous_layer(history: &History, layer: usize) -> Vec<f64> {
    match history.before(layer) {
        Some(load) => load.to_vec(),
        None => average(history, layer),
    }
}
