//! How chunks are dealt: LPT, and the simpler rules that it is compared with.
//!
//! Modelled: a rule gives each chunk a rail; the chunk leaves on this rail's NIC, lands on the same rail's,
//! and is forwarded inside both servers where those are not its GPUs' own. So PXN is the rule "the
//! receiver's rail", which forwards at the sender alone, and "the sender's rail" forwards at the
//! receiver alone.
//! Checked: bytes conserved under every rule; each rule's own loads, in [`crate::balance`].

use super::lpt::Message;
use lightloom_units::mix;
use serde::{Deserialize, Serialize};

/// Which rail a chunk takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deal {
    /// What [`crate::Lpt`] says, by the sender's loads.
    Lpt,
    /// By the loads of both ends, as if every sender knew what all send.
    Both,
    /// The next rail, whatever the size, from one that differs by sender: by source, by destination from the
    /// sender on, by receiver and by offset.
    RoundRobin,
    /// By a hash of both GPUs and the offset.
    Hash,
    /// The receiving GPU's (NCCL's PXN).
    Pxn,
    /// The sending GPU's.
    Source,
}

impl Deal {
    /// The names of all, the first the default.
    pub const NAMES: [&str; 6] = ["lpt", "both", "round-robin", "hash", "pxn", "source"];

    /// The one of a name.
    ///
    /// ```
    /// use lightloom_rails::Deal;
    /// assert_eq!(Deal::named("round-robin"), Some(Deal::RoundRobin));
    /// assert!(Deal::NAMES.iter().all(|name| Deal::named(name).is_some()));
    /// ```
    pub fn named(name: &str) -> Option<Deal> {
        use Deal::{Both, Hash, Lpt, Pxn, RoundRobin, Source};
        let all = [Lpt, Both, RoundRobin, Hash, Pxn, Source];
        Deal::NAMES.iter().position(|&other| other == name).map(|at| all[at])
    }

    /// The rail of a chunk of domain `sender`, its `turn`th, at an offset of its message; by a rule that
    /// looks at no loads.
    pub(crate) fn blindly(
        self,
        message: &Message,
        (sender, turn, offset): (usize, usize, usize),
        rails: usize,
    ) -> u16 {
        let rail = match self {
            Deal::RoundRobin => sender + turn,
            Deal::Pxn => message.receiver as usize,
            Deal::Source => message.source as usize,
            Deal::Lpt | Deal::Both => unreachable!("they look at loads"),
            Deal::Hash => {
                let ends = (sender as u64) << 40
                    ^ u64::from(message.source) << 32
                    ^ u64::from(message.destination) << 8
                    ^ u64::from(message.receiver);
                (mix(mix(ends) ^ offset as u64) % rails as u64) as usize
            }
        };
        (rail % rails) as u16
    }
}
