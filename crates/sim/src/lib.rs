//! The facade: a resolved specification and a gating trace in, tables out.
//!
//! Here decisions meet engines: a medium answers an engine's questions with what
//! `lightloom-circuits`, `-swot`, `-rails` and `-railx` decide, and holds no decision of its own.

mod all_to_all;
mod beside;
mod bound;
mod carried;
mod carrier;
mod collective;
mod critical;
mod demand;
mod emulate;
mod error;
mod evenly;
mod execute;
mod failures;
mod flits;
mod jobs;
mod kinds;
mod marks;
mod medium;
mod merged;
mod mixnet;
mod moves;
mod nics;
mod outline;
mod pace;
mod packets;
pub mod plan;
mod quickest;
mod rails;
mod railx;
mod record;
mod sender;
mod simulate;
mod spec;
mod table;
mod tables;
mod traffic;

pub use beside::{Beside, Kept};
pub use bound::Bounds;
pub use collective::{Given, names as collective_algorithms};
pub use critical::Breakdown;
pub use demand::DemandRecord;
pub use emulate::{EmulatedRun, RegionSpec, RoundReports, RoundResult, emulate_region};
pub use error::SimError;
pub use execute::{PlanRun, PlaneUse, run_plan, run_plan_on};
pub use failures::{FailedPart, Failure, Wired};
pub use flits::{FlitSpec, Flits, NetworkSpec, TrafficSpec};
pub use jobs::{JobRun, JobsRun, JobsSpec, PlacePolicy, Places, Servers, SharedJob};
pub use kinds::kinds;
pub use mixnet::{Coming, lookahead};
pub use moves::{Message, Messages, messages};
pub use nics::{Carried, NicsSpec, alltoall_nics};
pub use outline::Outline;
pub use quickest::{Levels, quickest};
pub use rails::{Collective, RailsFabric, RailsRun, RailsSpec, Spines, rails, rails_assign};
pub use railx::{AllReduceEngine, AllReduceSpec, all_reduce_time as railx_all_reduce};
pub use record::{Histogram, Progress};
pub use simulate::{Run, TraceCounts, Workload, fabric_without_circuits};
pub use spec::{CollectiveWork, EngineSpec, GatingSpec, Record, Redraw, Spec, Training, Work};
pub use table::{Column, Table};
