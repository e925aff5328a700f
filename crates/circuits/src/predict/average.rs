//! A layer's own loads of recent passes, averaged with the window's weights.

use super::history::History;
use super::uniform;

/// The weighted average of a layer's window; uniform before anything was seen.
///
/// ```
/// use lightloom_circuits::predict::{History, Window, average};
/// let mut history = History::new(2, Window { length: 16, decay: 0.5 });
/// history.observe(0, &[1.0, 0.0]);
/// history.observe(0, &[0.0, 1.0]);
/// assert_eq!(average(&history, 0), [1.0 / 3.0, 2.0 / 3.0]); // weights 1/2 and 1
/// ```
pub fn average(history: &History, layer: usize) -> Vec<f64> {
    let mut sum = vec![0.0; history.experts()];
    let mut total = 0.0;
    for (weight, load) in history.recent(layer) {
        total += weight;
        sum.iter_mut().zip(load).for_each(|(sum, share)| *sum += weight * share);
    }
    if total == 0.0 {
        return uniform(history.experts());
    }
    sum.iter_mut().for_each(|share| *share /= total);
    sum
}
