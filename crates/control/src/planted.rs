//! Bugs that tests plant, to see that they are found.
//!
//! Only the feature `testing` can plant one; without it no machine has room for a bug.

macro_rules! planted {
    ($($name:ident: $does:literal,)*) => {
        /// A bug that tests plant, to see that they find it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Planted {
            $(#[doc = $does] $name,)*
        }

        impl Planted {
            /// Every bug that can be planted.
            pub const ALL: &[Planted] = &[$(Planted::$name,)*];

            /// What a machine does that has it.
            pub fn does(self) -> &'static str {
                match self {
                    $(Planted::$name => $does,)*
                }
            }
        }
    };
}

planted! {
    SkipsVerification: "The controller takes the switch's word and does not read back",
    ForgetsGenerations: "The agent obeys a directive although it has obeyed a later one",
    SkipsDraining: "The controller does not wait for agents to hold",
    ForgetsLeases: "The agent goes on without a lease, and has its runtime go on",
    CountsFromTheAnswer: "The agent counts its lease from the controller's answer, not from its own report",
    TellsNoEnd: "The agent does not tell its runtime when the lease ends",
    SpeaksForItsRuntime: "The agent says that it resumes before its runtime does",
    RuntimeForgetsLeases: "The runtime goes on after the end of the lease that it was told",
    RuntimeDrainsAtOnce: "The runtime says that ports are drained while bytes are in flight there",
    IgnoresRivals: "The controller takes over whatever another one makes, and goes on",
    OrdersLives: "The controller takes lives with greater numbers for later ones",
    BelievesOneRound: "The controller has a round answered for all of a tenant's servers if one says so",
    OrdersBeforeItsRecord: "The controller orders the switch before the journal says that it is touched",
    AdoptsAcrossTenants: "The controller takes over circuits that join two tenants",
    BelievesOldBeats: "The controller believes a report that a later one of the same life has overtaken",
    SkipsGrace: "The controller takes a lease for over before clocks that are behind do",
    HoldsBeforeDrained: "The agent says that it holds while bytes are in flight",
    TakesAnyDrain: "The agent takes the answer to an earlier drain for one to the last",
    CountsFromTheLastReport: "The agent counts its lease from its last report, not from the one that was answered",
    SaysDemandOnce: "The agent does not say its demand again over another stream",
    OpensWhileItDrains: "The agent opens a port's filter for the next circuit while bytes of the last one are in flight",
    RuntimeForgetsLeftOvers: "The runtime answers a new agent while bytes that the last one allowed are in flight",
    SkipsQuarantine: "The controller reads the switch while commands may be on their way",
    ForgetsTouched: "The controller forgets on a restart that the switch was touched",
    ReusesGenerations: "The controller numbers plans anew from what an agent has obeyed, when a journal was lost",
    RetriesOneByOne: "The controller tries ports that stuck one after the other",
    EndsForeignPatches: "The controller ends patches that somebody else set to ports outside the region",
    DefersForEver: "The controller never lets a tenant take part again that others do not wait for",
    NeverDefers: "The controller lets tenants wait for other tenants' servers",
    TrustsItsMemory: "The controller reads the switch and believes its memory",
    ResumesBeforeItsRecord: "The controller tells agents to resume before the journal says that circuits were verified",
    TouchesKeptCircuits: "The controller changes ports that agents were told to go on using",
    HoldsNothing: "The controller tells agents to hold, and to use all that stands",
    ExcludesForEver: "The controller never speaks again to an agent that did not let go once",
    KeepsAlarms: "The controller does not end the alarm of a port that is no longer joined to another region",
    TakesHalfForWhole: "The controller takes a circuit for standing of which one direction does",
    SpeaksBeforeItReads: "The controller lets agents go on after a restart before it has read the switch",
    GoesOnAfterABreak: "The controller takes a change for undone when the stream to the switch breaks",
    TakesEndOfStreamForDeath: "The controller takes an agent whose stream has ended for one that sends nothing",
    ForgetsWhatItMade: "The controller does not note what it orders, and takes its own circuits for another one's",
    AllowsIllegalCircuits: "The controller does not look whether decided circuits are legal",
    IgnoresNewFaults: "The controller does not look whether ports have failed while circuits were decided on",
    NotesInQuarantine: "The controller notes circuits as verified while commands may be on their way",
    GoesOnWhenWoken: "The controller goes on with its plan after it was stopped",
    MixesRounds: "The controller tells all tenants the rounds of the first",
    AnswersOnlyNews: "The controller does not answer an agent that does all that it shall, and its lease ends",
    CountsHalfRounds: "The controller counts what one server asks for while it waits for the tenant's others",
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
