//! A node of a plan that moves bytes: [`lightloom_control::execution::NodeRun`] says what may be sent over which
//! circuit, [`lightloom_runtime::net`] sends it.
//!
//! Modelled: a node has two ways for each plane: what it sends over the plane's circuit, and what comes over its
//! peer's. Circuits are of one direction, so acknowledgements of what came take the packet NICs: that is how the
//! network routes the address that the node receives at. Nothing is sent that the execution has not said to stand, within
//! a lease; a circuit may end once all that was sent over it is acknowledged and its port is drained. When there can be no circuits any
//! more, all that is left takes packet NICs, in the plan's order, and the record says why.
//! What is sent is a file's, or bytes of [`pattern`], of which every one is checked. Ignored: ranks.
//! Checked: `tests/test_testbed_plan.py`.

mod arguments;
mod carrier;
mod job;
mod pattern;
mod posting;
mod record;
mod standing;

pub use arguments::CarryArguments;
