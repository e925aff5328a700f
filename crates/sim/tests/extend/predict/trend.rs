//! A layer's last load and once more what it has changed since the one before.

use super::form::{Capabilities, Predictor};
use super::history::History;
use lightloom_units::kind::Kind;

static KIND: Kind<Capabilities> = Kind {
    name: "trend",
    summary: "The same layer's load of the iteration before, and its last change once more",
    source: None,
    keys: &[],
    capabilities: Capabilities { every_layer: false, learns: false },
};

/// See [`KIND`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Trend;

impl Predictor for Trend {
    fn kind(&self) -> &'static Kind<Capabilities> {
        &KIND
    }

    fn predict(&mut self, sources: &[History], layer: usize) -> Vec<Vec<f64>> {
        let row = |source: &History| {
            let even = vec![1.0 / source.experts() as f64; source.experts()];
            let mut recent = source.recent(layer).map(|(_, load)| load);
            let last = recent.next().unwrap_or(&even);
            let before = recent.next().unwrap_or(last);
            let next = |(last, before): (&f64, &f64)| (2.0 * last - before).max(0.0);
            let row: Vec<f64> = last.iter().zip(before).map(next).collect();
            let sum: f64 = row.iter().sum();
            row.iter().map(|share| share / sum).collect()
        };
        sources.iter().map(row).collect()
    }
}
