//! Several jobs on one fabric: each on servers of its own, from a start of its own, for so many
//! iterations; they meet on the switches between servers.
//!
//! Modelled: the task graphs of all jobs as one, run once on one fabric by one engine. A job's ranks
//! run on the servers that it was given, in their order; its medium and its decisions are its own and
//! know of no other job. On MixNet a region belongs to one job.
//! Ignored: jobs that come and go while others wait for servers; what a scheduler would do about
//! contention; storage and other traffic.
//! Checked: one job on all servers takes what it takes by itself; bytes of a job are the same alone and
//! together; two all-to-alls over one link take twice as long in phase and no longer out of phase;
//! `tests/all/jobs.rs`, `tests/test_jobs.py`.

mod graph;
mod leaves;
mod outcome;
mod place;
mod policy;
mod run;
mod site;
mod spec;
mod tables;

pub use outcome::{JobRun, JobsRun};
pub use place::Places;
pub use spec::{JobsSpec, PlacePolicy, Servers, SharedJob};
