//! Plans for whoever asks: a collective's or an all-to-all's, by each scheduler, as a plan file has
//! them.
//!
//! Every schedule is replayed, and every plan checked port by port, before it is returned; one that
//! fails is an error, for a scheduler is wrong then. Nothing is decided here.

mod alltoall;
mod check;
mod collective;
mod error;
mod spans;
mod tracks;

pub use alltoall::{AllToAllPlans, AllToAllSpec, Circuits, SwitchingRow, plan_alltoall};
pub use check::{Task, check_plan};
pub use collective::{
    CollectivePlans, CollectiveSpec, Given, Initial, Row, Scheduler, algorithms, plan_collective,
};
pub use error::PlanningError;
pub use tracks::Tracks;
