//! The runtime of a server: it moves the bytes of collectives over the server's NICs.
//!
//! [`exchange`] is the machine without I/O: chunks, acknowledgements, circuits that come and go, peers that
//! die. It gets the time and what has come, and says what to send; sockets, clocks, threads and memory are
//! the caller's.

pub mod collective;
pub mod exchange;
pub mod path;
pub mod planted;
pub mod ranks;
