//! A function in Python that a run asks while it has no lock of the interpreter.

use pyo3::prelude::*;
use std::sync::Mutex;

/// Its first exception is kept, to be raised when the run has ended.
#[derive(Debug)]
pub(crate) struct Function {
    function: Py<PyAny>,
    raised: Mutex<Option<PyErr>>,
}

impl Function {
    pub(crate) fn new(function: Py<PyAny>) -> Self {
        Function { function, raised: Mutex::new(None) }
    }

    /// The exception that ended the run, if one did.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.raised.lock().ok()?.take()
    }

    /// What `call` makes of the function.
    ///
    /// # Errors
    /// The text of an exception, which is kept.
    pub(crate) fn ask<T>(
        &self,
        call: impl FnOnce(Python<'_>, &Py<PyAny>) -> PyResult<T>,
    ) -> Result<T, String> {
        Python::attach(|py| call(py, &self.function)).map_err(|error| {
            let why = error.to_string();
            if let Ok(mut raised) = self.raised.lock() {
                raised.get_or_insert(error);
            }
            why
        })
    }
}
