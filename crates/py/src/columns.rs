//! Columns as little-endian bytes.

use lightloom_sim::{Column, Table};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

pub(crate) fn as_python<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for (name, column) in &table.columns {
        let value = match column {
            Column::Integers(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                ("int64", PyBytes::new(py, &bytes)).into_pyobject(py)?.into_any()
            }
            Column::Numbers(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                ("float64", PyBytes::new(py, &bytes)).into_pyobject(py)?.into_any()
            }
            Column::Names { index, names } => {
                let bytes: Vec<u8> = index.iter().flat_map(|v| v.to_le_bytes()).collect();
                ("names", PyBytes::new(py, &bytes), names).into_pyobject(py)?.into_any()
            }
        };
        columns.set_item(name, value)?;
    }
    Ok(columns)
}

/// Tables by their names.
pub(crate) fn by_name<'py>(py: Python<'py>, tables: &[Table]) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for table in tables {
        all.set_item(table.name, as_python(py, table)?)?;
    }
    Ok(all)
}

pub(crate) fn little_endian<'py>(
    py: Python<'py>,
    values: impl Iterator<Item = u64>,
) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
    PyBytes::new(py, &bytes)
}
