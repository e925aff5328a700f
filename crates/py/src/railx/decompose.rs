//! Rings that join every two nodes.

use crate::json::{read, text};
use lightloom_railx::{MOST_NODES, decompose, verify};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    nodes: u32,
    /// Whether the answer has the rings.
    rings: bool,
}

#[derive(Serialize)]
struct Response {
    outcome: Outcome,
    /// Why there are no rings.
    reason: Option<String>,
    rings: Option<Vec<Vec<u32>>>,
    most_nodes: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Verified,
    Unknown,
    Wrong,
}

/// Covers a complete directed graph by rings and verifies them; see the stub for what goes in and
/// comes out.
#[pyfunction]
pub(crate) fn railx_decompose(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Request = read(request)?;
    let answer = py.detach(|| answer(&asked));
    text(&answer)
}

fn answer(asked: &Request) -> Response {
    let (outcome, reason, rings) = match decompose(asked.nodes) {
        Ok(rings) => match verify(asked.nodes, &rings) {
            Ok(()) => (Outcome::Verified, None, asked.rings.then_some(rings)),
            Err(fault) => (Outcome::Wrong, Some(fault), None),
        },
        Err(none) => (Outcome::Unknown, Some(none.to_string()), None),
    };
    Response { outcome, reason, rings, most_nodes: MOST_NODES }
}
