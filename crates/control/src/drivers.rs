//! All drivers: a new one is a file or folder of its own, and a line here.

use crate::protocol::Protocol;

/// The protocols that this program speaks to optical switches.
///
/// ```
/// use lightloom_control::DRIVERS;
/// let mut names: Vec<_> = DRIVERS.iter().map(|protocol| protocol.name).collect();
/// names.dedup();
/// assert!(names.contains(&"tl1") && names.len() == DRIVERS.len());
/// ```
pub const DRIVERS: &[&Protocol] = &[
    &crate::tl1::PROTOCOL,     //
    &crate::netconf::PROTOCOL, //
];
