//! All drivers: a new one is a file or folder here, and a line in [`DRIVERS`].

pub mod line;
pub mod netconf;
pub mod tl1;

use crate::protocol::Protocol;

/// The protocols that this program speaks to optical switches.
///
/// ```
/// use lightloom_control::drivers::DRIVERS;
/// let mut names: Vec<_> = DRIVERS.iter().map(|protocol| protocol.name).collect();
/// names.dedup();
/// assert!(names.contains(&"tl1") && names.len() == DRIVERS.len());
/// ```
pub const DRIVERS: &[&Protocol] = &[&tl1::PROTOCOL, &netconf::PROTOCOL, &line::PROTOCOL];
