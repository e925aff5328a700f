//! Decisions, pure: which circuits, which routes.
//!
//! Every function here maps what is wanted, and what stands, to a plan. None reads a clock, draws a
//! random number or knows an engine, so the simulator, a controller and a runtime can call the same
//! code. Servers, GPUs and NICs are plain indices: local to a region in [`mixnet`], global in
//! [`allreduce`], [`rails`] and [`topoopt`]. The same input gives the same plan, on any machine.
//!
//! Indices are checked by whoever builds them (fabrics and placements, from validated specs); one
//! out of range is a caller's error, and panics as each function's documentation says.

pub mod allreduce;
pub mod mixnet;
pub mod rails;
pub mod railx;
pub mod swot;
pub mod topoopt;
