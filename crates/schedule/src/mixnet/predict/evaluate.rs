//! How well predictors do on a recorded trace (MixNet, Figure 19), and what their errors cost.
//!
//! Modelled: the trace passes by once, layer by layer; every predictor says what is next, then sees
//! it. Scores count from the second pass on, and only for layers that have one before them: the
//! first layer's are kept, but belong in no mean. Circuits are chosen from the predicted load times
//! each source's tokens, or from one prediction a source; the all-to-all that comes is timed with
//! them. Every predictor has circuits of its own that stand from one all-to-all to the next.
//! Ignored: dark time; the packet switches' core. Time that fits take is measured by the caller's
//! clock, and is the only thing that a repetition may change.
//! Checked: a trace that repeats costs nothing but to who cannot know; a perfect predictor's circuits
//! are the truth's.

use super::super::PortMap;
use super::{Forecaster, PredictorKind, Region, Window, relative_error, top_k_accuracy};

/// Who predicts what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// One prediction of the load, for all sources alike.
    Together,
    /// One prediction for each source's own row.
    Each,
}

/// What is evaluated.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Predictors.
    pub kinds: Vec<PredictorKind>,
    /// How far they look back.
    pub window: Window,
    /// Together, or each source for itself.
    pub sources: Sources,
    /// The k of top-k accuracy.
    pub tops: Vec<usize>,
    /// Where ranks are. With fewer than two servers nothing is timed.
    pub region: Region,
}

/// Sums over the passes of a layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerScores {
    /// Predictions that were scored.
    pub count: u32,
    /// Top-k accuracy, one for each asked k.
    pub accuracy: Vec<f64>,
    /// Relative error of the loads.
    pub load_error: f64,
    /// Relative error of the matrix from rank to rank.
    pub matrix_error: f64,
    /// All-to-all with circuits from the prediction \[s\].
    pub predicted_s: f64,
    /// All-to-all with circuits from the truth \[s\].
    pub known_s: f64,
    /// Ports changed for the prediction.
    pub changed_ports: u64,
    /// Predictions that ended in a fit, its steps, and its clock time \[s\].
    pub fits: u32,
    /// Steps of those fits.
    pub fit_steps: u64,
    /// Time of those predictions \[s\].
    pub fit_s: f64,
    /// Whom `auto` trusted: how often each, in the order of [`CANDIDATES`](super::CANDIDATES).
    pub trusted: [u32; super::CANDIDATES.len()],
}

/// One predictor's scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The predictor.
    pub kind: PredictorKind,
    /// By layer.
    pub layers: Vec<LayerScores>,
}

/// Lets a trace pass by: `counts` of shape \[pass, layer, source, expert\].
///
/// `now` is a clock in seconds; `progress` is told the share that is done and stops all with `false`
/// (then there is no answer).
///
/// # Panics
/// If the counts do not fit their shape, or sources or experts are not shared evenly by the ranks.
pub fn evaluate(
    counts: &[u32],
    shape: [usize; 4],
    asked: &Asked,
    now: &mut dyn FnMut() -> f64,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Option<Vec<Evaluation>> {
    let [passes, layers, sources, experts] = shape;
    assert_eq!(counts.len(), shape.iter().product::<usize>(), "counts of shape {shape:?}");
    let ranks = asked.region.ranks;
    assert!(sources % ranks == 0 && experts % ranks == 0, "{ranks} ranks share {shape:?} evenly");
    let streams = match asked.sources {
        Sources::Together => 1,
        Sources::Each => sources,
    };
    let mut runners: Vec<Runner> = asked
        .kinds
        .iter()
        .map(|&kind| Runner {
            kind,
            streams: vec![Forecaster::new(kind, experts, asked.window); streams],
            standing: asked.region.dark(),
            layers: vec![LayerScores::default(); layers],
        })
        .collect();
    let mut standing = asked.region.dark();
    for pass in 0..passes {
        for layer in 0..layers {
            let size = sources * experts;
            let came = Came::new(&counts[(pass * layers + layer) * size..][..size], asked, experts);
            let known_s = came.region().map_or(0.0, |region| {
                standing = region.decide(&came.demand, &standing);
                region.seconds(&came.demand, &standing)
            });
            for runner in &mut runners {
                runner.pass(&came, layer, known_s, pass > 0, now);
            }
        }
        if !progress((pass + 1) as f64 / passes as f64) {
            return None;
        }
    }
    Some(runners.into_iter().map(|r| Evaluation { kind: r.kind, layers: r.layers }).collect())
}

/// What a gate decided, in all its forms.
struct Came<'a> {
    asked: &'a Asked,
    experts: usize,
    /// Tokens by source and expert.
    rows: Vec<f64>,
    /// Tokens by source.
    sent: Vec<f64>,
    load: Vec<f64>,
    matrix: Vec<f64>,
    demand: super::super::ServerDemand,
}

impl<'a> Came<'a> {
    fn new(counts: &[u32], asked: &'a Asked, experts: usize) -> Self {
        let rows: Vec<f64> = counts.iter().map(|&count| f64::from(count)).collect();
        let sent: Vec<f64> = rows.chunks_exact(experts).map(|row| row.iter().sum()).collect();
        let mut load = vec![0.0; experts];
        for row in rows.chunks_exact(experts) {
            load.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
        }
        let all: f64 = load.iter().sum();
        load.iter_mut().for_each(|share| *share /= all.max(1.0));
        let matrix = matrix(&rows, experts, sent.len(), asked.region.ranks);
        let demand = asked.region.demand(&matrix);
        Came { asked, experts, rows, sent, load, matrix, demand }
    }

    /// The region, if it has circuits.
    fn region(&self) -> Option<&'a Region> {
        (self.asked.region.servers() > 1).then_some(&self.asked.region)
    }

    /// Tokens by source and expert for one predicted load a stream.
    fn spread(&self, loads: &[Vec<f64>]) -> Vec<f64> {
        let of = |source: usize| &loads[source.min(loads.len() - 1)];
        let row = |(source, &sent): (usize, &f64)| of(source).iter().map(move |l| l * sent);
        self.sent.iter().enumerate().flat_map(row).collect()
    }

    fn row(&self, source: usize) -> &[f64] {
        &self.rows[source * self.experts..(source + 1) * self.experts]
    }
}

/// Tokens from rank to rank: sources and experts are shared in order.
fn matrix(rows: &[f64], experts: usize, sources: usize, ranks: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; ranks * ranks];
    for (at, count) in rows.iter().enumerate() {
        let (source, expert) = (at / experts, at % experts);
        matrix[source * ranks / sources * ranks + expert * ranks / experts] += count;
    }
    matrix
}

struct Runner {
    kind: PredictorKind,
    streams: Vec<Forecaster>,
    standing: PortMap,
    layers: Vec<LayerScores>,
}

impl Runner {
    fn pass(
        &mut self,
        came: &Came<'_>,
        layer: usize,
        known_s: f64,
        scored: bool,
        now: &mut dyn FnMut() -> f64,
    ) {
        let start = now();
        let said: Vec<_> = self.streams.iter_mut().map(|stream| stream.predict(layer)).collect();
        let took = now() - start;
        let loads: Vec<Vec<f64>> = said.iter().map(|said| said.load.clone()).collect();
        let rows = came.spread(&loads);
        let tokens = matrix(&rows, came.experts, came.sent.len(), came.asked.region.ranks);
        let before = self.standing.clone();
        if let Some(region) = came.region() {
            self.standing = region.decide(&region.demand(&tokens), &self.standing);
        }
        if scored {
            let scores = &mut self.layers[layer];
            scores.count += 1;
            scores.accuracy.resize(came.asked.tops.len(), 0.0);
            let mut load = vec![0.0; came.experts];
            for row in rows.chunks_exact(came.experts) {
                load.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
            }
            let all: f64 = load.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            load.iter_mut().for_each(|share| *share /= all);
            for (sum, &k) in scores.accuracy.iter_mut().zip(&came.asked.tops) {
                *sum += top_k_accuracy(&load, &came.load, k);
            }
            scores.load_error += relative_error(&load, &came.load);
            scores.matrix_error += relative_error(&tokens, &came.matrix);
            scores.known_s += known_s;
            if let Some(region) = came.region() {
                scores.predicted_s += region.seconds(&came.demand, &self.standing);
                scores.changed_ports += region.changed(&before, &self.standing) as u64;
            }
            for (stream, said) in self.streams.iter().zip(&said) {
                if let Some(fitted) = stream.transition() {
                    scores.fits += 1;
                    scores.fit_steps += u64::from(fitted.steps);
                }
                if let Some(at) = super::CANDIDATES.iter().position(|&kind| kind == said.by) {
                    scores.trusted[at] += 1;
                }
            }
            scores.fit_s += took;
        }
        let alone = self.streams.len() == 1;
        for (source, stream) in self.streams.iter_mut().enumerate() {
            match came.region().filter(|_| alone && self.kind == PredictorKind::Auto) {
                // What each candidate's circuits would have cost, from those that stood.
                Some(region) => stream.observe_costing(layer, &came.load, |load| {
                    let rows = came.spread(&[load.to_vec()]);
                    let ranks = region.ranks;
                    let tokens = matrix(&rows, came.experts, came.sent.len(), ranks);
                    let circuits = region.decide(&region.demand(&tokens), &before);
                    region.seconds(&came.demand, &circuits)
                }),
                None if alone => stream.observe(layer, &came.load),
                None => stream.observe(layer, came.row(source)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Rates;
    use super::super::{CANDIDATES, Decision};
    use super::*;

    fn asked(kinds: &[PredictorKind], sources: Sources) -> Asked {
        let rate = 400_000_000_000;
        let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false };
        Asked {
            kinds: kinds.to_vec(),
            window: Window::default(),
            sources,
            tops: vec![1, 2],
            region: Region {
                ranks: 4,
                gpus_per_rank: 8,
                gpus_per_server: 8,
                optical_nics: 6,
                rates,
                decision: Decision::Algorithm1,
                token_bytes: 8192,
            },
        }
    }

    fn run(counts: &[u32], shape: [usize; 4], asked: &Asked) -> Vec<Evaluation> {
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
        let kinds: Vec<_> = CANDIDATES.into_iter().chain([PredictorKind::Auto]).collect();
        for sources in [Sources::Together, Sources::Each] {
            let asked = asked(&kinds, sources);
            for found in run(&steady(6, 3), [6, 3, 4, 8], &asked) {
                let scores = &found.layers[1];
                assert_eq!(scores.count, 5);
                let knows =
                    !matches!(found.kind, PredictorKind::Uniform | PredictorKind::PreviousLayer);
                assert_eq!(scores.load_error < 1e-9, knows, "{found:?}");
                assert_eq!((scores.accuracy[0] - 5.0).abs() < 1e-9, knows, "{found:?}");
                // Each source's own row is known only to who looks at it.
                let exact = knows && sources == Sources::Each;
                assert_eq!(scores.matrix_error < 1e-9, exact, "{found:?}");
                if exact {
                    assert_eq!(scores.predicted_s, scores.known_s);
                }
            }
        }
    }

    #[test]
    fn one_server_has_no_circuits_and_stopping_leaves_nothing() {
        let mut asked = asked(&[PredictorKind::Average], Sources::Together);
        asked.region.gpus_per_rank = 2;
        let found = run(&steady(3, 2), [3, 2, 4, 8], &asked);
        assert_eq!((found[0].layers[1].known_s, found[0].layers[1].predicted_s), (0.0, 0.0));
        let stopped =
            evaluate(&steady(3, 2), [3, 2, 4, 8], &asked, &mut || 0.0, &mut |share| share < 0.5);
        assert!(stopped.is_none());
    }
}
