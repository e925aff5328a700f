//! Programs in the kernel's traffic control. They look at every frame, whatever processes do that are
//! stopped, and whatever the kernel sends again by itself.
//!
//! - [`assembler`]: instructions, written down and given labels;
//! - [`bpf`]: the system call: maps, programs, where they are attached, and pins that keep them;
//! - [`lease`]: the filter of an optical NIC: nothing leaves after the lease's end;
//! - [`netlink`]: the kernel's route sockets: filters and redirections that need no program;
//! - [`crossbar`]: an optical switch: frames go where circuits lead, while these are lit; three of them, a file each.
//!
//! Programs are assembled here: there is no compiler, object file or library to have. Attaching needs Linux
//! 6.6, and the rights of root or CAP_BPF and CAP_NET_ADMIN. Nothing else in this house asks for either. The
//! crossbar without programs needs CAP_NET_ADMIN in the network namespace alone, which everybody has in one that
//! they have made (user namespaces).

pub mod assembler;
pub mod bpf;
mod bpf_crossbar;
pub mod crossbar;
pub mod lease;
mod memory_crossbar;
mod mirred_crossbar;
pub mod netlink;

pub use bpf::Error;
pub use bpf_crossbar::BpfCrossbar;
pub use crossbar::{Crossbar, Light, Passed};
pub use lease::{LeaseFilter, PortState};
pub use memory_crossbar::MemoryCrossbar;
pub use mirred_crossbar::MirredCrossbar;

/// What became of frames, by port, at the crossbar that has left its counts there.
///
/// # Errors
/// If none has.
pub fn counts(at: &std::path::Path) -> Result<Vec<Passed>, Error> {
    match at.is_file() && bpf::may_be_pinned(at).is_err() {
        true => MirredCrossbar::counts(at),
        false => BpfCrossbar::counts(at),
    }
}
