//! A plan: what a runtime and an optical controller execute (SWOT, Section 3.3).
//!
//! Two tracks. The controller's: when which circuits of a plane are set. The nodes': what each sends,
//! to whom, over which plane, not before when, and after what. Circuits are of one direction: node
//! `a`'s transmitter to node `b`'s receiver. Both a collective's [`Schedule`](super::Schedule) and an
//! all-to-all's become a plan; what executes plans needs to know nothing else.
//!
//! [`Plan::check`] replays a plan port by port. Checked: every corruption of valid plans is found.

mod check;
mod tracks;

pub use check::{PlanError, Wanted};
pub use tracks::{Circuits, Dimension, NO_PORT, Plan, Reconfiguration, Transmission, in_line};
