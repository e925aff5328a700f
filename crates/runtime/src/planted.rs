//! Bugs that tests plant, to see that they are found.
//!
//! Only the feature `testing` can plant one; without it the machine has no room for a bug.

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
    ForgetsLeases: "It goes on with circuits after the end of their lease",
    DrainsAtOnce: "It says that ports are drained while bytes are in flight there",
    UsesDrainedPorts: "It puts chunks on ports that it was told to drain",
    ForgetsMarks: "It does not wait for the end-of-epoch mark",
    AcksBeforeReceipt: "It acknowledges a chunk when its header has come",
    ForgetsUnacknowledged: "It does not send again what a broken connection may have lost",
    ForgetsControl: "It does not send Ready again when a connection breaks",
    CountsDoubles: "It counts a chunk that comes twice as two",
    KeepsPlaces: "It goes on reading a chunk into memory that was handed back",
    SkipsReady: "It sends before the receiver has posted the operation",
    ForgetsReady: "It forgets a Ready that comes before the operation is posted here",
    IgnoresAllowance: "It sends and takes what goes early, whatever the allowance",
    GivesBackOnAck: "It takes allowance for free again when what went early is acknowledged",
    ForgetsEarly: "It drops what came early when the operation is posted",
    IgnoresWindows: "It puts more bytes on a lane than its window",
    IgnoresShares: "It puts more bytes on a NIC than its window",
    IgnoresPace: "It begins chunks of a lane as fast as it can",
    ForgetsPaced: "It does not wake a lane that waited for its time",
    ForgetsWaiting: "It leaves what waited for a lane where it is when one comes up",
    DoneBeforeAcks: "It says that an operation is done before all was acknowledged",
    SendsMemoryHandedBack: "It goes on sending a chunk of an operation that has failed",
    TellsNobody: "It does not tell a group's members that the group has failed",
    IgnoresLives: "It takes a peer that has started again for the one before",
    WaitsForEver: "It never takes a silent peer for lost",
    TrustsStrangers: "It does not look at the proof in a hello",
    NeverStalls: "It waits without end for acknowledgements on a connection that is dead",
    HandsOnTwice: "As a relay, it hands on each part of a connection twice",
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
