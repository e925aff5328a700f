//! Several jobs on one fabric.

use crate::columns::by_name;
use crate::errors::{raised, refused};
use crate::json::text;
use crate::progress::watched;
use crate::workload::Workload;
use lightloom_sim::JobsSpec;
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn spec(request: &str) -> PyResult<JobsSpec> {
    JobsSpec::from_json(request).map_err(refused)
}

/// Finds servers for jobs; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn jobs_place(py: Python<'_>, request: &str) -> PyResult<String> {
    let jobs = spec(request)?;
    text(&py.detach(|| jobs.place()).map_err(raised)?)
}

/// Runs jobs at once; see the stub for what goes in and comes out.
#[pyfunction]
#[pyo3(signature = (request, workloads, progress=None))]
pub(crate) fn jobs_run<'py>(
    py: Python<'py>,
    request: &str,
    workloads: Vec<Py<Workload>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let jobs = spec(request)?;
    let workloads: Vec<_> = workloads.iter().map(|workload| &workload.get().0).collect();
    let run = watched(py, progress, |progress| jobs.run(&workloads, progress))?;
    let result = PyDict::new(py);
    result.set_item("makespan_ps", run.makespan.ps())?;
    result.set_item("tables", by_name(py, &run.tables)?)?;
    result.set_item("notes", &run.notes)?;
    result.set_item("warnings", &run.warnings)?;
    Ok(result)
}
