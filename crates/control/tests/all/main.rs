//! Every test of the interfaces of this crate, in one program: linking costs more than compiling.

mod claims;
mod controller;
mod demand;
mod netconf;
mod netconf_peer;
mod netconf_sessions;
mod objects;
mod ocs;
mod open_until;
mod replies;
mod switches;
mod tl1_conformance;
mod tl1_driver;
mod tl1_sessions;
mod woken;
