//! MixNet: all-to-alls between servers over the circuits of their region, by delegates; all else over
//! packet switches. [`crate::mixnet`] is the carrier.

use super::form::{CarrierKind, Decided};
use crate::error::SimError;
use crate::mixnet::Optical;

pub(crate) static KIND: CarrierKind = CarrierKind {
    name: "circuits",
    decide: Decided::nothing,
    begin: |setting| Ok(Box::new(Optical::new(setting).map_err(SimError::Input)?)),
};
