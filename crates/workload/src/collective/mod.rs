//! Collective algorithms: steps, pairings and volumes; one algorithm a file.

use lightloom_units::Bytes;

/// In a [`Pairing`]: a node that sends nothing.
pub const NO_PEER: u32 = u32::MAX;

/// Whom each node sends to in a step: a partial permutation. `peers[i]` is node `i`'s peer, or
/// [`NO_PEER`].
pub type Pairing = Vec<u32>;

/// One collective by one algorithm on so many nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The name of the algorithm, as asked for.
    pub algorithm: &'static str,
    /// Nodes (N).
    pub nodes: u32,
    /// The distinct pairings, in the order of their first use.
    pub pairings: Vec<Pairing>,
    /// The steps, in order.
    pub steps: Vec<CollectiveStep>,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveStep {
    /// Its pairing, as an index of [`Collective::pairings`].
    pub pairing: u32,
    /// What each sending node sends \[B\].
    pub volume: Bytes,
}
