//! MixNet: what its circuits are chosen from and by.

pub(crate) mod decide;
pub(crate) mod predict;
pub(crate) mod rehearse;
pub(crate) mod rule;
