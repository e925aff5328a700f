//! Bugs that tests plant, to see that they are found.
//!
//! Only the feature `testing` can plant one; without it no machine has room for a bug.

/// A bug that tests plant, to see that they find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The controller takes the switch's word and does not read back.
    SkipsVerification,
    /// The agent obeys a directive although it has obeyed a later one.
    ForgetsGenerations,
    /// The controller does not wait for agents to hold.
    SkipsDraining,
    /// The agent goes on without a lease, and has its runtime go on.
    ForgetsLeases,
    /// The agent counts its lease from the controller's answer, not from its own report.
    CountsFromTheAnswer,
    /// The agent does not tell its runtime when the lease ends.
    TellsNoEnd,
    /// The agent says that it resumes before its runtime does.
    SpeaksForItsRuntime,
    /// The runtime goes on after the end of the lease that it was told.
    RuntimeForgetsLeases,
    /// The runtime says that ports are drained while bytes are in flight there.
    RuntimeDrainsAtOnce,
    /// The controller takes over whatever another one makes, and goes on.
    IgnoresRivals,
    /// The controller takes lives with greater numbers for later ones.
    OrdersLives,
    /// The controller has a round answered for all of a tenant's servers if one says so.
    BelievesOneRound,
}

/// The bug of a machine, if one is planted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bug(#[cfg(feature = "testing")] pub Option<Planted>);

impl Bug {
    /// Whether this bug is planted.
    pub(crate) fn is(self, _bug: Planted) -> bool {
        #[cfg(feature = "testing")]
        return self.0 == Some(_bug);
        #[cfg(not(feature = "testing"))]
        false
    }
}
