//! The Python module `lightloom._core`: conversions, errors, and the release of the interpreter
//! lock. Nothing is decided here.

use lightloom_units::{BitRate, Bytes, Time};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::fmt::Display;
use std::str::FromStr;

fn parsed<T: FromStr<Err: Display>>(text: &str) -> PyResult<T> {
    text.parse()
        .map_err(|e: T::Err| PyValueError::new_err(e.to_string()))
}

#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

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
}
