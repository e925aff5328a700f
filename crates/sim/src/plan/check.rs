//! Whether a plan, as a file has it, does what it is for.

use super::collective::build;
use super::error::{PlanningError, input};
use super::tracks::Tracks;
use lightloom_swot::plan::Wanted;
use lightloom_units::{Bytes, Time};
use serde::Deserialize;

/// What a plan says that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Task {
    /// A collective algorithm.
    Collective {
        /// The name of the collective's algorithm.
        algorithm: String,
        /// Buffer of a node \[B\].
        size_bytes: Bytes,
    },
    /// An all-to-all of one's own.
    AllToAll {
        /// From each node (rows) to each \[B\].
        demand: Vec<Vec<u64>>,
    },
    /// Not said; only what holds for any plan is checked.
    Other {},
}

impl Task {
    /// Parses JSON.
    ///
    /// # Errors
    /// A message that says where.
    pub fn from_json(text: &str) -> Result<Task, PlanningError> {
        serde_json::from_str(text).map_err(|error| input(format!("the plan's task: {error}")))
    }
}

/// Replays a plan against its task; when it completes.
///
/// ```
/// use lightloom_sim::plan::{Task, Tracks, check_plan};
/// let tracks = Tracks::from_json(r#"{
///     "machine": {"nodes": 2, "planes": 1, "rate_bps": 8000, "latency_ps": 5, "reconfiguration_ps": 0},
///     "completion_ps": 1000000005, "bound_ps": 0,
///     "planes": [{"plane": 0, "initial": [1, -1], "reconfigurations": []}],
///     "nodes": [{"node": 0, "transmissions": [{"step": 0, "peer": 1, "plane": 0, "bytes": 1,
///         "start_ps": 0, "end_ps": 1000000005, "after_step": null}]},
///         {"node": 1, "transmissions": []}]}"#)?;
/// let task = Task::AllToAll { demand: vec![vec![0, 1], vec![0, 0]] };
/// assert_eq!(check_plan(tracks, &task)?.ps(), 1_000_000_005);
/// # Ok::<(), lightloom_sim::plan::PlanningError>(())
/// ```
///
/// # Errors
/// [`PlanningError::Input`] with the first thing that is wrong.
pub fn check_plan(tracks: Tracks, task: &Task) -> Result<Time, PlanningError> {
    let plan = tracks.into_plan()?;
    let checked = match task {
        Task::Collective { algorithm, size_bytes } => {
            let built = build(algorithm, plan.nodes, &plan.grid, *size_bytes)?;
            let configurations = &built.configurations();
            let wanted = Wanted::Steps { configurations, steps: &built.steps };
            plan.check(&wanted)
        }
        Task::AllToAll { demand } => {
            let n = demand.len();
            if let Some((at, row)) = demand.iter().enumerate().find(|(_, row)| row.len() != n) {
                let length = row.len();
                return Err(input(format!("task.demand[{at}] has {length} entries, of {n} rows")));
            }
            plan.check(&Wanted::Matrix(&demand.concat()))
        }
        Task::Other {} => plan.check(&Wanted::Anything),
    };
    checked.map_err(input)
}
