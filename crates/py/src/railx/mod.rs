//! RailX: one file a question, each from JSON to JSON as the stub says.

pub(crate) mod allocate;
pub(crate) mod build;
pub(crate) mod collective;
pub(crate) mod decompose;
pub(crate) mod map;
pub(crate) mod simulate;
pub(crate) mod tenants;
