//! As the paper of each fabric has it: what its medium does by itself.

use super::form::CarrierKind;
use lightloom_units::kind::Kind;

pub(crate) static KIND: CarrierKind = CarrierKind {
    about: Kind {
        name: "paper",
        summary: "As the paper of each fabric has it",
        source: None,
        keys: &[],
        capabilities: (),
    },
    hands_over: false,
    split: None,
};
