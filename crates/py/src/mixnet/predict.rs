//! MixNet's predictors: their fits, and their scores on a trace.

use crate::errors::{refused, wrong};
use crate::json::{read, text};
use crate::progress::watched;
use lightloom_circuits::Rates;
use lightloom_circuits::predict::{Sample, Transition, Window};
use lightloom_decide::evaluate::{Evaluated, Rows, evaluate};
use lightloom_decide::region::Region;
use lightloom_decide::rule;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use std::time::Instant;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    window: usize,
    decay: f64,
    own_rows: bool,
    tops: Vec<usize>,
    ranks: usize,
    gpus_per_rank: usize,
    gpus_per_server: usize,
    optical_nics: u32,
    packet_nics: u32,
    optical_bps: u64,
    packet_bps: u64,
    share_eps: bool,
    decision: String,
    token_bytes: u64,
}

fn window(length: usize, decay: f64) -> PyResult<Window> {
    if length == 0 || !(decay > 0.0 && decay <= 1.0) {
        return Err(refused(format!("a window of {length} that decays by {decay}")));
    }
    Ok(Window { length, decay })
}

/// Scores predictors on a trace; see the stub for what goes in and comes out.
#[pyfunction]
#[pyo3(signature = (request, counts, shape, progress=None))]
pub(crate) fn predict_evaluate(
    py: Python<'_>,
    request: &str,
    counts: PyBuffer<u32>,
    shape: [usize; 4],
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let q: Question = read(request)?;
    let counts = counts.to_vec(py)?;
    let size = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let [_, _, sources, experts] = shape;
    let shared = q.ranks > 0 && sources % q.ranks == 0 && experts % q.ranks == 0;
    if size != Some(counts.len()) || counts.is_empty() || !shared {
        return Err(refused(format!(
            "{} counts of shape {shape:?} on {} ranks",
            counts.len(),
            q.ranks
        )));
    }
    let sized = [q.gpus_per_rank, q.gpus_per_server].iter().all(|n| (1..=1 << 16).contains(n));
    let rated = q.optical_bps > 0 && q.packet_bps > 0 && q.packet_nics > 0;
    if !sized || !rated || q.optical_nics > 1 << 16 || q.ranks > 1 << 16 {
        return Err(refused("a region of servers with packet NICs"));
    }
    let asked = Evaluated {
        window: window(q.window, q.decay)?,
        rows: if q.own_rows { Rows::Own } else { Rows::Alike },
        tops: q.tops,
        region: Region {
            ranks: q.ranks,
            gpus_per_rank: q.gpus_per_rank,
            gpus_per_server: q.gpus_per_server,
            optical_nics: q.optical_nics,
            rates: Rates {
                optical_bps: q.optical_bps,
                packet_bps: q.packet_bps,
                packet_nics: q.packet_nics,
                share_eps: q.share_eps,
            },
            rule: rule(&q.decision).map_err(|why| refused(format!("decision: {why}")))?,
            token_bytes: q.token_bytes,
        },
    };
    let found = watched(py, progress, |progress| {
        let start = Instant::now();
        let mut now = || start.elapsed().as_secs_f64();
        Ok(evaluate(&counts, shape, &asked, &mut now, progress))
    })?;
    let found = found.ok_or_else(|| wrong("interrupted"))?;
    text(&found)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fit {
    samples: Vec<(Vec<f64>, Vec<f64>, f64)>,
    tolerance: f64,
}

#[derive(Serialize)]
struct Fitted {
    matrix: Vec<Vec<f64>>,
    objective: f64,
    gap: f64,
    constant_objective: f64,
    steps: u32,
    seconds: f64,
}

/// Fits Copilot's transition matrix; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn predict_fit(py: Python<'_>, request: &str) -> PyResult<String> {
    let fit: Fit = read(request)?;
    let experts = fit.samples.first().map_or(0, |sample| sample.0.len());
    let fine = |v: &[f64]| v.len() == experts && v.iter().all(|x| x.is_finite() && *x >= 0.0);
    let fits =
        |(x, y, w): &(Vec<f64>, Vec<f64>, f64)| fine(x) && fine(y) && w.is_normal() && *w > 0.0;
    if experts == 0
        || !fit.samples.iter().all(fits)
        || fit.tolerance <= 0.0
        || fit.tolerance.is_nan()
    {
        return Err(refused("samples of as many loads from 0 on, and a weight above 0"));
    }
    let samples: Vec<Sample<'_>> = fit
        .samples
        .iter()
        .map(|(before, after, weight)| Sample { before, after, weight: *weight })
        .collect();
    let (fitted, seconds) = py.detach(|| {
        let start = Instant::now();
        let fitted = Transition::fit(experts, &samples, fit.tolerance);
        (fitted, start.elapsed().as_secs_f64())
    });
    let row = |to| (0..experts).map(|from| fitted.get(to, from)).collect();
    let answer = Fitted {
        matrix: (0..experts).map(row).collect(),
        objective: fitted.objective,
        gap: fitted.gap,
        constant_objective: fitted.constant_objective,
        steps: fitted.steps,
        seconds,
    };
    text(&answer)
}
