//! MixNet's decisions for one region and one all-to-all: from demand to circuits ([`allocate`]),
//! from circuits to ports ([`assign`]), from ports to routes ([`Router`]).
//!
//! Also TopoOpt's panel ([`topoopt`]), whose circuits stand for a whole job.
//!
//! Every function here maps what is wanted, and what stands, to a plan. None reads a clock, draws a
//! random number or knows an engine, so the simulator, a controller and a runtime can call the same
//! code; the same input gives the same plan, on any machine. Indices are checked by whoever builds
//! them (fabrics and placements, from validated specifications); one out of range is a caller's
//! error, and panics as each function's documentation says.
//!
//! A region is the servers that share an optical switch. Its servers are numbered from 0, and so
//! are the GPUs, NICs and optical ports of a server.
//!
//! ```
//! use lightloom_circuits::*;
//! // Three servers of two GPUs; NIC 0 is on packet switches, NIC 1 is optical.
//! let layout = Layout {
//!     servers: 3,
//!     gpus_per_server: 2,
//!     packet_nics: vec![0],
//!     optical_nics: vec![1],
//!     nic_gpu: vec![0, 1],
//! };
//! let all_to_all = [(0, 2, 900), (1, 4, 50), (3, 1, 700), (2, 3, 10)];
//! let demand = ServerDemand::from_gpu_demand(3, 2, all_to_all);
//! let ports = assign(&allocate(&demand, &[1; 3], true), &PortMap::dark(3, 1), &[0]);
//! assert_eq!(ports.peer(0, 0), Some((1, 0)));
//!
//! let mut router = Router::default();
//! let rates = RouteOptions { share_eps: false, optical_bps: 400, packet_bps: 400 };
//! let routing = router.route(&all_to_all, &ports, &layout, &rates);
//! // Servers 0 and 1 have the circuit; what goes to server 2 goes over packet switches.
//! let hop = |from, to, circuit, bytes| Hop { from, to, circuit, bytes };
//! let hops =
//!     [hop((0, 1), (1, 1), true, 900), hop((0, 0), (2, 0), false, 50), hop((1, 1), (0, 1), true, 700)];
//! assert_eq!(routing.exchange, hops);
//! // GPU 0's bytes for server 1 first go to GPU 1, whose NIC has the circuit, and so on.
//! assert_eq!(routing.gather[0], Leg { server: 0, from: 0, to: 1, bytes: 900 });
//! ```

mod change;
mod choose;
mod delegation;
mod demand;
pub mod failover;
mod greedy;
mod inside;
mod over;
mod ports;
pub mod predict;
mod rows;
mod search;
mod timed;
pub mod topoopt;

pub use change::{Prospect, settle, total_time};
pub use choose::choose;
pub use delegation::{Hop, Layout, Leg, Part, RouteOptions, Router, Routing, route};
pub use demand::ServerDemand;
pub use greedy::{CircuitCounts, allocate};
pub use inside::{Inside, InsidePlan};
pub use over::assign_over;
pub use ports::{PortMap, assign, changed_ports, new_circuits};
pub use timed::{Rates, TimedDemand, all_to_all_time};
