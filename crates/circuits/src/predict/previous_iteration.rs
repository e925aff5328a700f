//! The same layer's load of the pass before.

use super::history::History;
use super::uniform;

/// The layer's last load; uniform before there was one.
///
/// ```
/// use lightloom_circuits::predict::{History, Window, previous_iteration};
/// let mut history = History::new(2, Window::default());
/// history.observe(0, &[3.0, 1.0]);
/// assert_eq!(previous_iteration(&history, 0), [0.75, 0.25]);
/// assert_eq!(previous_iteration(&history, 1), [0.5, 0.5]);
/// ```
pub fn previous_iteration(history: &History, layer: usize) -> Vec<f64> {
    match history.latest(layer) {
        Some(load) => load.to_vec(),
        None => uniform(history.experts()),
    }
}
