//! The control plane without I/O: what drives an optical switch, and what is driven.
//!
//! Everything here is a state machine that gets the time and what has come, and says what
//! to send; sockets, clocks and files are the caller's. The daemon, the simulator and the
//! fault-injecting tests run the same machines.

mod agent;
mod alarm;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod controller;
mod driver;
pub mod drivers;
mod emulated_region;
pub mod execution;
pub mod fence;
mod journal;
mod message;
pub mod ocs;
pub mod planted;
pub mod protocol;
mod region;
mod runtime;
mod settings;

pub use agent::{Agent, AgentOutput, AgentSettings, Open};
pub use alarm::Alarm;
pub use controller::{
    CircuitView, Controller, ControllerEvent, Counters, DemandView, Input, Output, Reconfiguration,
    ServerView, Status, SwitchView,
};
pub use driver::{Answer, Driver, DriverEvent, Order, Patch};
pub use emulated_region::{Decide, EmulatedRegion, RegionChange, Round, Step, Traced};
pub use journal::{Doubt, Memory, Record};
pub use message::{Demand, Directive, Mark, PortId, Report, ServerPart, Stage};
pub use region::{Region, RegionError, SwitchPort};
pub use runtime::{Runtime, RuntimeOutput, Use};
pub use settings::Settings;
