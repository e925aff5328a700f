//! The one error of this crate: a key of the specification, its value, and what is allowed.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A value that no job can be built from.
///
/// The caller adds the file's name; key and value are those of the specification.
///
/// ```
/// use lightloom_workload::Parallelism;
/// let parallelism = Parallelism { tp: 4, cp: 1, ep: 0, etp: None, dp: 8, pp: 4 };
/// assert_eq!(
///     parallelism.validate().unwrap_err().to_string(),
///     "parallelism.ep = 0: must be between 1 and 4194304"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {reason}")]
pub struct WorkloadError {
    /// The key, as in the specification: `parallelism.ep`.
    pub key: String,
    /// The value that was found.
    pub value: String,
    /// What is allowed, or how to get what fits.
    pub reason: String,
}

impl WorkloadError {
    pub(crate) fn new(key: &str, value: impl Display, reason: impl Into<String>) -> Self {
        WorkloadError { key: key.into(), value: value.to_string(), reason: reason.into() }
    }
}

/// Fails with `reason` unless `allowed`.
pub(crate) fn require(
    allowed: bool,
    key: &str,
    value: impl Display,
    reason: impl FnOnce() -> String,
) -> Result<(), WorkloadError> {
    match allowed {
        true => Ok(()),
        false => Err(WorkloadError::new(key, value, reason())),
    }
}

/// Fails unless `value` lies within `range`.
pub(crate) fn within(
    key: &str,
    value: u32,
    range: RangeInclusive<u32>,
) -> Result<(), WorkloadError> {
    require(range.contains(&value), key, value, || {
        format!("must be between {} and {}", range.start(), range.end())
    })
}

/// Fails unless `value` is a multiple of the value of `divisor_key`.
pub(crate) fn multiple(
    key: &str,
    value: u32,
    divisor_key: &str,
    divisor: u32,
) -> Result<(), WorkloadError> {
    require(divisor != 0 && value % divisor == 0, divisor_key, divisor, || {
        format!("must divide {key} = {value}")
    })
}
