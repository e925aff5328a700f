//! Every test of the interfaces of this crate, in one program: linking costs more than compiling.

mod golden;
mod jobs;
mod packets;
mod traffic;
