//! All drivers: a new one is a file or folder here, and a line in the list.

use crate::protocol::Protocol;

/// Declares the files and lists the protocols that drivers in them speak.
macro_rules! drivers {
    ($($file:ident),* $(,)?) => {
        $(pub mod $file;)*

        /// The protocols that this program speaks to optical switches.
        ///
        /// ```
        /// use lightloom_control::drivers::DRIVERS;
        /// let mut names: Vec<_> = DRIVERS.iter().map(|protocol| protocol.name).collect();
        /// names.dedup();
        /// assert!(names.contains(&"tl1") && names.len() == DRIVERS.len());
        /// ```
        pub const DRIVERS: &[&Protocol] = &[$(&$file::PROTOCOL),*];
    };
}

drivers! {
    tl1,
    netconf,
    line,
}
