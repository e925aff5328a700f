//! A layer's own loads of recent passes, averaged with the window's weights.

use super::form::{Capabilities, Predictor};
use super::history::History;
use super::uniform::even;
use lightloom_units::kind::Kind;

static KIND: Kind<Capabilities> = Kind {
    name: "average",
    summary: "The same layer's loads of the window, weighted",
    source: None,
    keys: &[],
    capabilities: Capabilities { every_layer: false, learns: true },
};

/// The weighted average of a layer's window; uniform before anything was seen.
///
/// ```
/// use lightloom_circuits::predict::{Average, History, Predictor, Window};
/// let mut history = History::new(2, Window { length: 16, decay: 0.5 });
/// history.observe(0, &[1.0, 0.0]);
/// history.observe(0, &[0.0, 1.0]);
/// assert_eq!(Average.predict(&[history], 0), [[1.0 / 3.0, 2.0 / 3.0]]); // weights 1/2 and 1
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Average;

impl Predictor for Average {
    fn kind(&self) -> &'static Kind<Capabilities> {
        &KIND
    }

    fn predict(&mut self, sources: &[History], layer: usize) -> Vec<Vec<f64>> {
        sources.iter().map(|source| average(source, layer)).collect()
    }
}

pub(super) fn average(history: &History, layer: usize) -> Vec<f64> {
    let mut sum = vec![0.0; history.experts()];
    let mut total = 0.0;
    for (weight, load) in history.recent(layer) {
        total += weight;
        sum.iter_mut().zip(load).for_each(|(sum, share)| *sum += weight * share);
    }
    if total == 0.0 {
        return even(history.experts());
    }
    sum.iter_mut().for_each(|share| *share /= total);
    sum
}
