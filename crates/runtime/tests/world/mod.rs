//! Scenarios in which everything goes wrong, and what must be true all the same.
//!
//! Modelled: 2 to 4 endpoints with 1 to 4 NICs, each on packet switches or on an optical switch; connections
//! that are late, hold little, break at any byte, are heard of late or never; endpoints that freeze, crash and
//! start again, are cut apart, are declared lost; circuits that are drained, go dark and come elsewhere, leases
//! that end; groups with uneven and empty operations, posted early and late, given up, or at odds; strangers. One
//! clock; everything random comes from one seed. After every step all [`INVARIANTS`] are checked; then faults stop,
//! and all must come to an end.
//! Ignored: clocks that differ, and bytes that change on the wire.

mod acts;
mod chance;
mod event;
mod faults;
mod group;
mod invariant;
mod memory;
mod node;
mod optics;
mod plans;
mod scenario;
mod shape;
mod stranger;
mod wire;
mod work;

#[allow(unused_imports, reason = "one of those who include this prints them")]
pub use invariant::INVARIANTS;
pub use scenario::run;
