//! Moves the chunks of collectives between endpoints, over lanes.
//!
//! An *endpoint* is one process that owns NICs of a server. A *lane* joins one of its NICs to one NIC of a
//! peer, over packet switches or over a circuit. It is a reliable ordered stream of bytes while its
//! connection lives; the connection may break at any byte, and another one takes its place. An *operation* is
//! this endpoint's part of one collective of a group: what it sends to each peer and what it expects from
//! each. Its *plan* says which chunk takes which lane.
//!
//! Modelled:
//! - **Place.** A chunk has its offset in the receiver's memory, so lanes need no common order. Before each
//!   read the caller asks [`Exchange::space`] where the bytes go. The answer is the memory of an operation only
//!   while that operation is under way here and the chunk has not arrived: nothing late or doubled touches memory
//!   that was handed back.
//! - **Acknowledgements.** The receiver counts what has come over a connection as a whole and says the count.
//!   When a connection breaks, what was not acknowledged goes over other lanes; the receiver knows by the ranges
//!   of each source what it has.
//! - **Circuits.** [`lightloom_control::Runtime`] says which circuit may be used now. What is put on one is
//!   counted there until it is acknowledged, or its connection is gone. On a port that is drained the last
//!   frame is a mark; the port is drained once the mark is acknowledged. When a lease ends, no byte more is put on
//!   the circuit, and a connection with anything on it is closed.
//! - **Lanes that may not be used.** Chunks go over another lane to the same peer: the circuit with the fewest
//!   bytes in its queue, else the packet lane with the fewest. If no lane is up, they wait.
//! - **Relays.** Two endpoints that no lane joins any more have a connection through a third, which both reach: `tunnel.rs`
//!   has their part, `relay.rs` the third's. Its bytes are parts of frames of the lanes on the way, so each circuit counts
//!   them as its own; hello, acknowledgements and windows are from end to end.
//! - **Lives.** An endpoint's life is a number that rises with every start; the caller takes it from a counter
//!   that the job keeps. Hello tells it, with a proof by the job's secret, and a group is of endpoints in one life each. If
//!   a peer starts again, or is silent for too long, or the caller says that it is lost, every group with that life of
//!   it fails, here and on all its members: who learns it first tells the others. A group that has failed stays
//!   so; the job forms another one.
//!
//! Why nothing blocks for ever. A sender puts a chunk on a lane only if the receiver has a place for it: it
//! has posted the operation ([`frame::Frame::Ready`] says so), or the operation is small and lies within the
//! *allowance* of bounce memory that the receiver keeps for this sender. So the receiver always reads what
//! comes, into the operation's memory, into bounce memory, or into nothing, and no frame waits behind a
//! chunk that must wait. Allowance is taken when a small operation is sent and given back by its `Ready`, which the
//! receiver sends after it has emptied the bounce memory. So bounce memory stays within the allowance. What else is kept
//! of a peer that is ahead is a few words for each operation, of which an endpoint has at most [`OPERATIONS`];
//! a peer that goes beyond a bound has its connection closed. Every wait has an end: of a chunk for its
//! acknowledgement ([`Settings::stall`]), of a connection for its hello ([`Settings::handshake`]), for a peer that says
//! nothing ([`Settings::lost`]). An operation that a living peer never posts is waited for until the caller
//! gives up the group ([`Exchange::abort`]).
//!
//! Ignored: encryption, and whoever can change bytes on the wire: hello proves who is there when a connection
//! begins, and no more. A stranger who opens connections without end keeps peers out while he does so. A sum of
//! payloads: TCP has one. Ways over two relays. A peer that expects nothing of an endpoint that sends it something: what is
//! small is dropped there, what is not waits until the caller gives up; every other difference between what is
//! sent and what is expected fails the group. Clocks that differ: an endpoint uses one. Pairs without a packet
//! lane, and without a peer that reaches both, must have a circuit more often than `lost`.
//!
//! Checked: unit tests of every rule; an in-memory world of endpoints, lanes, circuits and faults from seeds
//! (`tests/world`), with what must hold after every step; bugs that are planted in the machine and found there
//! (`examples/exchange_mutants.rs`); the parser of frames on bytes at random.
//!
//! ```
//! use lightloom_runtime::exchange::*;
//! use lightloom_units::Time;
//! // Two endpoints, a NIC each, one packet lane.
//! let end = |endpoint: u16, peer: u16| {
//!     let settings = Settings::new(7, endpoint, 1, b"the job's secret");
//!     let lane = LaneSpec { peer, nic: 0, peer_nic: 0, medium: Medium::Packet, way: 0 };
//!     let mut end = Exchange::new(settings, vec![lane], Time::ZERO).unwrap();
//!     end.join(Time::ZERO, 1, &[(0, 1), (1, 1)]).unwrap();
//!     end
//! };
//! let (mut a, mut b) = (end(0, 1), end(1, 0));
//! let (a_end, b_end) = (a.dialed(Time::ZERO, LaneId(0), [1; 16]).unwrap(), b.accepted(Time::ZERO, 0, [2; 16]).unwrap());
//! // Endpoint 0 sends 5 bytes; endpoint 1 expects them.
//! let plan = striped(1, 5, &[LaneId(0)], 1024);
//! let bytes = |peer| vec![Transfer { peer, bytes: 5 }];
//! a.post(Time::ZERO, Operation { group: 1, number: 0, sends: bytes(1), receives: vec![], plan }).unwrap();
//! b.post(Time::ZERO, Operation { group: 1, number: 0, sends: vec![], receives: bytes(0), plan: vec![] }).unwrap();
//! let (source, mut target) = (*b"hello", [0; 5]);
//! let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
//! for _ in 0..4 {
//!     carry(&mut a, a_end, &source, &mut to_b); // what a socket and its caller do
//!     fill(&mut b, b_end, &mut to_b, &mut target);
//!     carry(&mut b, b_end, &[], &mut to_a);
//!     fill(&mut a, a_end, &mut to_a, &mut []);
//! }
//! assert_eq!(&target, b"hello");
//! let done = |end: &mut Exchange| std::iter::from_fn(|| end.poll()).any(|it| matches!(it, Output::Done { .. }));
//! assert!(done(&mut a) && done(&mut b));
//!
//! fn carry(from: &mut Exchange, connection: ConnectionId, memory: &[u8], wire: &mut Vec<u8>) {
//!     while let Some(Transmit { head, body }) = from.transmit(Time::ZERO, connection) {
//!         wire.extend_from_slice(head);
//!         let body = body.map_or(0..0, |it| it.offset as usize..it.offset as usize + it.length as usize);
//!         wire.extend_from_slice(&memory[body.clone()]);
//!         let sent = head.len() + body.len();
//!         from.sent(Time::ZERO, connection, sent);
//!     }
//! }
//!
//! fn fill(to: &mut Exchange, connection: ConnectionId, wire: &mut Vec<u8>, memory: &mut [u8]) {
//!     while !wire.is_empty() {
//!         let read = match to.space(connection).unwrap() {
//!             Space::Buffer(buffer) => {
//!                 let read = buffer.len().min(wire.len());
//!                 buffer[..read].copy_from_slice(&wire[..read]);
//!                 read
//!             }
//!             Space::Memory { offset, length, .. } => {
//!                 let read = wire.len().min(length as usize);
//!                 memory[offset as usize..][..read].copy_from_slice(&wire[..read]);
//!                 read
//!             }
//!             Space::Sink { length } => wire.len().min(length as usize),
//!         };
//!         wire.drain(..read);
//!         to.filled(Time::ZERO, connection, read);
//!     }
//! }
//! ```

mod cause;
mod connect;
mod connection;
mod early;
mod fail;
mod failure;
mod fence;
mod fields;
mod flow;
pub mod frame;
mod group;
mod hello;
mod lane;
mod load;
mod machine;
mod name;
mod operation;
mod output;
mod pace;
mod peer;
mod plan;
mod post;
mod ranges;
mod receive;
mod relay;
mod relayed;
mod route;
mod settings;
mod share;
mod slab;
mod spread;
mod statistics;
mod timers;
mod transmit;
mod tunnel;

pub use cause::Cause;
pub use failure::{Failure, JoinError, LaneError, PostError};
pub use flow::{Flow, Plan, SubFlow};
pub use hello::HelloError;
pub use machine::Exchange;
pub use name::{
    ConnectionId, Endpoint, LaneId, LaneSpec, Medium, NO_NIC, Nic, OperationId, Tunnel,
};
pub use output::{Body, Output, Space, Transmit};
#[cfg(test)]
pub(crate) use plan::check as check_plan;
pub use plan::{Chunk, Operation, PlanError, Transfer, striped};
pub use settings::{OPERATIONS, Settings, SettingsError};
pub use statistics::{FenceStatistics, Statistics};
