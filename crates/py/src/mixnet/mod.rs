//! MixNet: what its circuits are chosen from and by.

pub(crate) mod ahead;
pub(crate) mod decide;
pub(crate) mod emulate;
pub(crate) mod predict;
pub(crate) mod rule;
