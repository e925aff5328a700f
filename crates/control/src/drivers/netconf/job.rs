//! What a session is at, and what a call of it is for.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No stream, or one that made no sense.
    Down,
    /// The server has not said hello.
    Greeting,
    /// The server has not said what it is.
    Asking,
    /// Nor whether this session has the lock.
    Locking,
    Up,
}

/// A call under way, and what it is for.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The order's number; none asks for a sign of life, or for what the switch is.
    pub order: Option<u64>,
    pub step: Step,
    /// The edit of the candidate, until it is made.
    pub edit: Option<String>,
    /// What went wrong.
    pub refused: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Describe,
    Read,
    Edit,
    Lock,
    EditCandidate,
    Commit,
    Discard,
    Unlock,
    /// As [`Step::Unlock`], of a lock that was refused: it may be ours all the same.
    Release,
    /// The lock of the session is asked for,
    Hold,
    /// after this session was ended.
    End(u64),
}
