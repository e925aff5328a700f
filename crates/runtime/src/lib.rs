//! The runtime of a server: it moves the bytes of collectives over the server's NICs.
//!
//! [`exchange`] is the machine without I/O: chunks, acknowledgements, circuits that come and go, peers that
//! die. It gets the time and what has come, and says what to send; sockets, clocks, threads and memory are
//! the caller's. [`net`] is such a caller: TCP, a clock and a thread around the machine.

pub mod exchange;
pub mod net;
pub mod planted;
