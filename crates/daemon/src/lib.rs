//! The daemons of the control plane: sockets, clocks and files around the machines of
//! `lightloom-control`.

pub mod hub;
