//! The workload of a specification, and its runs.

use crate::balancer::PythonBalancer;
use crate::columns::{as_python, by_name};
use crate::errors::{raised, refused};
use crate::function::Function;
use crate::json::{spec, text};
use crate::mixnet::rule::PythonRule;
use crate::progress::watched;
use lightloom_decide::Rule;
use lightloom_packet::PathChooser;
use lightloom_sim::{Beside, Given, TraceCounts};
use lightloom_units::Time;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// Messages (from, to, bytes), and which of them wait for which (before, after).
type Program = (Vec<(u32, u32, u64)>, Vec<(u32, u32)>);

/// The workload of a specification, built once and run on as many fabrics as one likes.
#[pyclass(frozen)]
pub(crate) struct Workload(pub(crate) lightloom_sim::Workload);

#[pymethods]
impl Workload {
    #[new]
    fn new(
        py: Python<'_>,
        spec_json: &str,
        counts: PyBuffer<u32>,
        shape: [usize; 4],
    ) -> PyResult<Self> {
        let spec = spec(spec_json)?;
        let counts = counts.to_vec(py)?;
        if shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) != Some(counts.len()) {
            return Err(refused(format!(
                "a trace of shape {shape:?} cannot have {} counts",
                counts.len()
            )));
        }
        let trace = TraceCounts { counts: &counts, shape };
        py.detach(|| lightloom_sim::Workload::new(&spec, trace)).map(Workload).map_err(raised)
    }

    /// The workload of a collective: by its algorithm, or of a matrix of bytes (row-major), or of a
    /// program's messages and (before, after) of those that wait for others.
    #[staticmethod]
    #[pyo3(signature = (spec_json, matrix=None, program=None))]
    fn collective(
        py: Python<'_>,
        spec_json: &str,
        matrix: Option<PyBuffer<u64>>,
        program: Option<Program>,
    ) -> PyResult<Self> {
        let spec = spec(spec_json)?;
        let matrix = matrix.map(|bytes| bytes.to_vec(py)).transpose()?;
        let given = match (&matrix, &program) {
            (Some(bytes), _) => Given::Matrix(bytes),
            (None, Some((sent, waits))) => Given::Program(sent, waits),
            (None, None) => Given::Nothing,
        };
        py.detach(|| lightloom_sim::Workload::collective(&spec, given))
            .map(Workload)
            .map_err(raised)
    }

    /// The number of tasks of one iteration.
    #[getter]
    fn tasks(&self) -> usize {
        self.0.tasks()
    }

    /// Where each compute time comes from: (component, pass, origin, picoseconds).
    #[getter]
    fn compute_origins(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
        let origins = self.0.origins().iter();
        origins
            .map(|o| (o.component.as_str(), o.pass.as_str(), o.origin.as_str(), o.time.ps()))
            .collect()
    }

    /// What GPUs send each other in one iteration, as columns: kind, from, to, bytes.
    fn traffic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        as_python(py, &py.detach(|| self.0.traffic()))
    }

    /// About how long an iteration takes on the fabric of `spec_json`, and how long at least \[ps\]; only the
    /// latter if it is more than `enough_ps`.
    #[pyo3(signature = (spec_json, enough_ps=None))]
    fn outline<'py>(
        &self,
        py: Python<'py>,
        spec_json: &str,
        enough_ps: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let spec = spec(spec_json)?;
        let enough = enough_ps.map(Time::from_ps);
        let found = py.detach(|| self.0.outline(&spec, enough)).map_err(raised)?;
        let result = PyDict::new(py);
        result.set_item("about_ps", found.about.map(Time::ps))?;
        let times = [
            ("least_ps", found.least),
            ("compute_ps", found.compute),
            ("all_to_all_ps", found.all_to_all),
            ("dark_ps", found.dark),
        ];
        for (name, time) in times {
            result.set_item(name, time.ps())?;
        }
        Ok(result)
    }

    /// Runs one iteration on the fabric and engine of `spec_json`; `progress` is given the share
    /// done and stops the run by raising.
    /// `functions`: the first chooses circuits in place of the specification's rule, the second paths in
    /// place of its balancer. `earlier` (JSON) is what other traffic took of packet NICs before,
    /// `recorded` asks for what the first region's controller did. `threads`: of the flow or packet engine,
    /// which change nothing of what comes out.
    #[pyo3(signature = (
        spec_json, progress=None, functions=[None, None], earlier=None, recorded=false, threads=1
    ))]
    #[allow(clippy::too_many_arguments)] // each is another thing
    fn run<'py>(
        &self,
        py: Python<'py>,
        spec_json: &str,
        progress: Option<Py<PyAny>>,
        functions: [Option<Py<PyAny>>; 2],
        earlier: Option<&str>,
        recorded: bool,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let spec = spec(spec_json)?;
        let earlier: Vec<_> =
            earlier.map_or_else(|| Ok(Vec::new()), serde_json::from_str).map_err(refused)?;
        let functions = functions.map(|given| given.map(|f| Arc::new(Function::new(f))));
        let [decision, balancer] = functions.clone();
        let rule = decision.map(|f| -> Arc<dyn Rule> { Arc::new(PythonRule(f)) });
        let balancer = balancer.map(|f| -> Arc<dyn PathChooser> { Arc::new(PythonBalancer(f)) });
        let (rule, balancer) = (rule.as_ref(), balancer.as_ref());
        let beside = Beside { earlier: &earlier, rule, balancer, recorded, threads };
        let run = watched(py, progress, |progress| self.0.run_beside(&spec, beside, progress));
        if let Some(error) = functions.iter().flatten().find_map(|function| function.raised()) {
            return Err(error);
        }
        let run = run?;
        let split = run.breakdown;
        let result = PyDict::new(py);
        let summary = PyDict::new(py);
        summary.set_item("iteration_ps", run.iteration.ps())?;
        summary.set_item("compute_ps", split.compute.ps())?;
        summary.set_item("exposed_a2a_ps", split.all_to_all.ps())?;
        summary.set_item("exposed_other_ps", split.other.ps())?;
        summary.set_item("reconfiguration_ps", split.reconfiguration.ps())?;
        summary.set_item("carrier", &run.carrier)?;
        summary.set_item("topology", &run.topology)?;
        for (name, value) in &run.figures {
            summary.set_item(name, value)?;
        }
        result.set_item("summary", summary)?;
        result.set_item("tables", by_name(py, &run.tables)?)?;
        result.set_item("notes", &run.notes)?;
        result.set_item("warnings", &run.warnings)?;
        result.set_item("traffic", text(&run.traffic)?)?;
        if let Some(bounds) = &run.bounds {
            let figures = PyDict::new(py);
            figures.set_item("primitive_ps", bounds.primitive.ps())?;
            figures.set_item("demand_ps", bounds.demand.ps())?;
            figures.set_item("sent_bytes", bounds.sent_bytes)?;
            result.set_item("bounds", figures)?;
        }
        result.set_item("kept", run.kept.as_ref().map(text).transpose()?)?;
        Ok(result)
    }
}
