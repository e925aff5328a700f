//! MixNet: all-to-alls between servers over the circuits of their region, by delegates; all else over
//! packet switches. [`crate::mixnet`] is the medium.

use super::form::{Decided, MediumKind};
use crate::error::SimError;
use crate::mixnet::Optical;
use lightloom_fabric::MixNetSpec;

pub(crate) static KIND: MediumKind = MediumKind {
    name: "circuits",
    decide: |spec, _, _| {
        let mixnet: &MixNetSpec = spec.fabric.keys().expect("only MixNet names this medium");
        let standing = spec.given_circuits(mixnet.optical_nics * mixnet.ocs.breakout)?;
        Ok(Decided { standing, ..Decided::default() })
    },
    begin: |setting| Ok(Box::new(Optical::new(setting).map_err(SimError::Input)?)),
};
