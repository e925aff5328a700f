//! Sockets, a clock and a thread around [`Exchange`](crate::exchange::Exchange).
//!
//! A [`Node`] is an endpoint that runs. Its one thread has a listener at each NIC, dials lanes from the NIC here to the
//! NIC there, and moves bytes between sockets and the memory of operations, with no copy between. Calls
//! come to it by a queue; what happens is told by calls on its thread.
//!
//! Modelled:
//! - **Turns.** A connection moves a bounded number of bytes, then it is another's turn.
//! - **What the kernel keeps.** A fence waits for all that was written, so little is written ahead of the
//!   network: [`Tcp::send_buffer`]. A connection that is closed is reset: the kernel sends nothing more of it.
//! - **Strangers.** Those that have not said hello are few, by address and in all, and more of them push out the
//!   oldest of them, never a peer; addresses of no peer are slowed down. If files run out, nobody is let in for
//!   a moment, and nothing else stops.
//! - **Memory.** It is the caller's, lent by [`Memory`] until `done`. A failure hands it back at once: no byte is read
//!   or written there afterwards.
//! - **The end.** A node that is dropped gives up groups with operations under way, tells their members, acknowledges
//!   what has come, for [`Config::last_words`] at most, and closes.
//!
//! Ignored: NICs whose addresses change. A lease ends in the machine to the nanosecond, so nothing is
//! written after it; what the kernel had by then is reset within a millisecond and what the thread is late.
//! The filter of `lightloom-tc` at the NIC is exact.
//!
//! Checked: `tests/net.rs`, on sockets of this computer, with a transport that moves a few bytes at a time, a proxy that
//! cuts connections, peers that end and start again, and strangers.
//!
//! ```
//! use lightloom_runtime::exchange::{LaneId, LaneSpec, Medium, Settings, Transfer, striped};
//! use lightloom_runtime::net::{Config, Listening, Memory, Node, NicConfig};
//! // Two endpoints, a NIC each, one packet lane.
//! let listen = || Listening::bind(vec![NicConfig::at("127.0.0.1:0".parse().unwrap())]).unwrap();
//! let (here, there) = (listen(), listen());
//! let (at_here, at_there) = (here.addresses()[0], there.addresses()[0]);
//! let open = |me: u16, listening, peer_at| {
//!     let settings = Settings::new(7, me, 1, b"the job's secret");
//!     let lane = LaneSpec { peer: 1 - me, nic: 0, peer_nic: 0, medium: Medium::Packet, way: 0 };
//!     let node = Node::open(Config::new(settings, vec![(lane, peer_at)]), listening, |_event| {}).unwrap();
//!     node.join(1, vec![(0, 1), (1, 1)]).unwrap();
//!     node
//! };
//! let (a, b) = (open(0, here, at_there), open(1, there, at_here));
//! // Endpoint 0 sends 5 bytes; endpoint 1 expects them.
//! let memory = Memory::owned(vec![(1, b"hello".to_vec())], vec![]);
//! let plan = |_: &_| striped(1, 5, &[LaneId(0)], 1024);
//! a.post(1, 0, vec![Transfer { peer: 1, bytes: 5 }], vec![], plan, memory, |_done| {});
//! let (done, result) = std::sync::mpsc::channel();
//! let memory = Memory::owned(vec![], vec![(0, 5)]);
//! let tell = move |result| done.send(result).unwrap();
//! b.post(1, 0, vec![], vec![Transfer { peer: 0, bytes: 5 }], |_| vec![], memory, tell);
//! let memory = result.recv().unwrap().unwrap();
//! assert_eq!(memory.into_received(), [(0, b"hello".to_vec())]);
//! ```

mod carry;
mod clock;
mod command;
mod config;
mod doors;
mod gate;
mod landings;
mod listening;
mod low_water;
mod memory;
mod node;
mod outputs;
mod reactor;
mod sockets;
mod tcp;
mod transport;

pub use clock::{Clock, boottime_ns};
pub use config::{Config, Event, JoinFailure, NicConfig, OpenError, PostFailure};
pub use landings::Landings;
pub use listening::Listening;
pub use memory::{Memory, MemoryError};
pub use node::Node;
pub use tcp::Tcp;
pub use transport::{Moved, Stream, Transport};
