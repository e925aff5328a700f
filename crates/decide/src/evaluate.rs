//! How well predictors do on a recorded trace (MixNet, Figure 19), and what their errors cost.
//!
//! Modelled: the trace passes by once, layer by layer; every predictor says what is next, then sees
//! it. Scores count from the second pass on. Accuracy is of the experts' loads. Circuits are chosen
//! from what ranks will send each other: the predicted loads times each source's tokens, or a
//! predicted row for each rank; then the all-to-all that comes is timed with them. Every predictor
//! has circuits of its own that stand from one all-to-all to the next. `auto` is the mixture that a
//! simulation runs, here of what the candidates have said anyway; its regret is stated with its bounds.
//! Ignored: dark time; the packet switches' core. The time of a prediction is measured by the
//! caller's clock, and is the only thing that a repetition may change.
//! Checked: a trace that repeats costs nothing but to who cannot know; who knows has the circuits of
//! the truth; `auto` says what it says by itself, and its regret is within its bounds.

use crate::decider::Decider;
use crate::region::Region;
use lightloom_circuits::predict::{
    Forecaster, Mixture, Rows as Said, Window, candidates, predictors, relative_error,
    top_k_accuracy,
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
    /// Each candidate, and what it weighed in the predictions, summed.
    pub by: Vec<(&'static str, f64)>,
}

/// One predictor's scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The name of the predictor that was scored.
    pub predictor: &'static str,
    /// By layer.
    pub layers: Vec<LayerScores>,
}

/// What `auto` has lost more than its best candidate, over all layers and passes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regret {
    /// Predictions: passes times layers.
    pub rounds: u32,
    /// Each candidate's errors, summed.
    pub lost: Vec<(&'static str, f64)>,
    /// `auto`'s errors, summed.
    pub spent: f64,
    /// How far they can at most lie above the least of the candidates', as the weights were.
    pub bound: f64,
    /// The same of any trace with as many rounds and as wide a span of errors.
    pub worst: f64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Every candidate and, last, `auto`.
    pub predictors: Vec<Evaluation>,
    /// Of the mixture from which `auto`'s circuits are chosen.
    pub regret: Regret,
}

/// Lets a trace pass by: `counts` of shape \[pass, layer, source, expert\].
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
) -> Option<Found> {
    let [passes, layers, sources, experts] = shape;
    assert_eq!(counts.len(), shape.iter().product::<usize>(), "counts of shape {shape:?}");
    let ranks = asked.region.ranks;
    assert!(sources % ranks == 0 && experts % ranks == 0, "{ranks} ranks share {shape:?} evenly");
    let mut field = Field::new(asked, experts);
    let mut truth = Circuits::new(asked);
    let names: Vec<_> = predictors().iter().map(|one| one.name()).collect();
    let mut circuits: Vec<_> = names.iter().map(|_| Circuits::new(asked)).collect();
    let by = candidates().iter().map(|one| (one.name(), 0.0)).collect();
    let none = LayerScores { by, ..LayerScores::default() };
    let new = |predictor| Evaluation { predictor, layers: vec![none.clone(); layers] };
    let mut found: Vec<_> = names.into_iter().map(new).collect();
    for pass in 0..passes {
        for layer in 0..layers {
            let size = sources * experts;
            let came = Came::new(&counts[(pass * layers + layer) * size..][..size], asked, experts);
            let (known_s, _) = truth.set(&came.matrix, &came.demand);
            let guesses = field.predict(layer, now);
            for ((guess, circuits), found) in guesses.iter().zip(&mut circuits).zip(&mut found) {
                let matrix = guess.matrix(&came);
                let timed = circuits.set(&matrix, &came.demand);
                if pass > 0 {
                    found.layers[layer].add(guess, &matrix, (timed, known_s), &came);
                }
            }
            field.observe(layer, &came, &guesses);
        }
        if !progress((pass + 1) as f64 / passes as f64) {
            return None;
        }
    }
    Some(Found { predictors: found, regret: field.regret() })
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
struct Guess {
    /// One row: the experts' loads.
    load: Said,
    /// A row for each rank.
    rows: Said,
    weights: Vec<f64>,
    steps: Option<u32>,
    load_s: f64,
    rows_s: f64,
}

impl Guess {
    /// Tokens from rank to rank, of those that came.
    fn matrix(&self, came: &Came<'_>) -> Vec<f64> {
        let tokens = |(row, &sent): (&Vec<f64>, &f64)| -> Vec<f64> {
            row.iter().map(|share| share * sent).collect()
        };
        self.rows.iter().zip(&came.sent).flat_map(tokens).collect()
    }
}

/// All candidates, each of loads and of rows, and their mixtures.
struct Field<'a> {
    asked: &'a Evaluated,
    runners: Vec<[Forecaster; 2]>,
    mixtures: [Mixture; 2],
}

impl<'a> Field<'a> {
    fn new(asked: &'a Evaluated, experts: usize) -> Self {
        let ranks = asked.region.ranks;
        let runner = |(loads, rows)| {
            let loads = Forecaster::new(loads, 1, experts, asked.window);
            [loads, Forecaster::new(rows, ranks, ranks, asked.window)]
        };
        let runners: Vec<_> = candidates().into_iter().zip(candidates()).map(runner).collect();
        let mixtures = [(); 2].map(|()| Mixture::new(runners.len()));
        Field { asked, runners, mixtures }
    }

    /// The rows of all ranks, if each goes by the loads of all.
    fn alike(&self, load: &Said) -> Said {
        let ranks = self.asked.region.ranks;
        let by_rank = load[0].chunks_exact(load[0].len() / ranks).map(|of| of.iter().sum());
        vec![by_rank.collect(); ranks]
    }

    /// What each candidate says and, last, what `auto` does.
    fn predict(&mut self, layer: usize, now: &mut dyn FnMut() -> f64) -> Vec<Guess> {
        let own = self.asked.rows == Rows::Own;
        let count = self.runners.len();
        let mut guesses = Vec::with_capacity(count + 1);
        for at in 0..count {
            let start = now();
            let load = self.runners[at][0].predict(layer).rows;
            let middle = now();
            let rows = match own {
                true => self.runners[at][1].predict(layer).rows,
                false => self.alike(&load),
            };
            let end = now();
            let steps = self.runners[at][0].fit_steps();
            let weights = (0..count).map(|one| f64::from(u8::from(one == at))).collect();
            let (load_s, rows_s) = (middle - start, end - middle);
            guesses.push(Guess { load, rows, weights, steps, load_s, rows_s });
        }
        let load = self.mixtures[0].mix(&guesses.iter().map(|one| &one.load).collect::<Vec<_>>());
        let rows = match own {
            true => self.mixtures[1].mix(&guesses.iter().map(|one| &one.rows).collect::<Vec<_>>()),
            false => self.alike(&load),
        };
        let [load_s, rows_s] = [|one: &Guess| one.load_s, |one: &Guess| one.rows_s]
            .map(|of| guesses.iter().map(of).sum());
        let (weights, steps) = (self.chosen_from().hedge().weights(), None);
        guesses.push(Guess { load, rows, weights, steps, load_s, rows_s });
        guesses
    }

    fn observe(&mut self, layer: usize, came: &Came<'_>, guesses: &[Guess]) {
        for [loads, rows] in &mut self.runners {
            loads.observe(layer, &came.load);
            if self.asked.rows == Rows::Own {
                rows.observe(layer, &came.matrix);
            }
        }
        let said = &guesses[..self.runners.len()];
        let [loads, rows] = &mut self.mixtures;
        let [seen_loads, seen_rows] = self.runners[0].each_ref().map(Forecaster::sources);
        let load: Vec<_> = said.iter().map(|one| &one.load).collect();
        loads.learn(&load, seen_loads, layer);
        if self.asked.rows == Rows::Own {
            let row: Vec<_> = said.iter().map(|one| &one.rows).collect();
            rows.learn(&row, seen_rows, layer);
        }
    }

    /// The mixture from which circuits are chosen.
    fn chosen_from(&self) -> &Mixture {
        &self.mixtures[usize::from(self.asked.rows == Rows::Own)]
    }

    fn regret(&self) -> Regret {
        let hedge = self.chosen_from().hedge();
        let names = candidates();
        Regret {
            rounds: hedge.rounds(),
            lost: names.iter().map(|one| one.name()).zip(hedge.lost().iter().copied()).collect(),
            spent: hedge.spent(),
            bound: hedge.bound(),
            worst: hedge.worst(),
        }
    }
}

impl LayerScores {
    fn add(
        &mut self,
        guess: &Guess,
        matrix: &[f64],
        ((predicted_s, changed_ports), known_s): ((f64, u64), f64),
        came: &Came<'_>,
    ) {
        let (tops, load) = (&came.asked.tops, &guess.load[0]);
        self.count += 1;
        self.accuracy.resize(tops.len(), 0.0);
        for (sum, &k) in self.accuracy.iter_mut().zip(tops) {
            *sum += top_k_accuracy(load, &came.load, k);
        }
        self.load_error += relative_error(load, &came.load);
        self.matrix_error += relative_error(matrix, &came.matrix);
        self.predicted_s += predicted_s;
        self.known_s += known_s;
        self.changed_ports += changed_ports;
        self.fits += u32::from(guess.steps.is_some());
        self.fit_steps += u64::from(guess.steps.unwrap_or(0));
        self.load_s += guess.load_s;
        self.rows_s += guess.rows_s;
        self.by.iter_mut().zip(&guess.weights).for_each(|((_, sum), weight)| *sum += weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Algorithm1;
    use lightloom_circuits::Rates;
    use lightloom_circuits::predict::predictor;
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

    fn run(counts: &[u32], shape: [usize; 4], asked: &Evaluated) -> Found {
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
            let found = run(&steady(6, 3), [6, 3, 4, 8], &asked(rows)).predictors;
            assert_eq!(found.len(), candidates().len() + 1);
            for found in found {
                let scores = &found.layers[1];
                assert_eq!(scores.count, 5);
                assert!((scores.by.iter().map(|by| by.1).sum::<f64>() - 5.0).abs() < 1e-12);
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
        let found = run(&steady(3, 2), [3, 2, 4, 8], &asked).predictors;
        assert_eq!((found[0].layers[1].known_s, found[0].layers[1].predicted_s), (0.0, 0.0));
        let stopped =
            evaluate(&steady(3, 2), [3, 2, 4, 8], &asked, &mut || 0.0, &mut |share| share < 0.5);
        assert!(stopped.is_none());
    }

    /// Loads that scatter from pass to pass about means of their own.
    fn scattered(passes: usize) -> Vec<u32> {
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as u32 % 300
        };
        steady(passes, 3).iter().map(|count| count + draw()).collect()
    }

    #[test]
    fn auto_says_here_what_it_says_by_itself() {
        let (counts, shape) = (scattered(12), [12, 3, 4, 8]);
        let found = run(&counts, shape, &asked(Rows::Own));
        let mut auto = Forecaster::new(predictor("auto").unwrap(), 4, 4, Window::default());
        let mut errors = vec![0.0; 3];
        for (at, counts) in counts.chunks_exact(32).enumerate() {
            let asked = asked(Rows::Own);
            let came = Came::new(counts, &asked, 8);
            let rows = auto.predict(at % 3).rows;
            let mixed = rows.iter().zip(&came.sent);
            let matrix: Vec<f64> =
                mixed.flat_map(|(row, sent)| row.iter().map(move |s| s * sent)).collect();
            if at >= 3 {
                errors[at % 3] += relative_error(&matrix, &came.matrix);
            }
            auto.observe(at % 3, &came.matrix);
        }
        let last = found.predictors.last().expect("auto is the last");
        assert_eq!(last.layers.iter().map(|one| one.matrix_error).collect::<Vec<_>>(), errors);
    }

    #[test]
    fn regret_is_within_its_bounds() {
        for rows in [Rows::Alike, Rows::Own] {
            let regret = run(&scattered(20), [20, 3, 4, 8], &asked(rows)).regret;
            let least = regret.lost.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
            assert_eq!(regret.rounds, 60);
            assert!(regret.spent - least <= regret.bound, "{regret:?}");
            assert!(0.0 < regret.bound && regret.bound <= regret.worst, "{regret:?}");
        }
    }
}
