//! What a model's shape comes to.

use crate::errors::refused;
use crate::json::read;
use lightloom_workload::Model;
use pyo3::prelude::*;

/// Parameters in all, those that a token meets, and those of the input embedding.
#[pyfunction]
pub(crate) fn model_parameters(model_json: &str) -> PyResult<(u64, u64, u64)> {
    let model: Model = read(model_json)?;
    model.validate().map_err(refused)?;
    Ok((model.parameters(), model.active_parameters(), model.embedding_parameters()))
}
