//! The demand of a layer's first all-to-all as predicted before its gate (MixNet, Appendix B.1).
//!
//! Modelled: a micro-batch that draws an iteration of the trace has the iterations before it behind
//! it, and its own layers up to the one that is predicted. The predictor lets the trace pass by once,
//! whatever is drawn, so a prediction depends on what was recorded before and on nothing else. It is
//! of every EP rank's own row, since no finer one matters to circuits.
//! Ignored: micro-batches that run at the same time; a controller would learn from these too.
//! Checked: nothing that comes later in the trace changes a prediction; matrices sum to the tokens.

use lightloom_circuits::predict::{Capabilities, Forecaster, Predictor, Window, predictors};
use lightloom_units::kind::Kind;
use lightloom_workload::{Gating, MatrixId};
use std::collections::HashMap;

/// Predicted matrices of one workload.
#[derive(Clone, Debug)]
pub struct Foresight {
    ranks: usize,
    assignments: u32,
    predictor: &'static Kind<Capabilities>,
    matrices: HashMap<MatrixId, Predicted>,
}

#[derive(Clone, Debug)]
struct Predicted {
    rows: Vec<Vec<f64>>,
    by: &'static str,
    /// Iterations of the trace before it.
    behind: usize,
}

impl Foresight {
    /// Predicts every matrix that the workload draws.
    pub fn new(predictor: Box<dyn Predictor>, gating: &Gating) -> Self {
        let ids: HashMap<(u32, u32), MatrixId> =
            (0..gating.matrices()).map(MatrixId).map(|id| (gating.origin(id), id)).collect();
        let iterations = ids.keys().map(|origin| origin.0 + 1).max().unwrap_or(0);
        let ranks = gating.ranks() as usize;
        let kind = predictor.kind();
        let mut forecaster = Forecaster::new(predictor, ranks, ranks, Window::default());
        let mut matrices = HashMap::with_capacity(ids.len());
        for iteration in 0..iterations {
            for layer in 0..gating.trace_layers() {
                let origin = (iteration, layer);
                let id = ids.get(&origin);
                if kind.capabilities.every_layer || id.is_some() {
                    let said = forecaster.predict(layer as usize);
                    if let Some(&id) = id {
                        let behind = iteration as usize;
                        matrices.insert(id, Predicted { rows: said.rows, by: said.by, behind });
                    }
                }
                let came: Vec<f64> = gating.recorded(origin).iter().map(|&s| s.into()).collect();
                forecaster.observe(layer as usize, &came);
            }
        }
        let assignments = gating.assignments_per_rank();
        Foresight { ranks, assignments, predictor: kind, matrices }
    }

    /// Token assignments from EP rank (row) to EP rank (column) that are expected where the matrix
    /// `id` will come, row-major, own share included; of the workload's matrices only.
    pub fn matrix(&self, id: MatrixId) -> Vec<u32> {
        let Some(predicted) = self.matrices.get(&id) else {
            return vec![0; self.ranks * self.ranks];
        };
        predicted.rows.iter().flat_map(|row| whole(row, self.assignments)).collect()
    }

    /// By whom the demands were predicted, and how many of them from less than a window of iterations
    /// if these are most: a short trace shows what predictors are before they have learned.
    pub fn note(&self) -> String {
        let all = self.matrices.len();
        let Capabilities { every_layer: mixes, learns } = self.predictor.capabilities;
        let mostly = if mixes { "mostly " } else { "" };
        let each = self.trusted().into_iter().map(|(by, times)| format!("{times} {mostly}by {by}"));
        let each = each.collect::<Vec<_>>().join(", ");
        let window = Window::default().length;
        let early = self.matrices.values().filter(|said| said.behind < window).count();
        let short = if learns && 2 * early > all {
            format!(
                "; the trace is short: {early} of them have fewer than {window} iterations behind them"
            )
        } else {
            String::new()
        };
        format!("{all} demands were predicted: {each}{short}")
    }

    /// How often each predictor was trusted (of a mixture: weighed most), for those that were, in the
    /// order of their list.
    fn trusted(&self) -> Vec<(&'static str, usize)> {
        let mut times = HashMap::new();
        self.matrices.values().for_each(|said| *times.entry(said.by).or_default() += 1);
        let place = |name| predictors().iter().position(|one| one.name() == name);
        let mut trusted: Vec<_> = times.into_iter().collect();
        trusted.sort_by_key(|&(name, _)| (place(name), name));
        trusted
    }
}

/// Shares of `total` in whole numbers that sum exactly: what is cut off is carried to the next.
fn whole(shares: &[f64], total: u32) -> Vec<u32> {
    let mut sum = 0.0;
    let mut given = 0;
    let mut row: Vec<u32> = shares
        .iter()
        .map(|share| {
            sum += share;
            let until = ((sum * f64::from(total)).round() as u32).clamp(given, total);
            let part = until - given;
            given = until;
            part
        })
        .collect();
    if let Some(last) = row.last_mut() {
        *last += total - given;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_circuits::predict::predictor;
    use lightloom_workload::example;

    const SHAPE: [usize; 4] = [24, 8, 8, 8];

    fn gating(counts: &[u32]) -> Gating {
        let job = example::mixtral_8x7b();
        Gating::new(counts, SHAPE, &job.model, &job.parallelism, &job.training, 1)
            .expect("a trace of the example's shape")
    }

    fn counts() -> Vec<u32> {
        (0..SHAPE.iter().product::<usize>()).map(|i| (i * i % 1009) as u32 + 1).collect()
    }

    fn by(name: &str, gating: &Gating) -> Foresight {
        Foresight::new(predictor(name).expect("it is listed"), gating)
    }

    #[test]
    fn what_comes_later_changes_nothing() {
        let (before, mut counts) = (gating(&counts()), counts());
        let (iteration, layer) = (15, 3);
        let first = (iteration * SHAPE[1] + layer) * 64;
        counts[first..].iter_mut().for_each(|count| *count = *count % 7 * 1000 + 1);
        let after = gating(&counts);
        for name in ["auto", "copilot", "previous-iteration"] {
            let [one, two] = [&before, &after].map(|gating| by(name, gating));
            let mut same = 0;
            let mut other = 0;
            for id in (0..before.matrices()).map(MatrixId) {
                assert_eq!(before.origin(id), after.origin(id));
                let equal = one.matrix(id) == two.matrix(id);
                if before.origin(id) <= (iteration as u32, layer as u32) {
                    assert!(equal, "{name} {:?}", before.origin(id));
                    same += 1;
                } else {
                    other += u32::from(!equal);
                }
            }
            assert!(same > 100 && other > 10, "{name}: {same} the same, {other} not");
        }
    }

    #[test]
    fn matrices_sum_to_the_tokens_and_the_trusted_are_named() {
        let gating = gating(&counts());
        let foresight = by("auto", &gating);
        for id in (0..gating.matrices()).map(MatrixId) {
            for row in foresight.matrix(id).chunks_exact(8) {
                assert_eq!(row.iter().sum::<u32>(), gating.assignments_per_rank());
            }
        }
        let trusted: usize = foresight.trusted().iter().map(|(_, times)| times).sum();
        assert_eq!(trusted, gating.matrices() as usize);
        let note = foresight.note();
        assert!(note.contains("mostly by") && note.ends_with("iterations behind them"), "{note}");
        let uniform = by("uniform", &gating);
        assert_eq!(uniform.matrix(MatrixId(0))[..8], [8192; 8]);
        assert_eq!(uniform.trusted(), [("uniform", gating.matrices() as usize)]);
        assert!(uniform.note().ends_with(" by uniform") && !uniform.note().contains("mostly"));
    }

    #[test]
    fn shares_become_whole_numbers() {
        assert_eq!(whole(&[0.25, 0.5, 0.25], 10), [3, 5, 2]);
        assert_eq!(whole(&[1.0 / 3.0; 3], 100).iter().sum::<u32>(), 100);
        assert_eq!(whole(&[0.0, 1.0 + 1e-12], 7), [0, 7]);
    }
}
