//! Every test of the interfaces of this crate, in one program: linking costs more than compiling.

mod controller;
mod gateway;
mod manual;
mod ocs;
mod ocs_tls;
mod ocs_wire;
