//! The controller of a region: from demand to circuits that are verified, one plan at a time.
//!
//! A plan goes through *decide* (the caller answers a [`Question`]), *drain* (agents hold the ports that
//! will change), *patch* (the switch is told), *verify* (what stands is read back), *resume* (agents use
//! what was read). Circuits that a plan does not touch are used throughout.
//!
//! - Ports of a server that falls silent, that reports a dead NIC, GPU or fibre, or whose patches do not
//!   follow, leave the candidates, and the region is planned anew (MixNet, Section 5.4). A silent server
//!   is waited for until its lease has ended: then it has stopped by itself.
//! - A switch that does not answer in time, or makes no sense, is not trusted: every circuit of it is
//!   withdrawn, which leaves the region on packet switches, and an alarm raised. What was sent to it may
//!   yet be carried out; after [`Settings::lifetime`] it is read, and what legal circuits it holds are
//!   taken over.
//! - Of several switches, a plan's are told at once, and its circuits used when all were read back. If one fails
//!   meanwhile, the plan is given up: the others are read, and what they hold is taken over. Plans go on without a
//!   switch that is away; what stood on it when it was last read stays in use as long as only its stream is gone.
//! - After a crash the same happens with what the [`Memory`] of the journal says: what the switch holds
//!   is read and taken over; circuits that were verified and still stand are never interrupted.
//!
//! - A controller that sees circuits that another one made stops, until an operator says that it is alone.
//!
//! Modelled: one region on one switch or several; several tenants, whose rounds are their own. Ignored: circuits
//! that stand on a switch that is away, when others are decided on; what two
//! controllers do before either has read the switch; the caller sees to it that there is one (the daemon locks its
//! journal).
//! Checked: the fault-injecting world of `lightloom-soak`.

mod agents;
mod claims;
mod io;
mod machine;
mod phase;
mod plan;
mod record;
mod rival;
mod share;
mod site;
mod status;
mod switch;
mod view;

pub use io::{ControllerEvent, Input, Output};
pub use machine::Controller;
pub use view::{
    CircuitView, Counters, DemandView, Reconfiguration, ServerView, Status, SwitchView,
};
