//! How well predictors do on a recorded trace (MixNet, Figure 19), and what their errors cost.
//!
//! Modelled: the trace passes by once, layer by layer; every predictor says what is next, then sees
//! it. Scores count from the second pass on. Accuracy is of the experts' loads. Circuits are chosen
//! from what ranks will send each other: the predicted loads times each source's tokens, or a
//! predicted row for each rank; then the all-to-all that comes is timed with them. Every predictor
//! has circuits of its own that stand from one all-to-all to the next.
//! Ignored: dark time; the packet switches' core. The time of a prediction is measured by the
//! caller's clock, and is the only thing that a repetition may change.
//! Checked: a trace that repeats costs nothing but to who cannot know; who knows has the circuits of
//! the truth.

use crate::decider::Decider;
use crate::region::Region;
use lightloom_circuits::predict::{
    Costs, Forecaster, Window, candidates, predictors, relative_error, top_k_accuracy,
};
use lightloom_circuits::{PortMap, ServerDemand};
use serde::Serialize;

/// What circuits are chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One prediction of the experts' loads, for all sources alike.
    Alike,
    /// A prediction for every rank's own row, from rank to rank.
    Own,
}

/// What is evaluated.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// How far predictors look back.
    pub window: Window,
    /// What circuits are chosen from.
    pub rows: Rows,
    /// The k of top-k accuracy.
    pub tops: Vec<usize>,
    /// Where ranks are. With fewer than two servers nothing is timed.
    pub region: Region,
}

/// Sums over the passes of a layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LayerScores {
    /// Predictions that were scored.
    pub count: u32,
    /// Top-k accuracy, one for each asked k.
    pub accuracy: Vec<f64>,
    /// Relative error of the experts' loads.
    pub load_error: f64,
    /// Relative error of the matrix from rank to rank.
    pub matrix_error: f64,
    /// All-to-all with circuits from the prediction \[s\].
    pub predicted_s: f64,
    /// All-to-all with circuits from the truth \[s\].
    pub known_s: f64,
    /// Ports changed for the prediction.
    pub changed_ports: u64,
    /// Predictions of loads that ended in a fit.
    pub fits: u32,
    /// Steps of those fits.
    pub fit_steps: u64,
    /// Clock time of the predictions of loads \[s\].
    pub load_s: f64,
    /// Clock time of the predictions of rows \[s\].
    pub rows_s: f64,
    /// Each candidate, and how often it was the one.
    pub by: Vec<(&'static str, u32)>,
}

/// One predictor's scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The name of the predictor that was scored.
    pub predictor: &'static str,
    /// By layer.
    pub layers: Vec<LayerScores>,
}

/// Lets a trace pass by: `counts` of shape \[pass, layer, source, expert\]. Answers for every
/// candidate and, last, for `auto`, which trusts one of them in each layer: by all-to-all time if
/// there are circuits, else by the error of the matrix.
///
/// `now` is a clock in seconds; `progress` gets the share that is done and stops all with `false`
/// (then there is no answer).
///
/// # Panics
/// If the counts do not fit their shape, or sources or experts are not shared evenly by the ranks.
pub fn evaluate(
    counts: &[u32],
    shape: [usize; 4],
    asked: &Evaluated,
    now: &mut dyn FnMut() -> f64,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Option<Vec<Evaluation>> {
    let [passes, layers, sources, experts] = shape;
    assert_eq!(counts.len(), shape.iter().product::<usize>(), "counts of shape {shape:?}");
    let ranks = asked.region.ranks;
    assert!(sources % ranks == 0 && experts % ranks == 0, "{ranks} ranks share {shape:?} evenly");
    let runner = |(loads, rows)| Runner {
        asked,
        loads: Forecaster::new(loads, 1, experts, asked.window),
        rows: Forecaster::new(rows, ranks, ranks, asked.window),
        circuits: Circuits::new(asked),
    };
    let mut runners: Vec<_> = candidates().into_iter().zip(candidates()).map(runner).collect();
    let mut truth = Circuits::new(asked);
    let mut auto = (Costs::default(), Circuits::new(asked));
    let by = candidates().iter().map(|one| (one.name(), 0)).collect();
    let none = LayerScores { by, ..LayerScores::default() };
    let mut found: Vec<_> = predictors()
        .iter()
        .map(|one| Evaluation { predictor: one.name(), layers: vec![none.clone(); layers] })
        .collect();
    for pass in 0..passes {
        for layer in 0..layers {
            let size = sources * experts;
            let came = Came::new(&counts[(pass * layers + layer) * size..][..size], asked, experts);
            let (known_s, _) = truth.set(&came.matrix, &came.demand);
            let mut said: Vec<_> =
                runners.iter_mut().map(|runner| runner.pass(&came, layer, now)).collect();
            for one in &mut said {
                one.known_s = known_s;
            }
            let place = auto.0.least(layer);
            let circuits = auto.1.set(&said[place].matrix, &came.demand);
            let cost = |one: &Said| match came.asked.region.servers() {
                0 | 1 => one.matrix_error,
                _ => one.predicted_s,
            };
            auto.0.charge(layer, &said.iter().map(cost).collect::<Vec<_>>(), asked.window);
            if pass == 0 {
                continue;
            }
            for (at, one) in said.iter().enumerate() {
                found[at].layers[layer].add(one, at, &came);
            }
            let mut chosen = said[place].clone();
            (chosen.predicted_s, chosen.changed_ports) = circuits;
            chosen.load_s = said.iter().map(|one| one.load_s).sum();
            chosen.rows_s = said.iter().map(|one| one.rows_s).sum();
            found[said.len()].layers[layer].add(&chosen, place, &came);
        }
        if !progress((pass + 1) as f64 / passes as f64) {
            return None;
        }
    }
    Some(found)
}

/// What a gate decided, in all its forms.
struct Came<'a> {
    asked: &'a Evaluated,
    load: Vec<f64>,
    /// Tokens by rank.
    sent: Vec<f64>,
    /// Tokens from rank to rank.
    matrix: Vec<f64>,
    demand: ServerDemand,
}

impl<'a> Came<'a> {
    fn new(counts: &[u32], asked: &'a Evaluated, experts: usize) -> Self {
        let (ranks, sources) = (asked.region.ranks, counts.len() / experts);
        let mut load = vec![0.0; experts];
        let mut matrix = vec![0.0; ranks * ranks];
        for (at, &count) in counts.iter().enumerate() {
            let (source, expert) = (at / experts, at % experts);
            load[expert] += f64::from(count);
            let (from, to) = (source * ranks / sources, expert * ranks / experts);
            matrix[from * ranks + to] += f64::from(count);
        }
        let all: f64 = load.iter().sum::<f64>().max(1.0);
        load.iter_mut().for_each(|share| *share /= all);
        let sent = matrix.chunks_exact(ranks).map(|row| row.iter().sum()).collect();
        let demand = asked.region.demand(&matrix);
        Came { asked, load, sent, matrix, demand }
    }
}

/// Circuits that stand until a prediction changes them.
struct Circuits<'a> {
    region: &'a Region,
    decider: Decider,
    standing: PortMap,
}

impl<'a> Circuits<'a> {
    fn new(asked: &'a Evaluated) -> Self {
        let region = &asked.region;
        Circuits { region, decider: region.decider(), standing: region.dark() }
    }

    /// Sets them for a matrix of tokens; the time of the all-to-all that comes, and ports changed.
    fn set(&mut self, tokens: &[f64], comes: &ServerDemand) -> (f64, u64) {
        if self.region.servers() < 2 {
            return (0.0, 0);
        }
        let demand = self.region.demand(tokens);
        let wanted = self.region.decide(&mut self.decider, &demand, &self.standing);
        let changed = self.region.changed(&self.standing, &wanted) as u64;
        self.standing = wanted;
        (self.region.seconds(comes, &self.standing), changed)
    }
}

/// What one predictor said of one layer.
#[derive(Clone)]
struct Said {
    load: Vec<f64>,
    matrix: Vec<f64>,
    matrix_error: f64,
    predicted_s: f64,
    known_s: f64,
    changed_ports: u64,
    steps: Option<u32>,
    load_s: f64,
    rows_s: f64,
}

struct Runner<'a> {
    asked: &'a Evaluated,
    loads: Forecaster,
    rows: Forecaster,
    circuits: Circuits<'a>,
}

impl Runner<'_> {
    fn pass(&mut self, came: &Came<'_>, layer: usize, now: &mut dyn FnMut() -> f64) -> Said {
        let ranks = self.asked.region.ranks;
        let start = now();
        let load = self.loads.predict(layer).rows.swap_remove(0);
        let middle = now();
        let rows = match self.asked.rows {
            Rows::Own => self.rows.predict(layer).rows,
            Rows::Alike => {
                let by_rank = load.chunks_exact(load.len() / ranks).map(|of| of.iter().sum());
                vec![by_rank.collect(); ranks]
            }
        };
        let end = now();
        let tokens = |(row, &sent): (&Vec<f64>, &f64)| -> Vec<f64> {
            row.iter().map(|share| share * sent).collect()
        };
        let matrix: Vec<f64> = rows.iter().zip(&came.sent).flat_map(tokens).collect();
        let (predicted_s, changed_ports) = self.circuits.set(&matrix, &came.demand);
        self.loads.observe(layer, &came.load);
        if self.asked.rows == Rows::Own {
            self.rows.observe(layer, &came.matrix);
        }
        Said {
            matrix_error: relative_error(&matrix, &came.matrix),
            load,
            matrix,
            predicted_s,
            known_s: 0.0,
            changed_ports,
            steps: self.loads.fit_steps(),
            load_s: middle - start,
            rows_s: end - middle,
        }
    }
}

impl LayerScores {
    fn add(&mut self, said: &Said, by: usize, came: &Came<'_>) {
        let tops = &came.asked.tops;
        self.count += 1;
        self.accuracy.resize(tops.len(), 0.0);
        for (sum, &k) in self.accuracy.iter_mut().zip(tops) {
            *sum += top_k_accuracy(&said.load, &came.load, k);
        }
        self.load_error += relative_error(&said.load, &came.load);
        self.matrix_error += said.matrix_error;
        self.predicted_s += said.predicted_s;
        self.known_s += said.known_s;
        self.changed_ports += said.changed_ports;
        self.fits += u32::from(said.steps.is_some());
        self.fit_steps += u64::from(said.steps.unwrap_or(0));
        self.load_s += said.load_s;
        self.rows_s += said.rows_s;
        self.by[by].1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Algorithm1;
    use lightloom_circuits::Rates;
    use std::sync::Arc;

    fn asked(rows: Rows) -> Evaluated {
        let rate = 400_000_000_000;
        let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false };
        Evaluated {
            window: Window::default(),
            rows,
            tops: vec![1, 2],
            region: Region {
                ranks: 4,
                gpus_per_rank: 8,
                gpus_per_server: 8,
                optical_nics: 6,
                rates,
                rule: Arc::new(Algorithm1),
                token_bytes: 8192,
            },
        }
    }

    fn run(counts: &[u32], shape: [usize; 4], asked: &Evaluated) -> Vec<Evaluation> {
        evaluate(counts, shape, asked, &mut || 0.0, &mut |_| true).expect("nobody stops it")
    }

    /// Eight experts on four ranks; expert loads differ by source and layer, never by pass.
    fn steady(passes: usize, layers: usize) -> Vec<u32> {
        let one: Vec<u32> =
            (0..layers * 4 * 8).map(|at| 10 + (at * at * 31 % 997) as u32).collect();
        one.repeat(passes)
    }

    #[test]
    fn what_repeats_is_known_and_costs_nothing() {
        for rows in [Rows::Alike, Rows::Own] {
            let found = run(&steady(6, 3), [6, 3, 4, 8], &asked(rows));
            assert_eq!(found.len(), candidates().len() + 1);
            for found in found {
                let scores = &found.layers[1];
                assert_eq!((scores.count, scores.by.iter().map(|by| by.1).sum::<u32>()), (5, 5));
                let (knows, repeats) = match found.predictor {
                    "average" | "previous-iteration" => (true, true),
                    "copilot" => (true, false),
                    "previous-layer" | "uniform" => (false, false),
                    _ => continue,
                };
                assert_eq!(scores.load_error < 1e-9, knows, "{found:?}");
                assert_eq!((scores.accuracy[0] - 5.0).abs() < 1e-9, knows, "{found:?}");
                // Rows that no one matrix maps to each other are known only to who repeats them.
                assert_eq!(scores.matrix_error < 1e-9, repeats && rows == Rows::Own, "{found:?}");
                if repeats && rows == Rows::Own {
                    assert_eq!(scores.predicted_s, scores.known_s);
                }
            }
        }
    }

    #[test]
    fn one_server_has_no_circuits_and_stopping_leaves_nothing() {
        let mut asked = asked(Rows::Own);
        asked.region.gpus_per_rank = 2;
        let found = run(&steady(3, 2), [3, 2, 4, 8], &asked);
        assert_eq!((found[0].layers[1].known_s, found[0].layers[1].predicted_s), (0.0, 0.0));
        let stopped =
            evaluate(&steady(3, 2), [3, 2, 4, 8], &asked, &mut || 0.0, &mut |share| share < 0.5);
        assert!(stopped.is_none());
    }
}
