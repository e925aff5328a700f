//! The Python module `lightloom._core`: conversions, errors, and the release of the interpreter
//! lock. Nothing is decided here.
//!
//! Columns travel as little-endian bytes; a bad specification is a `ValueError`, a run that failed a
//! `RuntimeError`, both with one message.

mod balancer;
mod columns;
mod control;
mod errors;
mod function;
mod jobs;
mod json;
mod mixnet;
mod model;
mod nics;
mod progress;
mod railx;
mod swot;
mod workload;

use crate::columns::{as_python, little_endian};
use crate::errors::{raised, refused, unplanned};
use crate::json::{read, spec, text};
use lightloom_sim::plan::{
    AllToAllSpec, CollectiveSpec, Task, Tracks, algorithms, check_plan, plan_alltoall,
    plan_collective,
};
use lightloom_sim::{Levels, RailsSpec, run_plan};
use lightloom_swot::plan::Dimension;
use lightloom_units::{BitRate, Bytes, Time};
use progress::watched;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::fmt::Display;
use std::str::FromStr;

fn parsed<T: FromStr<Err: Display>>(text: &str) -> PyResult<T> {
    text.parse().map_err(refused)
}

#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use super::workload::Workload;

    #[pymodule_export]
    use super::control::{soak_control, soak_control_trace};
    #[pymodule_export]
    use super::jobs::{jobs_place, jobs_run};
    #[pymodule_export]
    use super::mixnet::ahead::mixnet_ahead;
    #[pymodule_export]
    use super::mixnet::decide::mixnet_circuits;
    #[pymodule_export]
    use super::mixnet::emulate::emulate_region;
    #[pymodule_export]
    use super::mixnet::predict::{predict_evaluate, predict_fit};
    #[pymodule_export]
    use super::model::{
        job_estimate, job_kernels, job_memory, model_parameters, product_times, token_flops,
    };
    #[pymodule_export]
    use super::nics::alltoall_nics;
    #[pymodule_export]
    use super::railx::allocate::{railx_allocate, railx_largest};
    #[pymodule_export]
    use super::railx::build::railx_build;
    #[pymodule_export]
    use super::railx::collective::railx_all_reduce;
    #[pymodule_export]
    use super::railx::decompose::railx_decompose;
    #[pymodule_export]
    use super::railx::map::{railx_map, railx_split, railx_traffic};
    #[pymodule_export]
    use super::railx::simulate::FlitNetwork;
    #[pymodule_export]
    use super::railx::tenants::railx_tenants;

    #[pymodule_export]
    use super::swot::swot_schedule;

    /// Picoseconds of a text such as "25 ms".
    #[pyfunction]
    fn parse_time(text: &str) -> PyResult<u64> {
        parsed::<Time>(text).map(Time::ps)
    }

    /// Bytes of a text such as "64 KiB".
    #[pyfunction]
    fn parse_bytes(text: &str) -> PyResult<u64> {
        parsed::<Bytes>(text).map(Bytes::get)
    }

    /// Bits per second of a text such as "400 Gbps" or "900 GB/s".
    #[pyfunction]
    fn parse_rate(text: &str) -> PyResult<u64> {
        parsed::<BitRate>(text).map(BitRate::bps)
    }

    /// A number of picoseconds as text.
    #[pyfunction]
    fn format_time(ps: u64) -> String {
        Time::from_ps(ps).to_string()
    }

    /// A number of bytes as text.
    #[pyfunction]
    fn format_bytes(size: u64) -> String {
        Bytes::new(size).to_string()
    }

    /// A number of bits per second as text.
    #[pyfunction]
    fn format_rate(bps: u64) -> String {
        BitRate::from_bps(bps).to_string()
    }

    /// The kinds of a family, such as "balancer", as JSON; see `lightloom_units::kind`.
    #[pyfunction]
    fn kinds(family: &str) -> PyResult<String> {
        lightloom_sim::kinds(family).map_err(refused)
    }

    /// By what a primitive such as "all-reduce" can be run on so many ranks.
    #[pyfunction]
    fn collective_algorithms(primitive: &str, ranks: u32) -> PyResult<Vec<String>> {
        let primitive = serde_json::from_value(primitive.into()).map_err(refused)?;
        Ok(lightloom_sim::collective_algorithms(primitive, ranks))
    }

    /// By what a primitive takes least; see the stub.
    #[pyfunction]
    fn quickest_collective(
        primitive: &str,
        ranks: u32,
        size: u64,
        server: (u32, u32),
        inside: (f64, f64),
        between: (f64, f64),
        change: f64,
    ) -> PyResult<String> {
        let primitive = serde_json::from_value(primitive.into()).map_err(refused)?;
        let (per_server, nics) = server;
        let levels = Levels { per_server, inside, between, nics, change };
        lightloom_sim::quickest(primitive, ranks, Bytes::new(size), &levels)
            .ok_or_else(|| refused("no algorithm fits"))
    }

    /// What the network of a resolved specification is made of, and what a reader must know of it.
    #[pyfunction]
    fn bill<'py>(py: Python<'py>, spec_json: &str) -> PyResult<Bound<'py, PyList>> {
        let spec = spec(spec_json)?;
        let fabric = lightloom_sim::fabric_without_circuits(&spec).map_err(raised)?;
        let lines = PyList::empty(py);
        for line in fabric.bill().lines() {
            let entry = PyDict::new(py);
            entry.set_item("item", line.item.name())?;
            entry.set_item("rate_bps", line.rate.bps())?;
            entry.set_item("count", line.count)?;
            lines.append(entry)?;
        }
        Ok(lines)
    }

    /// Packet switches that are alike: their rate \[bit/s\], the ports that each uses, how many they are.
    type Switches = (u64, u64, u64);

    /// The packet switches of a resolved specification, and how many optical switches it has.
    #[pyfunction]
    fn switches(spec_json: &str) -> PyResult<(Vec<Switches>, usize)> {
        let fabric = lightloom_sim::fabric_without_circuits(&spec(spec_json)?).map_err(raised)?;
        let listed = fabric.switch_ports().into_iter();
        let packet = listed.map(|(rate, ports, count)| (rate.bps(), ports, count)).collect();
        Ok((packet, fabric.optical_switches()))
    }

    /// Runs all-to-alls on a rail-optimized fabric; see the stub for what goes in and comes out.
    #[pyfunction]
    #[pyo3(signature = (spec_json, demand, progress=None))]
    fn rails<'py>(
        py: Python<'py>,
        spec_json: &str,
        demand: PyBuffer<u64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let spec = RailsSpec::from_json(spec_json).map_err(refused)?;
        let demand = demand.to_vec(py)?;
        let run = watched(py, progress, |progress| lightloom_sim::rails(&spec, &demand, progress))?;
        let collectives = PyList::empty(py);
        for one in &run.collectives {
            let figures = PyDict::new(py);
            figures.set_item("completion_ps", one.completion.ps())?;
            let names = ["cct_mean_ps", "cct_p80_ps", "cct_p95_ps", "cct_p99_ps", "cct_max_ps"];
            for (name, time) in names.iter().zip(one.pairs) {
                figures.set_item(name, time.ps())?;
            }
            figures.set_item("inter_domain_bytes", one.inter_domain_bytes)?;
            figures.set_item("bus_bandwidth_bps", one.bus_bandwidth_bps)?;
            figures.set_item("bus_bandwidth_share", one.bus_bandwidth_share)?;
            figures.set_item("sender_mse", one.sender_mse)?;
            figures.set_item("receiver_mse", one.receiver_mse)?;
            collectives.append(figures)?;
        }
        let sent = run.collectives.iter().flat_map(|one| one.sent.iter().copied());
        let received = run.collectives.iter().flat_map(|one| one.received.iter().copied());
        let result = PyDict::new(py);
        result.set_item("collectives", collectives)?;
        result.set_item("sender_loads", little_endian(py, sent))?;
        result.set_item("receiver_loads", little_endian(py, received))?;
        result.set_item("flows", as_python(py, &run.flows)?)?;
        let packets = run.packets.map(|counts| {
            let dict = PyDict::new(py);
            counts.into_iter().try_for_each(|(name, count)| dict.set_item(name, count))?;
            PyResult::Ok(dict)
        });
        result.set_item("packets", packets.transpose()?)?;
        result.set_item("notes", &run.notes)?;
        Ok(result)
    }

    /// Loads of senders and receivers that a rule of dealing gives a demand.
    #[pyfunction]
    fn rails_assign<'py>(
        py: Python<'py>,
        demand: PyBuffer<u64>,
        gpus_per_domain: u32,
        chunk: u64,
        deal: &str,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let demand = demand.to_vec(py)?;
        let chunk = Bytes::new(chunk);
        let loads = py
            .detach(|| lightloom_sim::rails_assign(&demand, gpus_per_domain, chunk, deal))
            .map_err(raised)?;
        let (sent, received) = loads;
        Ok((little_endian(py, sent.into_iter()), little_endian(py, received.into_iter())))
    }

    /// Plans a collective; see the stub for what goes in and comes out.
    #[pyfunction(name = "plan_collective")]
    fn plan_a_collective(py: Python<'_>, request: &str) -> PyResult<(String, Option<String>)> {
        let spec = CollectiveSpec::from_json(request).map_err(unplanned)?;
        let plans = py.detach(|| plan_collective(&spec)).map_err(unplanned)?;
        Ok((plans.to_json(), plans.plan.as_ref().map(Tracks::to_json)))
    }

    /// Plans an all-to-all; see the stub for what goes in and comes out.
    #[pyfunction(name = "plan_alltoall")]
    fn plan_an_alltoall(
        py: Python<'_>,
        request: &str,
        demand: PyBuffer<u64>,
    ) -> PyResult<(String, String)> {
        let spec = AllToAllSpec::from_json(request).map_err(unplanned)?;
        let demand = demand.to_vec(py)?;
        let plans = py.detach(|| plan_alltoall(&spec, &demand)).map_err(unplanned)?;
        Ok((plans.to_json(), plans.plan.to_json()))
    }

    /// Names of a primitive's collective algorithms on so many nodes, or over a grid of such lines.
    #[pyfunction]
    #[pyo3(signature = (primitive, nodes, lines = vec![]))]
    fn plan_algorithms(primitive: &str, nodes: u32, lines: Vec<u32>) -> PyResult<Vec<String>> {
        algorithms(primitive, nodes, &lines).map_err(unplanned)
    }

    /// The problem that schedulers are given, as JSON.
    #[pyfunction]
    fn plan_problem(request: &str) -> PyResult<String> {
        let spec = CollectiveSpec::from_json(request).map_err(unplanned)?;
        spec.problem_json().map_err(unplanned)
    }

    /// What each node sends in each step of a collective, as JSON.
    #[pyfunction]
    #[pyo3(signature = (algorithm, nodes, size, grid = "[]"))]
    fn plan_messages(
        py: Python<'_>,
        algorithm: &str,
        nodes: u32,
        size: u64,
        grid: &str,
    ) -> PyResult<String> {
        let grid: Vec<Dimension> = read(grid)?;
        py.detach(|| {
            let messages =
                lightloom_sim::messages(algorithm, nodes, &grid, size).map_err(refused)?;
            text(&messages)
        })
    }

    /// Replays a plan against its task; picoseconds until it is complete.
    #[pyfunction]
    fn plan_check(py: Python<'_>, tracks: &str, task: &str) -> PyResult<u64> {
        let tracks = Tracks::from_json(tracks).map_err(unplanned)?;
        let task = Task::from_json(task).map_err(unplanned)?;
        py.detach(|| check_plan(tracks, &task)).map(Time::ps).map_err(unplanned)
    }

    /// Carries a plan out on the flow engine.
    #[pyfunction]
    fn plan_run<'py>(py: Python<'py>, tracks: &str) -> PyResult<Bound<'py, PyDict>> {
        let plan = Tracks::from_json(tracks).and_then(Tracks::into_plan).map_err(unplanned)?;
        let run = py.detach(|| run_plan(&plan)).map_err(raised)?;
        let planes = PyList::empty(py);
        for (plane, usage) in run.planes.iter().enumerate() {
            let figures = PyDict::new(py);
            figures.set_item("plane", plane)?;
            figures.set_item("bytes", usage.bytes.get())?;
            figures.set_item("busy_ps", usage.busy.ps())?;
            figures.set_item("dark_ps", usage.dark.ps())?;
            figures.set_item("circuits", usage.circuits)?;
            planes.append(figures)?;
        }
        let result = PyDict::new(py);
        result.set_item("completion_ps", run.completion.ps())?;
        result.set_item("planned_ps", run.planned.ps())?;
        result.set_item("events", run.events)?;
        result.set_item("planes", planes)?;
        Ok(result)
    }
}
