//! Errors as Python knows them: `ValueError` for bad input, `RuntimeError` for a run that failed.

use lightloom_sim::SimError;
use lightloom_sim::plan::PlanningError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pub(crate) fn raised(error: SimError) -> PyErr {
    match error {
        SimError::Input(message) => PyValueError::new_err(message),
        SimError::Run(error) => PyRuntimeError::new_err(error.to_string()),
    }
}

pub(crate) fn unplanned(error: PlanningError) -> PyErr {
    match error {
        PlanningError::Input(message) => PyValueError::new_err(message),
        wrong @ PlanningError::Invalid { .. } => PyRuntimeError::new_err(wrong.to_string()),
    }
}
