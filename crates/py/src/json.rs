//! What goes in and comes out as JSON.

use crate::errors::{refused, wrong};
use lightloom_sim::Spec;
use pyo3::PyResult;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn read<T: DeserializeOwned>(request: &str) -> PyResult<T> {
    serde_json::from_str(request).map_err(refused)
}

pub(crate) fn text(answer: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(answer).map_err(wrong)
}

/// A resolved specification.
pub(crate) fn spec(json: &str) -> PyResult<Spec> {
    Spec::from_json(json).map_err(refused)
}
