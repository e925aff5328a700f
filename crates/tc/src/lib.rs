//! Programs in the kernel's traffic control. They look at every frame, whatever processes do that are
//! stopped, and whatever the kernel sends again by itself.
//!
//! - [`assembler`]: instructions, written down and given labels;
//! - [`bpf`]: the system call: maps, programs, where they are attached, and pins that keep them;
//! - [`lease`]: the filter of an optical NIC: nothing leaves after the lease's end;
//! - [`crossbar`]: an optical switch: frames go where circuits lead, while these are lit.
//!
//! Programs are assembled here: there is no compiler, object file or library to have. Attaching needs Linux
//! 6.6, and the rights of root or CAP_BPF and CAP_NET_ADMIN. Nothing else in this house asks for either.

pub mod assembler;
pub mod bpf;
pub mod crossbar;
pub mod lease;

pub use bpf::Error;
pub use crossbar::{Crossbar, Light, Passed};
pub use lease::{LeaseFilter, PortState};
