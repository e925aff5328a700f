//! RailS: which rail each chunk of an all-to-all takes.
//!
//! Modelled: domains of N GPUs with a NIC each; NIC `n` of every domain is on rail `n`, and bytes
//! that leave on a rail land on the same rail. What each GPU sends is cut into chunks, and each
//! domain deals the chunks of all its GPUs to its rails, the largest first, each to the least loaded
//! ([`lpt`]: RailS, Algorithm 2). Loads begin at zero with each all-to-all; what earlier ones measured
//! weighs rails ([`Rates`]). [`balance`] measures what comes of it at both ends, and has the variant that
//! looks at both.
//! Ignored: the scale-up network, which RailS takes as free; what other traffic does to a rail.
//! Checked: Theorems 1, 2 and 4, and what Theorem 3 needs, as properties and against brute force.

pub mod balance;
mod deal;
pub mod lpt;
mod rates;
#[cfg(test)]
mod theorems;

pub use balance::{RailAssignment, assign, mse};
pub use deal::Deal;
pub use lpt::{Lpt, Message};
pub use rates::Rates;
