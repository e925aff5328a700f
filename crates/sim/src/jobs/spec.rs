//! Several jobs, as they are asked for.

use crate::spec::Spec;
use lightloom_units::Time;
use serde::Deserialize;
use serde_json::Value;

/// Iterations of a job, at most.
const MOST_ITERATIONS: u32 = 1 << 16;

/// Several jobs on one fabric.
#[derive(Clone, Debug)]
pub struct JobsSpec {
    /// GPUs of the cluster.
    pub gpus: u32,
    /// The jobs.
    pub jobs: Vec<SharedJob>,
}

/// One of several jobs.
#[derive(Clone, Debug)]
pub struct SharedJob {
    /// What results call it.
    pub name: String,
    /// As if it were alone, on as many GPUs as it has; fabric and engine are those of all.
    pub spec: Spec,
    /// Where it runs.
    pub servers: Servers,
    /// When its first iteration begins.
    pub start: Time,
    /// How many follow one another.
    pub iterations: u32,
}

/// Where a job runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Servers {
    /// On these servers, in the order of its ranks.
    Listed(Vec<u32>),
    /// Where there is room.
    Policy(PlacePolicy),
}

/// Where a job goes that is given no servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacePolicy {
    /// On the first servers that are free.
    Packed,
    /// On servers under one leaf after the other, in turn.
    Spread,
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    gpus: u32,
    jobs: Vec<WrittenJob>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenJob {
    name: String,
    spec: Value,
    servers: Servers,
    start_ps: Time,
    iterations: u32,
}

impl JobsSpec {
    /// Parses the JSON that Python made.
    ///
    /// # Errors
    /// A message that names the key.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let Written { gpus, jobs } =
            serde_json::from_str(text).map_err(|error| format!("the jobs: {error}"))?;
        let read = |(number, job): (usize, WrittenJob)| {
            let WrittenJob { name, spec, servers, start_ps: start, iterations } = job;
            if !(1..=MOST_ITERATIONS).contains(&iterations) {
                return Err(format!(
                    "jobs[{number}].iterations = {iterations}: must be from 1 to {MOST_ITERATIONS}"
                ));
            }
            let spec = Spec::from_json(&spec.to_string())?;
            Ok(SharedJob { name, spec, servers, start, iterations })
        };
        let jobs = jobs.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(JobsSpec { gpus, jobs })
    }
}

impl Servers {
    /// The servers that are given.
    pub(super) fn listed(&self) -> Vec<u32> {
        match self {
            Servers::Listed(servers) => servers.clone(),
            Servers::Policy(_) => vec![],
        }
    }
}

impl PlacePolicy {
    /// As a specification has it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            PlacePolicy::Packed => "packed",
            PlacePolicy::Spread => "spread",
        }
    }
}
