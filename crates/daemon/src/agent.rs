//! A server's agent at work: [`lightloom_control::Agent`] with a stream to its controller.
//!
//! Modelled: the stream is opened anew whenever it breaks, after waits that double; all that is sent
//! over it is the latest report, all that is kept of what comes the latest view, so nothing piles up
//! at a runtime that is slow to look. Leases end here, whatever the stream does.
//! Ignored: draining itself, which the data plane does.
//! Checked: against real controllers that are killed and come back (`tests/all/controller/kill.rs`).

mod client;
mod controller;
mod line;
mod link;

pub use client::{AgentClient, Use, View};
pub(crate) use controller::Bearer;
pub use controller::Controller;
pub use line::AgentArguments;
