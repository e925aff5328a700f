//! What is sent, and when it may start: models, parallelism, pipelines, gating, the task graph.
//!
//! [`build`] turns a [`Job`] and a [`Gating`] into a [`TaskGraph`]: one task for each thing that a
//! block of GPUs computes or sends in one training iteration. Nothing here knows a network or a
//! clock: durations of compute tasks come from a roofline or from measured times, those of
//! communication tasks from an engine.
//!
//! ```
//! use lightloom_workload::{Gating, build, example};
//! use lightloom_units::Time;
//! let job = example::mixtral_8x7b();
//! let gating = Gating::uniform(&job.model, &job.parallelism, &job.training)?;
//! let graph = build(&job, &gating)?;
//! // On an infinitely fast network, one iteration is 19 pipeline steps of a third of a second.
//! let seconds = graph.longest_path(|_| Time::ZERO).expect("acyclic").as_secs_f64();
//! assert!((6.0..8.0).contains(&seconds), "{seconds}");
//! # Ok::<(), lightloom_workload::WorkloadError>(())
//! ```

mod again;
mod apportion;
mod assembly;
mod attention;
mod besides;
mod choice;
pub mod collective;
mod component;
mod compute;
mod copies;
mod curve;
mod dag;
mod error;
mod estimate;
pub mod example;
mod exchange;
mod folding;
mod gating;
mod job;
mod kernel;
mod kernels;
mod memory;
mod model;
mod near;
mod overlap;
mod parallelism;
mod pipeline;
mod products;
mod profile;
mod recompute;
mod rounds;
mod serving;
mod shapes;
mod split;
mod training;
mod volume;

pub use assembly::build;
pub use attention::{Attention, Bias};
pub use component::{Component, Origin};
pub use compute::{Compute, Measured};
pub use copies::{Copies, DispatchCopies, GroupLimit};
pub use dag::{Comm, Csr, Message, NO_COMM, TaskGraph, TaskKind};
pub use error::WorkloadError;
pub use estimate::Rates;
pub use exchange::{Deadlock, all_to_all, messages, steps, sum};
pub use gating::{Gating, MatrixId};
pub use job::Job;
pub use kernel::{Kernel, Kernels, Precision, Product, Scores};
pub use memory::{Holds, JobMemory, Memory, Shard, StageMemory};
pub use model::Model;
pub use parallelism::{Axis, BlockId, Coordinates, Parallelism, Placement, Scope};
pub use pipeline::{Pass, Schedule, Slot, layers_of, pipeline_order};
pub use products::{Efficiency, MatmulTime, Products, ScoresTime};
pub use profile::{ComputeOrigin, Profile};
pub use recompute::{Module, Recompute};
pub use training::{Mode, Overlap, Training};
pub use volume::Volumes;
