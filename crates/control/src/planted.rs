//! Bugs that tests plant, to see that they are found.

/// A bug. No build but that of this crate's tests can have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// The controller takes the switch's word and does not read back.
    SkipsVerification,
    /// The agent obeys a directive although it has obeyed a later one.
    ForgetsGenerations,
    /// The controller does not wait for agents to hold.
    SkipsDraining,
    /// The agent goes on without a lease.
    ForgetsLeases,
}
