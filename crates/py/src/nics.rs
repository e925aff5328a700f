//! Which NICs carry what of an all-to-all.

use crate::errors::raised;
use crate::json::read;
use lightloom_sim::{Carried, NicsSpec};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

/// Source, destination, offset, bytes, sending NIC, receiving NIC.
type Part = (u32, u32, u64, u64, u16, u16);

/// Says what the simulator's decisions give NICs to carry; see the stub for what goes in and comes out.
#[pyfunction]
pub(crate) fn alltoall_nics(
    py: Python<'_>,
    request: &str,
    demand: PyBuffer<u64>,
) -> PyResult<Vec<Part>> {
    let spec: NicsSpec = read(request)?;
    let demand = demand.to_vec(py)?;
    let parts = py.detach(|| lightloom_sim::alltoall_nics(&spec, &demand)).map_err(raised)?;
    let row = |it: &Carried| (it.source, it.destination, it.offset, it.bytes, it.nic, it.peer_nic);
    Ok(parts.iter().map(row).collect())
}
