//! Scenarios in which everything goes wrong, and what must be true all the same.
//!
//! Modelled: one controller with a journal, agents with clocks, data planes that know what their agents
//! tell them and no more, an optical switch that is spoken to in TL1, NETCONF or a line protocol, all under one clock;
//! everything that is random comes from one seed. Messages
//! are lost, late, doubled and overtaken; streams break at any byte, and commands are carried out
//! afterwards; controller, agents and data planes crash, between any two acts, and start again; agents and
//! data planes freeze, apart or together, data planes do not read, and lines between the two are late;
//! servers are cut off; clocks differ; parts fail; the switch is slow, silent, says no and means yes,
//! says yes while its mirrors stick, drops circuits, starts anew, and is used by others. After every
//! step all [`INVARIANTS`] are checked. Then faults stop, and all must come to rest in agreement.
//! A controller is stopped and goes on; journals are torn, lost and restored from old backups; another controller makes circuits.
//! Ignored: more than 8 servers; a second controller that agents obey, too.
//! Checked: bugs that are planted in controller, agent and data plane are found.

mod acts;
mod chance;
mod checks;
mod draw;
mod event;
mod faults;
mod happen;
mod invariants;
mod lies;
mod line;
mod line_server;
mod lives;
#[cfg(feature = "testing")]
mod mutants;
mod node;
mod pause;
mod plan;
mod plane;
mod protocol;
mod rest;
mod run;
mod server;
mod share;
mod summary;
mod world;

pub use invariants::{INVARIANTS, Invariant};
#[cfg(feature = "testing")]
pub use mutants::{Hunt, hunt};
pub use run::{Failure, run, run_many, trace};
pub use summary::Summary;
