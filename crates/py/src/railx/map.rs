//! A job's traffic, where it goes, and which rails it gets.

use crate::errors::refused;
use crate::json::{read, text};
use lightloom_fabric::railx::Grid;
use lightloom_railx::bandwidth::{Objective, Split, Stage, Turns, segments, split};
use lightloom_railx::placement::{Hall, Mapping, Phase, Question, place};
use lightloom_railx::volume::{Traffic, Work};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    work: Work,
    hall: Hall,
    /// The stages of a training; `work.sequence_length` is that of the first.
    stages: Vec<TrainingStage>,
    hidden_s: [f64; 5],
    objective: Objective,
    turns: Option<Turns>,
    change_s: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrainingStage {
    sequence_length: u32,
    iterations: f64,
}

#[derive(Serialize)]
struct Response {
    /// One mapping for all stages, with rails that stay.
    fixed: Option<Mapping>,
    /// One mapping for all stages, with context and expert parallelism by turns.
    turns: Option<Mapping>,
    /// What is best with a change between stages where it pays.
    segments: Vec<Segment>,
    segments_cost_s: f64,
}

#[derive(Serialize)]
struct Segment {
    first: usize,
    end: usize,
    mapping: Mapping,
}

/// Maps a job; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn railx_map(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Request = read(request)?;
    let hall = asked.hall;
    Grid::new(hall.mesh, hall.ports, hall.ocs, 1, 1).check().map_err(refused)?;
    let mut phases = Vec::new();
    for part in &asked.stages {
        let work = Work { sequence_length: part.sequence_length, ..asked.work.clone() };
        work.check().map_err(refused)?;
        let turns = 2.0 * f64::from(work.micro_batches) * f64::from(work.layers().1);
        phases.push(Phase { weight: part.iterations, traffic: work.traffic(), turns });
    }
    text(&py.detach(|| answer(&asked, &phases)))
}

fn answer(asked: &Request, phases: &[Phase]) -> Response {
    let p = asked.work.parallelism;
    let question = Question {
        hall: asked.hall,
        degrees: [p.tp, p.cp, p.ep, p.dp, p.pp],
        phases,
        hidden_s: asked.hidden_s,
        objective: asked.objective,
        turns: None,
    };
    let fixed = place(&question);
    let turns = asked.turns.and_then(|_| place(&Question { turns: asked.turns, ..question }));
    let over =
        |first: usize, end: usize| place(&Question { phases: &phases[first..end], ..question });
    let (mut chosen, mut segments_cost_s) = (Vec::new(), 0.0);
    if let (Some(_), 2..) = (&fixed, phases.len()) {
        // Whatever is legal for one stage is for all: degrees are the same.
        let cost = |first, end| over(first, end).map_or(f64::INFINITY, |mapping| mapping.cost_s);
        let (ends, cost_s) = segments(phases.len(), asked.change_s, cost);
        segments_cost_s = cost_s;
        let firsts = [0].into_iter().chain(ends.iter().copied());
        chosen = firsts
            .zip(&ends)
            .filter_map(|(first, &end)| Some(Segment { first, end, mapping: over(first, end)? }))
            .collect();
    }
    Response { fixed, turns, segments: chosen, segments_cost_s }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dealt {
    ports: u32,
    stages: Vec<Stage>,
    objective: Objective,
}

/// Deals ports; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn railx_split(request: &str) -> PyResult<String> {
    let asked: Dealt = read(request)?;
    let dimensions = asked.stages.first().map_or(0, |stage| stage.loads.len());
    if asked.stages.iter().any(|stage| stage.loads.len() != dimensions) {
        return Err(refused("stages: must all have as many loads as the first"));
    }
    let found: Option<Split> = split(asked.ports, &asked.stages, asked.objective);
    let more =
        || format!("ports = {}: must be at least {dimensions}, one a dimension", asked.ports);
    text(&found.ok_or_else(|| refused(more()))?)
}

#[derive(Serialize)]
struct Counted {
    rows: Vec<Traffic>,
    /// FLOPs of a token, forward, through the whole model.
    token_flops: f64,
}

/// Table 4 of a job; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn railx_traffic(request: &str) -> PyResult<String> {
    let work: Work = read(request)?;
    work.check().map_err(refused)?;
    let token_flops = work.model.token_flops(work.sequence_length);
    text(&Counted { rows: work.traffic(), token_flops })
}
