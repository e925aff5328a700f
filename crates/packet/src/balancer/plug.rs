//! What a load balancer is: the choice of one sub-flow among its equal paths, as a pure state machine,
//! and what the rest of the house must know of it.

use lightloom_rails::Deal;
use lightloom_units::{Bytes, mix};
use serde::{Deserialize, Serialize};

/// What others must know of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Whether a flow's packets arrive in order but for rare moves, as go-back-N needs it.
    pub keeps_order: bool,
    /// Which packets of a sub-flow take a path of their own.
    pub paths: Paths,
    /// Over which NICs of its server an all-to-all leaves on a fabric of rails.
    pub nics: Nics,
}

/// Which packets of a sub-flow take a path of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Paths {
    /// None: all take the route that the fabric's hash gives the flow.
    Route,
    /// All take one path for a while. A gap in what arrives is a loss.
    One,
    /// Each packet. A gap says nothing.
    EveryPacket,
    /// Each packet, and each switch chooses anew what is left of it. A gap says nothing.
    EveryHop,
}

impl Paths {
    /// Whether packets may overtake one another.
    pub fn reorder(self) -> bool {
        matches!(self, Paths::EveryPacket | Paths::EveryHop)
    }
}

/// Over which NICs of its server a GPU's part of an all-to-all leaves on a fabric of rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Nics {
    /// The GPU's own NIC.
    Own,
    /// All of them: a flow has a lane for each, and packets go where there is room.
    Lanes,
    /// All of them: a plan deals chunks to rails before anything is sent. Needs a fabric of rails.
    Rails,
}

/// How an all-to-all is dealt to rails by a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunks {
    /// Size of a chunk.
    pub chunk: Bytes,
    /// Queue pairs of a rail.
    pub queue_pairs: u32,
    /// Which rail a chunk takes.
    pub deal: Deal,
}

/// What a packet's path may depend on.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Packets that its NIC has sent, of all flows, from a start of the NIC's own.
    pub turn: u32,
    /// Packets of the sub-flow in flight.
    pub in_flight: u32,
    /// Now \[ps\].
    pub now: u64,
}

/// What an acknowledgement tells a balancer.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// The path of the packet that it answers.
    pub path: u16,
    /// Whether that packet was marked.
    pub marked: bool,
    /// How long both were in flight \[ps\].
    pub round_trip: u64,
    /// Now \[ps\].
    pub now: u64,
}

/// What chooses a path for each packet of a sub-flow.
pub trait Balancer: Sized {
    /// What its table of the specification holds.
    type Settings;

    /// For a sub-flow with so many equal paths, at least one; `hash` is its own.
    fn new(settings: &Self::Settings, paths: u16, hash: u64) -> Self;

    /// The path of the next packet, below the number of paths.
    fn path(&mut self, next: Next) -> u16;

    /// An acknowledgement came.
    #[inline]
    fn acked(&mut self, heard: Heard) {
        let _ = heard;
    }

    /// The smoothed round trip, if sub-flows of a flow are compared by it \[ps\].
    #[inline]
    fn round_trip(&self) -> Option<u64> {
        None
    }

    /// How all-to-alls are dealt to rails, for [`Nics::Rails`].
    fn chunks(settings: &Self::Settings) -> Option<Chunks> {
        let _ = settings;
        None
    }
}

/// One of `0..n`, by a hash.
pub fn pick(hash: u64, n: u16) -> u16 {
    ((u128::from(mix(hash)) * u128::from(n)) >> 64) as u16
}
