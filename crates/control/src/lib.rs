//! The control plane without I/O: what drives an optical switch, and what is driven.
//!
//! Everything here is a state machine that is told what time it is and what has come, and says what
//! to send; sockets, clocks and files are the caller's. The daemon, the simulator and the
//! fault-injecting tests run the same machines.

pub mod conformance;
mod driver;
mod journal;
mod message;
pub mod ocs;
pub mod netconf;
mod region;

pub use driver::{Answer, Driver, DriverEvent, Order, Patch};
pub use journal::{Intent, Memory, Record};
pub use message::{Demand, Directive, Mark, Part, PortId, Report, Stage};
pub use region::{Region, RegionError};
