//! What became of several jobs.

use crate::critical::Breakdown;
use crate::table::Table;
use lightloom_units::Time;

/// What became of several jobs.
#[derive(Clone, Debug)]
pub struct JobsRun {
    /// By job.
    pub jobs: Vec<JobRun>,
    /// jobs, iterations, links, shared.
    pub tables: Vec<Table>,
    /// When the last one ended.
    pub makespan: Time,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// What a reader must not overlook.
    pub warnings: Vec<String>,
}

/// What became of one of them.
#[derive(Clone, Debug)]
pub struct JobRun {
    /// When its first iteration began.
    pub start: Time,
    /// When each iteration ended.
    pub ends: Vec<Time>,
    /// All iterations by cause.
    pub breakdown: Breakdown,
    /// What its transfers sent, inside servers too.
    pub bytes: u64,
    /// What of it left NICs.
    pub between_servers: u64,
    /// What it put on links that other jobs use, counted on each.
    pub shared: u64,
    /// Times that its circuits changed.
    pub reconfigurations: u64,
    /// What carried its all-to-alls between servers.
    pub carrier: String,
}

impl JobRun {
    /// When its last iteration ended.
    pub fn end(&self) -> Time {
        self.ends.last().copied().unwrap_or(self.start)
    }

    /// When an iteration began.
    pub fn begin_of(&self, iteration: usize) -> Time {
        iteration.checked_sub(1).map_or(self.start, |before| self.ends[before])
    }
}
