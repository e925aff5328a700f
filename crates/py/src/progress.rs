//! Long runs: without the lock of the interpreter, with progress, stopped by an interrupt.

use crate::errors::raised;
use lightloom_sim::SimError;
use pyo3::prelude::*;

/// Runs without the interpreter's lock; `progress` is given the share that is done and stops the run
/// by raising, as an interrupt does.
pub(crate) fn watched<R: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    run: impl FnOnce(&mut dyn FnMut(f64) -> bool) -> Result<R, SimError> + Send,
) -> PyResult<R> {
    let mut stopped: Option<PyErr> = None;
    let result = py.detach(|| {
        run(&mut |share| {
            Python::attach(|py| {
                let answer = py.check_signals().and_then(|()| {
                    progress.as_ref().map_or(Ok(()), |p| p.call1(py, (share,)).map(drop))
                });
                match answer {
                    Ok(()) => true,
                    Err(error) => {
                        stopped = Some(error);
                        false
                    }
                }
            })
        })
    });
    match stopped {
        Some(error) => Err(error),
        None => result.map_err(raised),
    }
}
