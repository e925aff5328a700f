//! How a daemon ends when it does not end well: what was asked makes no sense, or it could not be done.

use std::process::ExitCode;
use thiserror::Error;

/// Why a daemon ends. Shown as one line.
///
/// ```
/// use lightloom_daemon::failure::Failure;
/// let wrong = Failure::Input("--ports: 0: a switch has 1 to 4096".into());
/// assert_eq!(wrong.to_string(), "--ports: 0: a switch has 1 to 4096");
/// ```
#[derive(Debug, Error)]
pub enum Failure {
    /// An argument or a file that was given. Exit code 2.
    #[error("{0}")]
    Input(String),
    /// Something on the way. Exit code 1.
    #[error("{0}")]
    Run(String),
}

impl Failure {
    /// The exit code of the process.
    pub fn code(&self) -> ExitCode {
        match self {
            Failure::Input(_) => ExitCode::from(2),
            Failure::Run(_) => ExitCode::from(1),
        }
    }
}
