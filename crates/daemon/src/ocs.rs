//! An optical switch, emulated, on TL1 over TCP or TLS.
//!
//! Modelled: the switch of `lightloom_control::ocs` behind `lightloom_control::drivers::tl1`, at the pace of the
//! clock; many sessions at once; patches that outlive the process, in a file, as those of a real switch
//! outlive its controller; what goes wrong, as [`Fault`]s. A session that is not let in, says nothing
//! or does not read is closed in time, and what waits for it is bounded; frames between NICs at its ports, which
//! go where patches lead. Ignored: light in fibres; nothing shines
//! on its ports. Checked: `tests/all/ocs.rs`.

mod arguments;
mod emulator;
mod fault;
mod kept;
mod light;
mod session;
mod shared;

pub use arguments::ServeArguments;
pub use emulator::{Emulator, Settings};
pub use fault::{Fault, FaultKind};
pub use light::{CountsArguments, CrossbarKind, Wiring};
