//! A region's control plane, emulated: `lightloom_sim::emulate_region` as JSON.

use lightloom_sim::{RegionSpec, RoundReports, emulate_region as emulated};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use std::fmt::Display;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    region: RegionSpec,
    rounds: Vec<RoundReports>,
}

fn refused(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Emulates a region for demands; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn emulate_region(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Request = serde_json::from_str(request).map_err(refused)?;
    let heard = py.detach(|| emulated(&asked.region, &asked.rounds)).map_err(refused)?;
    serde_json::to_string(&heard).map_err(refused)
}
