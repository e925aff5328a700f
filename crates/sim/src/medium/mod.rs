//! How fabrics move bytes. A new way of moving them is a file here and a name in the list; a kind of
//! fabric names its medium among its capabilities.

pub(crate) mod form;

pub(crate) use form::{Decided, Job, Medium, MediumKind, Setting, State, Sum, Turn};
pub(crate) use railx::standing;

use lightloom_fabric::FabricKind;

/// Declares the files and lists the media in them.
macro_rules! media {
    ($($file:ident),* $(,)?) => {
        $(mod $file;)*

        static MEDIA: &[&MediumKind] = &[$(&$file::KIND),*];
    };
}

media! {
    packets,
    rails,
    panel,
    planes,
    circuits,
    railx,
}

/// The medium of a kind of fabric.
pub(crate) fn of(fabric: &FabricKind) -> &'static MediumKind {
    let named = MEDIA.iter().find(|medium| medium.name == fabric.can().medium);
    named.expect("every kind of fabric names a medium, which a test looks up")
}

#[cfg(test)]
mod tests {
    use lightloom_fabric::FABRICS;

    #[test]
    fn every_kind_of_fabric_has_its_carrier() {
        for kind in FABRICS {
            assert_eq!(super::of(kind).name, kind.can().medium);
        }
    }
}
