//! How fabrics move bytes. A new way of moving them is a file here and a name in the list; a kind of
//! fabric names its carrier among its capabilities.

pub(crate) mod form;

pub(crate) use form::{Carrier, CarrierKind, Decided, Job, Setting, State, Sum, Turn};
pub(crate) use railx::standing;

use lightloom_fabric::FabricKind;

/// Declares the files and lists the carriers in them.
macro_rules! carriers {
    ($($file:ident),* $(,)?) => {
        $(mod $file;)*

        static CARRIERS: &[&CarrierKind] = &[$(&$file::KIND),*];
    };
}

carriers! {
    packets,
    rails,
    panel,
    planes,
    circuits,
    railx,
}

/// The carrier of a kind of fabric.
pub(crate) fn of(fabric: &FabricKind) -> &'static CarrierKind {
    let named = CARRIERS.iter().find(|carrier| carrier.name == fabric.can().carrier);
    named.expect("every kind of fabric names a carrier, which a test looks up")
}

#[cfg(test)]
mod tests {
    use lightloom_fabric::FABRICS;

    #[test]
    fn every_kind_of_fabric_has_its_carrier() {
        for kind in FABRICS {
            assert_eq!(super::of(kind).name, kind.can().carrier);
        }
    }
}
