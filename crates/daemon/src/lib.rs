//! The daemons of the control plane: sockets, clocks and files around the machines of
//! `lightloom-control`.

pub mod agent;
mod agent_child;
pub mod auth;
pub mod border;
pub mod clock;
pub mod config;
pub mod controller;
pub mod emulate;
pub mod execution;
mod exposition;
pub mod failure;
pub mod fence;
pub mod filter;
pub mod gateway;
pub mod grpc;
pub mod hub;
pub mod journal;
pub mod limits;
pub mod ocs;
pub mod own_token;
pub mod preset;
pub mod proto;
pub mod reload;
pub mod runtime;
pub mod runtime_emulator;
pub mod serve;
pub mod show;
pub mod tls;
pub mod trail;
pub mod wire;
