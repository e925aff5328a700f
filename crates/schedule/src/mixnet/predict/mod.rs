//! What the next layer's gate will decide, before it has (MixNet, Section 5.1 and Appendix B.1).

mod linear;
mod transition;

pub use transition::{Sample, Transition, Warm};
