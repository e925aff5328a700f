//! Plans for whoever asks: a collective's or an all-to-all's, by each scheduler, as a plan file has
//! them.
//!
//! Every schedule is replayed, and every plan checked port by port, before it is returned; one that
//! fails is an error, for a scheduler is wrong then. Nothing is decided here.

mod collective;
mod tracks;

pub use collective::{CollectiveSpec, Initial, Row, Scheduler, algorithms, plan_collective};
pub use tracks::{Task, Tracks, check_plan};

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanningError {
    /// What was asked for, or a plan that was given, cannot be used.
    #[error("{0}")]
    Input(String),
    /// A scheduler's answer failed its replay.
    #[error("the {scheduler} scheduler is wrong: {violation}; please report it")]
    Invalid {
        /// Which one.
        scheduler: &'static str,
        /// What the replay found.
        violation: String,
    },
}

pub(crate) fn input(error: impl std::fmt::Display) -> PlanningError {
    PlanningError::Input(error.to_string())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("numbers, text and lists are JSON")
}
