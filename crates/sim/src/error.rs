//! Why there is no result.

use lightloom_engine::EngineError;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The specification or the trace cannot be used; the message names the key.
    #[error("{0}")]
    Input(String),
    /// The run failed.
    #[error("{0}")]
    Run(#[from] EngineError),
}
