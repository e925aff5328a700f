//! Whichever is soonest over by itself ([`super::estimate`]): each all-to-all anew.
//!
//! Every rank can tell alike: the counts of all ranks are gathered before tokens are dispatched, so that
//! buffers can be sized (in Megatron-LM by `MoEAlltoAllTokenDispatcher`).

use super::form::CarrierKind;
use lightloom_units::kind::Kind;

pub(crate) static KIND: CarrierKind = CarrierKind {
    about: Kind {
        name: "auto",
        summary: "Whichever is soonest over by itself, each all-to-all anew",
        source: None,
        keys: &[],
        capabilities: (),
    },
    hands_over: false,
    split: None,
};
