//! What a run is given, and what it gives back, beside specification and tables.

use crate::emulate::{EmulatedRun, RoundReports};
use lightloom_decide::{Rule, Traffic};
use serde::Serialize;
use std::sync::Arc;

/// What a region's controller was asked, round by round, and what it did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Kept {
    /// What servers reported.
    pub asked: Vec<RoundReports>,
    /// What that led to.
    pub answered: EmulatedRun,
}

/// What a run is given beside its specification.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a> {
    /// By region and server: what other traffic took in iterations before this one. Unless given, what
    /// the task graph says.
    pub earlier: &'a [Vec<Vec<Traffic>>],
    /// What chooses circuits in place of the specification's rule.
    pub rule: Option<&'a Arc<dyn Rule>>,
    /// Whether what the controller of the first region that has all-to-alls is asked and does is kept.
    pub recorded: bool,
}
