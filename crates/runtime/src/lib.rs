//! The runtime of a server: it moves the bytes of collectives over the server's NICs.
//!
//! [`exchange`] is the machine without I/O: chunks, acknowledgements, circuits that come and go, peers that
//! die. It gets the time and what has come, and says what to send; sockets, clocks, threads and memory are
//! the caller's. [`net`] is such a caller: TCP, a clock and a thread around the machine.
//! [`path`] asks the decisions which NIC each chunk takes, [`collective`] says what servers exchange and compute
//! for a collective, and [`ranks`] serves the processes of a server, which share its NICs. [`planned`] has a member's
//! part of a collective whose messages are planned step by step, for circuits that change in between.

pub mod collective;
pub mod exchange;
pub mod net;
pub mod path;
pub mod planned;
pub mod planted;
pub mod ranks;
