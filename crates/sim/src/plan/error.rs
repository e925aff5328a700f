//! Why there is no plan.

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanningError {
    /// What was asked for, or a plan that was given, cannot be used.
    #[error("{0}")]
    Input(String),
    /// A scheduler's answer failed its replay.
    #[error("the {scheduler} scheduler is wrong: {violation}; please report it")]
    Invalid {
        /// The scheduler that is wrong.
        scheduler: &'static str,
        /// What the replay found.
        violation: String,
    },
}

pub(crate) fn input(error: impl std::fmt::Display) -> PlanningError {
    PlanningError::Input(error.to_string())
}
