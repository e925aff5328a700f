//! Which version of the protocol an agent and its controller speak with each other.
//!
//! Each side speaks its own version and the one before, so that either can be upgraded first. The agent names its
//! version, the controller answers with the one that both speak. A side that names none is of the time before versions
//! had numbers, which is version 1.

use thiserror::Error;

/// The version of this program. 2: agents and controllers say which they speak; lives of agents are drawn at random.
pub const VERSION: u32 = 2;
/// The oldest that it speaks, too.
pub const OLDEST: u32 = VERSION - 1;

/// The other side speaks no version that this one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "it speaks version {0} of the protocol, and this program versions {OLDEST} to {VERSION}: upgrade the older of both"
)]
pub struct Strange(pub u32);

/// The version to speak with one that speaks this and the one before.
///
/// ```
/// use lightloom_daemon::proto::version::{Strange, VERSION, agree};
/// assert_eq!(agree(VERSION), Ok(VERSION));
/// assert_eq!(agree(VERSION - 1), Ok(VERSION - 1), "an older agent");
/// assert_eq!(agree(VERSION + 1), Ok(VERSION), "a newer agent");
/// assert_eq!(agree(VERSION + 2), Err(Strange(VERSION + 2)), "too new to speak ours");
/// assert_eq!(agree(0), Ok(1), "from before versions had numbers");
/// ```
///
/// # Errors
/// If there is none.
pub fn agree(theirs: u32) -> Result<u32, Strange> {
    match theirs.max(1) {
        newer if newer > VERSION + 1 => Err(Strange(newer)),
        older if older < OLDEST => Err(Strange(older)),
        theirs => Ok(theirs.min(VERSION)),
    }
}

/// Whether a controller's answer is a version that this program speaks.
///
/// # Errors
/// If it is not.
pub fn speaks(answered: u32) -> Result<u32, Strange> {
    let answered = answered.max(1);
    let known = (OLDEST..=VERSION).contains(&answered);
    if known { Ok(answered) } else { Err(Strange(answered)) }
}
