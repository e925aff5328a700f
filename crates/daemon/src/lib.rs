//! The daemons of the control plane: sockets, clocks and files around the machines of
//! `lightloom-control`.

pub mod auth;
pub mod failure;
pub mod gateway;
pub mod hub;
pub mod ocs;
pub mod tls;
pub mod wire;
