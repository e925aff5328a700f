//! Port maps carried out: `lightloomd controller load` and `run`, and nodes that follow a plan: emulated, or with
//! bytes.
//!
//! The decisions are those of [`lightloom_control::execution`]; here are its switches' streams, its nodes'
//! calls, its clock and its files.

mod arguments;
mod bytes;
mod link;
mod nodes;
mod runner;
mod service;
mod wire;

pub use arguments::{ExecuteArguments, NodeArguments};
pub use bytes::CarryArguments;
pub use nodes::{Followers, Sent};
pub use runner::{Outcome, Runner};
