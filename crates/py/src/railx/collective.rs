//! All-reduces on RailX, by the equations or on an engine.

use crate::json::read;
use lightloom_sim::AllReduceSpec;
use lightloom_units::Time;
use pyo3::prelude::*;

/// Returns how long an all-reduce takes; see the stub for what goes in.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
pub(crate) fn railx_all_reduce(
    py: Python<'_>,
    request: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let spec: AllReduceSpec = read(request)?;
    let run = |told: &mut dyn FnMut(f64) -> bool| lightloom_sim::railx_all_reduce(&spec, told);
    crate::progress::watched(py, progress, run).map(Time::ps)
}
