//! Networks of routers under a load.

use crate::errors::raised;
use crate::json::{read, text};
use crate::progress::watched;
use lightloom_sim::{FlitSpec, Flits};
use pyo3::prelude::*;

/// A network of routers and its traffic, built once and loaded as often as one likes.
#[pyclass(frozen)]
pub(crate) struct FlitNetwork(Flits);

#[pymethods]
impl FlitNetwork {
    #[new]
    fn new(py: Python<'_>, request: &str) -> PyResult<Self> {
        let spec: FlitSpec = read(request)?;
        py.detach(|| Flits::new(&spec)).map(FlitNetwork).map_err(raised)
    }

    #[getter]
    fn terminals(&self) -> usize {
        self.0.terminals()
    }

    fn bound(&self, py: Python<'_>) -> PyResult<f64> {
        py.detach(|| self.0.bound()).map_err(raised)
    }

    #[pyo3(signature = (load, threads = 1, progress = None))]
    fn measure(
        &self,
        py: Python<'_>,
        load: f64,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let measured = watched(py, progress, |progress| self.0.measure(load, threads, progress))?;
        text(&measured)
    }
}
