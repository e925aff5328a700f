//! The topologies of several jobs on one grid: port maps, ways between nodes, rings over them.

use super::build::{Switch, maps};
use crate::errors::{refused, wrong};
use crate::json::{read, text};
use lightloom_fabric::railx::Grid;
use lightloom_railx::{Named, NodeRoutes, Placed, RailEnd, Tenants, Topology, torus_rings};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    rails: u32,
    columns: u32,
    rows: u32,
    named: Named,
    jobs: Vec<Lines>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    rows: Vec<u32>,
    columns: Vec<u32>,
}

#[derive(Serialize)]
struct Response {
    maps: Vec<Switch>,
    jobs: Vec<Job>,
}

#[derive(Serialize)]
struct Job {
    nodes: Vec<u32>,
    /// By node and node, the ends of rails by which the one sends on what is for the other.
    ways: Vec<Vec<Vec<RailEnd>>>,
    rings: Vec<Vec<u32>>,
}

/// Sets topologies of several jobs; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn railx_tenants(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Request = read(request)?;
    // Of nodes of one chip, and switches that are just large enough.
    let (columns, rows) = (asked.columns, asked.rows);
    let radix = |nodes: u32| nodes.saturating_mul(2);
    let grid = Grid {
        global_radix: Some(radix(columns)),
        ..Grid::new(1, asked.rails, radix(rows), columns, rows)
    };
    let placed = |job: Lines| Placed { rows: job.rows, columns: job.columns };
    let jobs: Vec<Placed> = asked.jobs.into_iter().map(placed).collect();
    let set = Tenants::new(grid, asked.named, &jobs).map_err(refused)?;
    let answer = py.detach(|| -> Result<Response, String> {
        let jobs = set.topologies.iter().zip(&set.nodes).map(|(own, nodes)| job(own, nodes));
        Ok(Response {
            maps: maps(&set.layout).map_err(|error| error.to_string())?,
            jobs: jobs.collect::<Result<_, _>>()?,
        })
    });
    text(&answer.map_err(wrong)?)
}

fn job(topology: &Topology, nodes: &[u32]) -> Result<Job, String> {
    let (grid, routes) = (topology.layout.grid, NodeRoutes::new(topology)?);
    let from = |at| (0..grid.nodes()).map(|to| routes.ends(at, to)).collect();
    let rings = torus_rings(grid.columns, grid.rows);
    let ring = |ring: &Vec<(u32, u32)>| ring.iter().map(|&(x, y)| grid.node(x, y)).collect();
    Ok(Job {
        nodes: nodes.to_vec(),
        ways: (0..grid.nodes()).map(from).collect(),
        rings: rings.iter().map(ring).collect(),
    })
}
