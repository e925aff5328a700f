//! The interface of every engine.
//!
//! An engine takes a [`Scenario`] (a fabric and a graph of tasks), asks a [`Policy`] what to send
//! whenever a transfer's turn comes, tells an [`Observer`] what happens, and returns an
//! [`Outcome`]. It decides nothing itself: routes, circuits and reconfigurations are the policy's
//! orders, given at a simulated time. Engines read neither clocks nor random numbers; ties at one
//! picosecond are handled in the order of insertion, so one scenario has one outcome.
//!
//! A new engine implements [`Engine`] on a [`Ledger`], which keeps its books, and passes the shared
//! suite:
//!
//! ```ignore
//! lightloom_engine::conformance!(MyEngine::default());
//! ```

mod circuits;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod engine;
mod error;
mod incident;
mod ledger;
mod orders;
mod outcome;
mod parts;
mod queue;
mod shared;
mod tasks;
mod transfers;

pub use circuits::Circuits;
pub use engine::{Engine, Policy, Scenario};
pub use error::EngineError;
pub use incident::Incident;
pub use ledger::books::{Books, Renamed};
pub use ledger::{Due, Ledger, LinkChanges, Sending, Step, Wake};
pub use orders::{FlowOrder, Orders, Patch, Patches, Phase};
pub use outcome::{Observer, Outcome, PacketLink, Packets, QueueSample, Reconfiguration, Silent};
pub use parts::Parts;
pub use queue::EventQueue;
pub use shared::Shared;
pub use tasks::{NOT_A_TRANSFER, TaskId, Tasks};
