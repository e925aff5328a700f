//! Whoever has been best on this trace so far.
//!
//! Every candidate predicts every layer; when the truth is known each is charged its cost: the time
//! of the all-to-all with circuits chosen from its prediction if the caller knows it, else the error
//! of the prediction. Each layer goes by its own sums, because layers differ: the first has none
//! before it. Sums fade like the window's weights, at half their pace, so that old merits pass.

use super::history::Window;
use lightloom_fabric::PredictorKind;

/// Who is asked, in the order of ties: at first, Copilot.
pub const CANDIDATES: [PredictorKind; 5] = [
    PredictorKind::Copilot,
    PredictorKind::Average,
    PredictorKind::PreviousIteration,
    PredictorKind::PreviousLayer,
    PredictorKind::Uniform,
];

/// What each candidate has cost, by layer.
///
/// ```
/// use lightloom_circuits::predict::{Auto, PredictorKind, Window};
/// let mut auto = Auto::new(Window::default());
/// assert_eq!(auto.trusted(3), PredictorKind::Copilot);
/// auto.charge(3, [0.3, 0.2, 0.4, 0.9, 0.8]);
/// assert_eq!(auto.trusted(3), PredictorKind::Average);
/// assert_eq!(auto.trusted(4), PredictorKind::Copilot);
/// ```
#[derive(Clone, Debug)]
pub struct Auto {
    fade: f64,
    layers: Vec<[f64; CANDIDATES.len()]>,
}

impl Auto {
    /// Nobody has cost anything yet.
    pub fn new(window: Window) -> Self {
        Auto { fade: window.decay.sqrt(), layers: Vec::new() }
    }

    /// Who has cost least in this layer.
    pub fn trusted(&self, layer: usize) -> PredictorKind {
        let costs = self.layers.get(layer).copied().unwrap_or_default();
        let least = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0);
        CANDIDATES[least]
    }

    /// Charges every candidate, in their order, what its last prediction of this layer cost.
    pub fn charge(&mut self, layer: usize, costs: [f64; CANDIDATES.len()]) {
        if self.layers.len() <= layer {
            self.layers.resize(layer + 1, [0.0; CANDIDATES.len()]);
        }
        for (sum, cost) in self.layers[layer].iter_mut().zip(costs) {
            *sum = *sum * self.fade + cost;
        }
    }
}
