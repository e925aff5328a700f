//! Packet switches: from GPU to GPU over the fabric's own routes.

use super::form::{Carrier, CarrierKind, Decided};

pub(crate) static KIND: CarrierKind =
    CarrierKind { name: "packets", decide: Decided::nothing, begin: |_| Ok(Box::new(Packets)) };

pub(crate) struct Packets;

impl Carrier for Packets {}
