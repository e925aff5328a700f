//! Whoever has been best on this trace so far.
//!
//! Every candidate predicts every layer; when the truth is known each is charged its cost: the time
//! of the all-to-all with circuits chosen from its prediction if the caller knows it, else the error
//! of the prediction. Each layer goes by its own sums, because layers differ: the first has none
//! before it. Sums fade like the window's weights, at half their pace, so that old merits pass.

use super::form::{Capabilities, Predictor};
use super::history::{History, Window};
use super::scores::relative_error;
use lightloom_units::kind::Kind;

static KIND: Kind<Capabilities> = Kind {
    name: "auto",
    summary: "Whoever of these has cost least so far, layer by layer; at first the first",
    source: None,
    keys: &[],
    capabilities: Capabilities { every_layer: true },
};

/// What each candidate has cost, by layer.
///
/// ```
/// use lightloom_circuits::predict::{Costs, Window};
/// let mut costs = Costs::default();
/// assert_eq!(costs.least(3), 0);
/// costs.charge(3, &[0.3, 0.2, 0.4], Window::default());
/// assert_eq!((costs.least(3), costs.least(4)), (1, 0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Costs {
    layers: Vec<Vec<f64>>,
}

impl Costs {
    /// Which candidate has cost least in this layer, the first of equals.
    pub fn least(&self, layer: usize) -> usize {
        let costs = self.layers.get(layer).map_or(&[][..], |costs| costs);
        (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0)
    }

    /// Charges every candidate, in their order, what its last prediction of this layer cost.
    pub fn charge(&mut self, layer: usize, costs: &[f64], window: Window) {
        if self.layers.len() <= layer {
            self.layers.resize(layer + 1, Vec::new());
        }
        let (fade, sums) = (window.decay.sqrt(), &mut self.layers[layer]);
        sums.resize(costs.len(), 0.0);
        sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum = *sum * fade + cost);
    }
}

/// Follows one of its candidates in each layer. Without circuits it judges by the error of the rows.
#[derive(Debug)]
pub struct Auto {
    candidates: Vec<Box<dyn Predictor>>,
    costs: Costs,
    /// What the candidates said last, by layer.
    said: Vec<Vec<Vec<Vec<f64>>>>,
    by: &'static str,
}

impl Auto {
    /// Nobody has cost anything yet; the first candidate is trusted.
    ///
    /// # Panics
    /// If there are no candidates.
    pub fn new(candidates: Vec<Box<dyn Predictor>>) -> Self {
        let by = candidates[0].name();
        Auto { candidates, costs: Costs::default(), said: Vec::new(), by }
    }
}

impl Predictor for Auto {
    fn kind(&self) -> &'static Kind<Capabilities> {
        &KIND
    }

    fn predict(&mut self, sources: &[History], layer: usize) -> Vec<Vec<f64>> {
        let ask = |candidate: &mut Box<dyn Predictor>| candidate.predict(sources, layer);
        let all: Vec<_> = self.candidates.iter_mut().map(ask).collect();
        let least = self.costs.least(layer);
        self.by = self.candidates[least].name();
        let rows = all[least].clone();
        if self.said.len() <= layer {
            self.said.resize(layer + 1, Vec::new());
        }
        self.said[layer] = all;
        rows
    }

    fn observe(&mut self, sources: &[History], layer: usize) {
        self.candidates.iter_mut().for_each(|candidate| candidate.observe(sources, layer));
        let all = self.said.get_mut(layer).map(std::mem::take).unwrap_or_default();
        if all.is_empty() {
            return;
        }
        let error = |said: &Vec<Vec<f64>>| {
            let row = |(source, said): (&History, &Vec<f64>)| {
                source.latest(layer).map_or(0.0, |truth| relative_error(said, truth))
            };
            sources.iter().zip(said).map(row).sum()
        };
        let errors: Vec<f64> = all.iter().map(error).collect();
        self.costs.charge(layer, &errors, sources[0].window());
    }

    fn by(&self) -> &'static str {
        self.by
    }
}
