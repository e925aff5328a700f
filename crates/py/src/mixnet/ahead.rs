//! What lies ahead of a region's all-to-alls.

use crate::json::{read, text};
use lightloom_sim::{Coming, lookahead};
use lightloom_units::Time;
use pyo3::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    coming: Vec<Coming<u32>>,
    dark_ps: Time,
}

/// Says what lies ahead of each all-to-all; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn mixnet_ahead(request: &str) -> PyResult<String> {
    let request: Request = read(request)?;
    text(&lookahead(&request.coming, request.dark_ps))
}
