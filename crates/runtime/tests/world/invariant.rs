//! What must be true after every step.

/// An invariant that does not hold, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its name.
    pub invariant: &'static str,
    /// What was found instead.
    pub what: String,
}

macro_rules! invariants {
    ($($id:ident, $name:literal, $says:literal;)*) => {
        $(pub const $id: &str = $name;)*
        /// Every invariant: its name, and what it says.
        #[allow(dead_code, reason = "one of those who include this prints them")]
        pub const INVARIANTS: &[(&str, &str)] = &[$(($name, $says)),*];
    };
}

invariants! {
    BYTES, "bytes", "every byte that is written to memory is the one that was sent, at its place, and when an operation is done all are there";
    HANDED_BACK, "handed-back", "memory that was handed back is neither read nor written";
    BOUNCE, "bounce", "bounce memory for a peer is within its allowance";
    WINDOW, "window", "payload in flight on a lane is within its window";
    NIC_WINDOW, "nic-window", "payload in flight on a NIC's packet lanes is within what their shares of its window were";
    PACE, "pace", "a packet lane begins no more than its NIC carries in the time, and two chunks";
    LIT, "lit", "no byte is put on a circuit that does not stand";
    LEASE, "lease", "no byte is put on a circuit that was not told, or after the end of its lease";
    DRAINING, "draining", "no frame but the mark is begun on a port that is to be drained";
    DRAINED, "drained", "when a port is said to be drained, no frame that is acknowledged is in flight there";
    PEERS, "peers", "no endpoint of the job breaks another's rules";
    STRANGERS, "strangers", "whoever does not know the secret gets no lane";
    FOUNDED, "founded", "a group fails only if a member was lost, started again, or disagreed";
    REFUSED, "refused", "a call that fits is not refused";
    CALM, "calm", "nobody is called without end";
    PROGRESS, "progress", "once faults stop, every operation is done or has failed; if a group has failed, all its members know";
}

pub fn broken(invariant: &'static str, what: String) -> Broken {
    Broken { invariant, what }
}
