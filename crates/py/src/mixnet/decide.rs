//! Circuits for one all-to-all of a region.

use crate::errors::refused;
use crate::json::{read, text};
use lightloom_circuits::{CircuitCounts, Rates, ServerDemand, all_to_all_time, allocate, choose};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    demand: Vec<Vec<u64>>,
    ports: Vec<u32>,
    standing: Option<Vec<Vec<u32>>>,
    optical_bps: u64,
    packet_bps: u64,
    packet_nics: u32,
    share_eps: bool,
}

#[derive(Serialize)]
struct Circuits {
    counts: Vec<Vec<u32>>,
    time_ps: u64,
}

#[derive(Serialize)]
struct Response {
    standing: Circuits,
    algorithm_1: Circuits,
    timed: Circuits,
}

impl Request {
    fn refusal(&self) -> Option<String> {
        let n = self.demand.len();
        let square = |rows: usize, all: bool| rows == n && all;
        if !square(n, self.demand.iter().all(|row| row.len() == n)) {
            return Some(format!("demand: must be {n} rows of {n} numbers"));
        }
        if self.ports.len() != n {
            return Some(format!("ports: {} numbers; must be {n}", self.ports.len()));
        }
        let Some(standing) = &self.standing else { return None };
        if !square(standing.len(), standing.iter().all(|row| row.len() == n)) {
            return Some(format!("standing: must be {n} rows of {n} numbers"));
        }
        for (a, row) in standing.iter().enumerate() {
            if (0..n).any(|b| row[b] != standing[b][a] || (a == b && row[b] > 0)) {
                return Some("standing: must be symmetric, with zeros on the diagonal".into());
            }
            if row.iter().map(|&circuits| u64::from(circuits)).sum::<u64>() > self.ports[a].into() {
                return Some(format!("standing: server {a} has more circuits than ports"));
            }
        }
        None
    }
}

/// Chooses circuits; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn mixnet_circuits(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Request = read(request)?;
    if let Some(refusal) = asked.refusal() {
        return Err(refused(refusal));
    }
    let n = asked.demand.len();
    let rates = Rates {
        optical_bps: asked.optical_bps,
        packet_bps: asked.packet_bps,
        packet_nics: asked.packet_nics,
        share_eps: asked.share_eps,
    };
    let demand = ServerDemand { n, bytes: asked.demand.concat() };
    let answer = py.detach(|| {
        let mut standing = CircuitCounts::dark(n);
        for (a, row) in asked.standing.iter().flatten().enumerate() {
            for (b, &circuits) in row.iter().enumerate().skip(a + 1) {
                (0..circuits).for_each(|_| standing.join(a, b));
            }
        }
        let told = |counts: &CircuitCounts| Circuits {
            counts: (0..n).map(|a| (0..n).map(|b| counts.get(a, b)).collect()).collect(),
            time_ps: all_to_all_time(&demand, counts, &rates).ps(),
        };
        Response {
            standing: told(&standing),
            algorithm_1: told(&allocate(&demand, &asked.ports, true)),
            timed: told(&choose(&demand, &standing, &asked.ports, &rates)),
        }
    });
    text(&answer)
}
