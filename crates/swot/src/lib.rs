//! SWOT: when each optical plane switches while a collective runs.
//!
//! `k` planes join the same nodes; on each, every node has one port at `1/k` of its rate, and the
//! plane holds one configuration at a time. A collective is a sequence of steps, each with the
//! configuration it needs and the bytes that every node then sends. A [`Problem`] says this, a
//! scheduler answers with a [`Schedule`], and `replay` checks the answer against
//! the problem, knowing nothing of how it was found.
//!
//! Modelled, as in the paper's Table 1 and P1-P3: a plane carries part of a step only while it holds
//! the step's configuration; switching takes `reconfiguration` and may begin as soon as the plane's
//! last transmission has ended; steps are separated by a barrier over all planes, but for those that
//! begin together (several configurations in one step, beyond the paper); a transmission takes
//! `latency` once, and its bytes at the plane's rate. Ignored: data dependencies finer than the
//! barrier, and control-plane time.
//!
//! Source: SWOT, Section 3.

pub mod alltoall;
mod beam;
mod exact;
mod lp;
mod overlap;
mod pattern;
pub mod plan;
mod problem;
mod replay;
mod simple;

pub use overlap::{Effort, overlap};
pub use problem::{Held, Planes, Problem, ProblemError, Schedule, Solution, Step, Switch, Use};
pub use replay::{Violation, replay};
pub use simple::{Parts, TooFewPlanes, earliest, ideal, lockstep, one_shot};
