//! A region's control plane, rehearsed: `lightloom_sim::rehearse` as JSON.

use lightloom_sim::{Asked as Round, RegionSpec, rehearse as rehearsed};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use std::fmt::Display;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    region: RegionSpec,
    rounds: Vec<Round>,
}

fn refused(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Rehearses a region for demands; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn rehearse(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Asked = serde_json::from_str(request).map_err(refused)?;
    let heard = py.detach(|| rehearsed(&asked.region, &asked.rounds)).map_err(refused)?;
    serde_json::to_string(&heard).map_err(refused)
}
