//! Errors as Python knows them: `ValueError` for bad input, `RuntimeError` for a run that failed.

use lightloom_sim::SimError;
use lightloom_sim::plan::PlanningError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::fmt::Display;

/// Bad input.
pub(crate) fn refused(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A run that failed.
pub(crate) fn wrong(error: impl Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

pub(crate) fn raised(error: SimError) -> PyErr {
    match error {
        SimError::Input(message) => refused(message),
        SimError::Run(error) => wrong(error),
    }
}

pub(crate) fn unplanned(error: PlanningError) -> PyErr {
    match error {
        PlanningError::Input(message) => refused(message),
        invalid @ PlanningError::Invalid { .. } => wrong(invalid),
    }
}
