//! SWOT on steps of one's own, for tests and studies; collectives by name are in `plan_collective`.

use crate::errors::{refused, wrong};
use crate::json::{read, text};
use lightloom_swot::{Effort, Held, Planes, Problem, Schedule, Step};
use lightloom_swot::{ideal, lockstep, overlap, replay};
use lightloom_units::Time;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    planes: Planes,
    /// Planes of each dimension; none without a grid.
    #[serde(default)]
    dimensions: Vec<u32>,
    initial: Vec<Held>,
    steps: Vec<Step>,
    #[serde(default)]
    effort: Option<String>,
}

#[derive(Serialize)]
struct Response {
    completion_ps: Time,
    bound_ps: Time,
    lockstep_ps: Time,
    ideal_ps: Time,
    schedule: Schedule,
}

/// Schedules steps on planes; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn swot_schedule(py: Python<'_>, request: &str) -> PyResult<String> {
    let asked: Request = read(request)?;
    let effort = match asked.effort.as_deref() {
        None | Some("normal") => Effort::Normal,
        Some("quick") => Effort::Quick,
        Some("thorough") => Effort::Thorough,
        Some(other) => {
            return Err(refused(format!("effort is {other:?}; allowed: quick, normal, thorough")));
        }
    };
    let flat = vec![asked.planes.planes];
    let dimensions = if asked.dimensions.is_empty() { flat } else { asked.dimensions };
    let problem = Problem::on_grid(asked.planes, dimensions, asked.initial, asked.steps);
    let problem = problem.map_err(refused)?;
    let found = py.detach(|| overlap(&problem, effort));
    let completion_ps = replay(&problem, &found.schedule)
        .map_err(|violation| wrong(format!("the SWOT scheduler is wrong: {violation}")))?;
    let answer = Response {
        completion_ps,
        bound_ps: found.bound_ps,
        lockstep_ps: lockstep(&problem).completion_ps,
        ideal_ps: ideal(&problem),
        schedule: found.schedule,
    };
    text(&answer)
}
