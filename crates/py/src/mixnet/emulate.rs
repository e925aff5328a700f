//! A region's control plane, emulated: `lightloom_sim::emulate_region` as JSON.

use crate::errors::refused;
use crate::json::{read, text};
use lightloom_sim::{RegionSpec, RoundReports, emulate_region as emulated};
use pyo3::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    region: RegionSpec,
    rounds: Vec<RoundReports>,
}

/// Emulates a region for demands; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn emulate_region(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Request = read(request)?;
    let heard = py.detach(|| emulated(&asked.region, &asked.rounds)).map_err(refused)?;
    text(&heard)
}
