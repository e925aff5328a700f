//! Parallel optical planes: plans carried out on them, and training iterations.

pub(crate) mod execute;
