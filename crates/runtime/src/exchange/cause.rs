//! Why groups fail.

/// Why a group has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A member was declared lost, or was silent for too long.
    Lost,
    /// A member has started again.
    Restarted,
    /// A member expects other bytes than it is sent.
    Differs,
    /// A caller gave the group up.
    Aborted,
}

impl Cause {
    pub(crate) fn code(self) -> u32 {
        self as u32 + 1
    }

    pub(crate) fn from_code(code: u32) -> Option<Self> {
        use Cause::{Aborted, Differs, Lost, Restarted};
        [Lost, Restarted, Differs, Aborted].into_iter().find(|cause| cause.code() == code)
    }

    /// In words, after the endpoint's name.
    pub(crate) fn says(self) -> &'static str {
        match self {
            Cause::Lost => "is lost",
            Cause::Restarted => "has started again",
            Cause::Differs => "sends other bytes than are expected, or expects others",
            Cause::Aborted => "has given it up",
        }
    }
}
