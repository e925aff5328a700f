//! The flit engine: routers with virtual channels and credits, cycle by cycle.
//!
//! Modelled: input-buffered routers with virtual cut-through switching. A packet is some flits; each
//! virtual channel (VC) of an input port is a queue of flits. In each cycle, on the state at its
//! start,
//! 1. *allocation*: a packet at the front of a queue asks its [`Routing`] where it may go, and gets
//!    an output's VC if that is free and the buffer ahead has room for the whole packet. It holds the
//!    VC until its tail has left. Body flits need not have arrived;
//! 2. *switching*, a cycle after allocation at the earliest: every input port names one of its VCs,
//!    every output port takes one of the inputs that name it, one flit each; repeated until nothing
//!    more can move, at most as many flits as a port is wide;
//! 3. a flit that moves in cycle t may be handled by the next router in cycle t + 1 + delay of the
//!    channel; its buffer space counts as free again at t + 1 (ideal credits), or after the delay of
//!    the way back as well.
//!
//! Sources have queues without end; a packet is late from the cycle in which it was created. At its
//! router a packet is ejected; the sink always has room, but takes only so many flits a cycle.
//!
//! Ignored: what flits look like, errors on wires, clock domains, power.
//! Checked: flits conserved; no channel carries more than its width; latency without contention flit
//! by flit; BookSim's curve for a mesh under its rules; the bounds of RailX's rails; one and several
//! threads bit by bit.
//!
//! [`Routing`]: lightloom_fabric::routers::Routing

mod draws;
mod engine;
mod measure;
mod part;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod threads;
mod traffic;
mod wheel;

pub use engine::FlitEngine;
pub use measure::{MeasureError, Measured, measure};
pub use settings::{Arbitration, Credits, Settings, SettingsError};
pub use traffic::{Traffic, TrafficError};
