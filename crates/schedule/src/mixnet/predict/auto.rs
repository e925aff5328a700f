//! Whoever has been best on this trace so far.
//!
//! Every candidate predicts every layer; when the truth is known each is charged its cost: the time
//! of the all-to-all with circuits chosen from its prediction if the caller knows it, else the error
//! of the loads. Each layer goes by its own sums, because layers differ: the first has none before
//! it. Sums fade like the window's weights, at half their pace, so that old merits pass.

use super::{
    Copilot, History, PredictorKind, average, previous_iteration, previous_layer, uniform,
};

/// Who is asked, in the order of ties.
pub const CANDIDATES: [PredictorKind; 5] = [
    PredictorKind::Copilot,
    PredictorKind::Average,
    PredictorKind::PreviousIteration,
    PredictorKind::PreviousLayer,
    PredictorKind::Uniform,
];

/// The candidates, and what each has cost by layer.
#[derive(Clone, Debug, Default)]
pub struct Auto {
    copilot: Copilot,
    layers: Vec<Account>,
}

#[derive(Clone, Debug, Default)]
struct Account {
    costs: [f64; CANDIDATES.len()],
    predicted: Option<[Vec<f64>; CANDIDATES.len()]>,
}

impl Auto {
    /// The prediction of whoever has cost least in this layer, and who that is; at first Copilot.
    pub fn predict(&mut self, history: &History, layer: usize) -> (PredictorKind, Vec<f64>) {
        let all = CANDIDATES.map(|kind| predict(kind, &mut self.copilot, history, layer));
        if self.layers.len() <= layer {
            self.layers.resize(layer + 1, Account::default());
        }
        let account = &mut self.layers[layer];
        let costs = account.costs;
        let best = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0);
        let load = all[best].clone();
        account.predicted = Some(all);
        (CANDIDATES[best], load)
    }

    /// Charges every candidate what its last prediction for this layer cost. `fade`, at most 1, is
    /// what earlier costs count beside this one.
    pub fn charge(&mut self, layer: usize, fade: f64, mut cost: impl FnMut(&[f64]) -> f64) {
        let Some(account) = self.layers.get_mut(layer) else {
            return;
        };
        let Some(predicted) = account.predicted.take() else {
            return;
        };
        for (sum, load) in account.costs.iter_mut().zip(&predicted) {
            *sum = *sum * fade + cost(load);
        }
    }

    /// The matrix behind Copilot's last prediction, unless that was an average.
    pub fn copilot(&self) -> &Copilot {
        &self.copilot
    }
}

fn predict(
    kind: PredictorKind,
    copilot: &mut Copilot,
    history: &History,
    layer: usize,
) -> Vec<f64> {
    match kind {
        PredictorKind::Copilot => copilot.predict(history, layer),
        PredictorKind::PreviousLayer => previous_layer(history, layer),
        PredictorKind::PreviousIteration => previous_iteration(history, layer),
        PredictorKind::Average => average(history, layer),
        PredictorKind::Uniform | PredictorKind::Auto => uniform(history.experts()),
    }
}
