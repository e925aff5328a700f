//! The ranks of a server and the one runtime that they share: processes without a NIC, and the owner of all NICs.
//!
//! A rank is a process. It shares memory with its server's runtime (its *arena*) and asks over a Unix socket, a line of
//! JSON at a time. Collectives of ranks become operations between servers: what all ranks of a server send to all ranks
//! of another goes as one, cut into chunks by a [`crate::path::Path`], from and into the arenas without a copy; what
//! stays in the server is copied meanwhile. Reductions are made in one rank's arena, between servers by a
//! [`crate::collective::Program`], and copied to the others.
//!
//! Modelled: all-to-all, all-reduce, reduce-scatter, all-gather, broadcast, barrier, send and receive; groups of any
//! ranks in rising order; any number under way. Collectives of a group begin in the order in which every member calls
//! them. A rank that ends without a word fails its groups, at all servers. A demand is told to the agent once all ranks
//! of the server have said theirs, and answered when its circuits stand, or after 5 s.
//! Ignored: ranks that may not be trusted with each other's bytes: all are of one user.
//! Checked: `tests/ranks.rs`: every collective among servers of several ranks, from Unix sockets to TCP; ranks that
//! die, ask nonsense, do not read.

mod agent;
mod arena;
mod counters;
mod group;
mod heard;
mod job;
mod line;
mod message;
mod operation;
mod service;
mod watch;
mod work;

pub use agent::{FromAgent, ToAgent};
pub use counters::{Counters, NicCounters, PeerCounters};
pub use job::{Job, NicPlace, Server};
pub use service::{Service, ServiceError};
pub use watch::Watch;
