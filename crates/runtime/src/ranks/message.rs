//! What ranks and their server's runtime say to each other: a line of JSON each.
//!
//! A rank asks, by a number of its own; the answer has the same number. Every place in memory is the offset and the
//! length of bytes in the arena of the rank that asks \[B\].

use lightloom_decide::Ahead;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bytes of a rank's arena: where they begin, and how many there are.
pub(super) type Place = (u64, u64);

/// A question, and its number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    pub id: u64,
    pub ask: Ask,
}

/// What a rank wants.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Ask {
    /// The first: which rank of the job it is; with it comes the arena's descriptor.
    Hello { rank: u32 },
    /// To be a member of a group of ranks, in rising order. All members ask the same.
    Group { group: u32, ranks: Vec<u32> },
    /// To be a member no more.
    Leave { group: u32 },
    /// Its part of a collective of a group.
    Post { group: u32, call: Call },
    /// To send bytes to a rank.
    Send { to: u32, at: Place },
    /// To receive a rank's bytes: as many as are sent.
    Receive { from: u32, at: Place },
    /// What it will send to each rank of the job \[B\]; the answer comes when circuits for it stand. All ranks of all
    /// servers ask, with the same round. `ahead` is what the job's task graph says, if the rank knows it.
    Demand {
        round: u64,
        bytes: Vec<u64>,
        #[serde(default)]
        ahead: Option<Ahead>,
    },
    /// What each NIC has carried.
    Statistics,
    /// It is done, and goes.
    Bye,
}

/// A rank's part of a collective.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Call {
    /// By rank of the group: what goes there, and where what comes from there is put.
    AllToAll {
        sends: Vec<Place>,
        receives: Vec<Place>,
        #[serde(default)]
        path: Option<String>,
    },
    /// In place.
    AllReduce { at: Place, element: String, reduction: String },
    /// In place: by rank of the group, the length of its shard; the shards fill `at`.
    ReduceScatter { at: Place, shards: Vec<u64>, element: String, reduction: String },
    /// In place: by rank of the group, the length of its shard; the shards fill `at`.
    AllGather { at: Place, shards: Vec<u64> },
    /// In place; `root` is a rank of the job.
    Broadcast { root: u32, at: Place },
    /// Nothing is moved.
    Barrier,
    /// What [`Ask::Send`] and [`Ask::Receive`] become, in a group of the two.
    #[serde(skip)]
    Pass { at: Place },
}

impl Call {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Call::AllToAll { .. } => "all-to-all",
            Call::AllReduce { .. } => "all-reduce",
            Call::ReduceScatter { .. } => "reduce-scatter",
            Call::AllGather { .. } => "all-gather",
            Call::Broadcast { .. } => "broadcast",
            Call::Barrier => "barrier",
            Call::Pass { .. } => "send and receive",
        }
    }
}

/// An answer, with the number of its question.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answer {
    pub id: u64,
    #[serde(flatten)]
    pub said: Said,
}

/// What comes of a question.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Said {
    /// It is done.
    Done(Value),
    /// It will not be.
    Failed(String),
}
