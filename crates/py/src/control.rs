//! Scenarios of the control plane in which everything goes wrong, many at a time.

use crate::errors::refused;
use lightloom_soak::{self as soak, Failure, Summary};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Runs scenarios on several threads; see the stub for what comes out.
#[pyfunction]
#[pyo3(signature = (first, count, threads, progress=None))]
pub(crate) fn soak_control<'py>(
    py: Python<'py>,
    first: u64,
    count: u64,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    if count == 0 || first.checked_add(count).is_none() || !(1..=1024).contains(&threads) {
        let words = "count must be 1 or more, first + count below 2^64, threads from 1 to 1024";
        return Err(refused(words));
    }
    let mut stopped: Option<PyErr> = None;
    let (summary, failure) = py.detach(|| {
        soak::run_many(first, count, threads, |done| {
            Python::attach(|py| {
                let answer = py.check_signals().and_then(|()| {
                    progress.as_ref().map_or(Ok(()), |p| p.call1(py, (done,)).map(drop))
                });
                answer.map_err(|error| stopped = Some(error)).is_ok()
            })
        })
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    answer(py, &summary, failure.as_deref())
}

/// Runs one scenario and says what happens; see the stub for what comes out.
#[pyfunction]
pub(crate) fn soak_control_trace(
    py: Python<'_>,
    seed: u64,
) -> PyResult<(Vec<String>, Bound<'_, PyDict>)> {
    let (lines, result) = py.detach(|| soak::trace(seed));
    let (summary, failure) = match result {
        Ok(summary) => (summary, None),
        Err(failure) => (Summary::default(), Some(failure)),
    };
    Ok((lines, answer(py, &summary, failure.as_deref())?))
}

fn answer<'py>(
    py: Python<'py>,
    summary: &Summary,
    failure: Option<&Failure>,
) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    answer.set_item("scenarios", summary.scenarios)?;
    answer.set_item("steps", summary.steps)?;
    answer.set_item("simulated_s", summary.simulated_s)?;
    let happened = PyDict::new(py);
    for (what, counts) in &summary.happened {
        happened.set_item(what, *counts)?;
    }
    answer.set_item("happened", happened)?;
    let broken = failure.map(|failure| {
        let broken = PyDict::new(py);
        broken.set_item("seed", failure.seed)?;
        broken.set_item("step", failure.step)?;
        broken.set_item("time_ps", failure.time.ps())?;
        broken.set_item("invariant", failure.invariant.name)?;
        broken.set_item("says", failure.invariant.says)?;
        broken.set_item("what", &failure.what)?;
        Ok::<_, PyErr>(broken)
    });
    answer.set_item("broken", broken.transpose()?)?;
    Ok(answer)
}
