//! Packet switches: from GPU to GPU over the fabric's own routes.

use super::form::{Medium, MediumKind, Decided};

pub(crate) static KIND: MediumKind =
    MediumKind { name: "packets", decide: Decided::nothing, begin: |_| Ok(Box::new(Packets)) };

pub(crate) struct Packets;

impl Medium for Packets {}
