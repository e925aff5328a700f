//! Carriers: how an all-to-all travels, apart from the fabric. A new one is a file here and a name in
//! the list; a kind of fabric names among its capabilities those that it can have.

pub(crate) mod alike;
pub(crate) mod estimate;
pub(crate) mod form;
pub(crate) mod soonest;

use lightloom_units::kind::{Form, Key};

pub(crate) use form::{CarrierKind, Stages};

/// The carrier that a medium of circuits has by itself.
pub(crate) static DELEGATE: &str = delegate::KIND.about.name;

/// Declares the files and lists the carriers in them.
macro_rules! carriers {
    ($($file:ident),* $(,)?) => {
        $(mod $file;)*

        /// Every kind of carrier.
        pub(crate) static CARRIERS: &[&CarrierKind] = &[$(&$file::KIND),*];

        /// Their names.
        pub(crate) static NAMES: &[&str] = &[$($file::KIND.about.name),*];
    };
}

carriers! {
    auto,
    paper,
    direct,
    relay,
    delegate,
    rails,
}

/// The keys that every kind of fabric has, for how all-to-alls travel over it.
pub(crate) static KEYS: &[Key] = &[
    Key::new("carrier", Form::Choice(NAMES), "How all-to-alls travel: see carriers.md."),
    Key::optional(
        "chunk",
        Form::Size { min: 1 << 12, max: 1 << 40 },
        "Pieces in which bytes are gathered, sent and scattered; 512 KiB unless given. Read where the \
         carrier hands bytes over inside servers.",
    ),
    Key::optional(
        "store_and_forward",
        Form::Bool,
        "`true`: all is gathered before any is sent, and all has come before any is scattered. Read \
         where `chunk` is; `false` unless given.",
    ),
];

#[cfg(test)]
mod tests {
    use super::CARRIERS;
    use lightloom_fabric::FABRICS;

    #[test]
    fn every_carrier_that_a_fabric_names_is_one() {
        for kind in FABRICS {
            for name in kind.can().carriers {
                let found = CARRIERS.iter().find(|carrier| carrier.about.name == *name);
                assert!(
                    found.is_some_and(|found| found.split.is_some()),
                    "{}: {name}",
                    kind.name()
                );
            }
        }
    }
}
