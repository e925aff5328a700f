//! From the source GPU's own NIC to the destination GPU's own NIC, over whatever switches join the two.

use super::form::CarrierKind;
use lightloom_units::kind::Kind;

pub(crate) static KIND: CarrierKind = CarrierKind {
    about: Kind {
        name: "direct",
        summary: "From the source's own NIC to the destination's own",
        source: None,
        keys: &[],
        capabilities: (),
    },
    hands_over: false,
    split: Some(|split, travel| {
        travel.by_own_nics = true;
        split.for_each(|from, to, bytes| travel.exchange.push((from, to, bytes)));
    }),
};
