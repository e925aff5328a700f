//! Failed nodes: the largest job, and where several jobs go.

use crate::errors::refused;
use crate::json::{read, text};
use lightloom_railx::{Allocation, Faults, Packing, Wanted, algorithm_2, largest, pack};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    rows: u32,
    columns: u32,
    faults: Vec<(u32, u32)>,
    jobs: Vec<Wanted>,
}

#[derive(Serialize)]
struct Response {
    healthy: u64,
    isolated: u32,
    clustered: usize,
    largest: Allocation,
    /// Nodes by the paper's algorithm, if it ends in time.
    algorithm_2: Option<u64>,
    packing: Packing,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sets {
    rows: u32,
    columns: u32,
    sets: Vec<Vec<(u32, u32)>>,
}

/// Finds the largest job, and places jobs; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn railx_allocate(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Request = read(request)?;
    let faults = Faults::new(asked.rows, asked.columns, asked.faults).map_err(refused)?;
    let answer = py.detach(|| {
        let (clustered, isolated) = faults.clustered();
        Response {
            healthy: faults.healthy(),
            isolated,
            clustered: clustered.len(),
            largest: largest(&faults),
            algorithm_2: algorithm_2(&faults),
            packing: pack(&faults, &asked.jobs),
        }
    });
    text(&answer)
}

/// The largest job of many sets of faults; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn railx_largest(py: Python<'_>, request: &str) -> PyResult<Vec<(u64, u64)>> {
    let asked: Sets = read(request)?;
    let (rows, columns) = (asked.rows, asked.columns);
    let sets: Result<Vec<Faults>, _> =
        asked.sets.into_iter().map(|at| Faults::new(rows, columns, at)).collect();
    let sets = sets.map_err(refused)?;
    let nodes = |faults: &Faults| {
        let found = largest(faults);
        (found.nodes, found.bound)
    };
    Ok(py.detach(|| sets.iter().map(nodes).collect()))
}
