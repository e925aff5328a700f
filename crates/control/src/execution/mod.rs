//! Plans and port maps carried out: devices are loaded, then set step by step while nodes send.
//!
//! An [`Execution`] drives any number of optical switches, each of which holds one device of the maps or
//! several (planes of a plan, RailX's switches), through these phases:
//!
//! 1. *Meet*: every switch is read. What is found is put out before anything is changed.
//! 2. *Load*: every device is brought to its initial circuits, so many switches at a time, and read
//!    back. Circuits that are found and wanted are never touched. If one fails, all are taken back.
//! 3. *Run*: a setting begins when its time has come, the one before it on its device has begun, every
//!    port that it waits for has said that it has done, and none of its ports is still dark. Nodes are
//!    told that its circuits stand when they were read back, and not before.
//! 4. *Fall back*: when a switch or a node fails for good, nothing more is changed. Nodes stop; what
//!    stands and was verified is left to whoever comes next.
//!
//! A switch that is away delays what is set on it; circuits that stand carry on. Late switches and nodes
//! delay the plan and never corrupt it (SWOT, Section 3.3; RailX, Section 5.2).
//!
//! Modelled: one order at a time to each switch, a change and then a reading; streams that break, late
//! answers, refusals, switches that say what is not so. Ignored: what a switch does that nobody asked
//! for, between two audits. Checked: below; nothing is ever sent into the dark, with random faults.

mod limits;
mod machine;
mod maps;
mod node;
mod view;
mod work;

#[cfg(test)]
mod node_tests;
#[cfg(test)]
mod tests;

pub use limits::Limits;
pub use machine::{Ending, Execution, Input, Output, Place, Task};
pub use maps::{Circuit, DeviceMaps, Made, MapsError, PortMaps, Setting, Standing};
pub use node::{NodeRun, Plan, PlanError, Readiness, Transmission};
pub use view::{NodeReport, NodeView, PortView, Stage};
