//! What two endpoints have on the way by a third, and what it keeps of them.

use super::name::{ConnectionId, LaneId};

/// Frames of a relayed connection that are not acknowledged, each way.
pub(crate) const PARTS: usize = 256;
/// Payload of a relayed connection that is not acknowledged, each way \[B\]; or a chunk, if that is more.
pub(crate) const RELAYED: u32 = 1 << 20;
/// A pair of endpoints that this one relays for.
#[derive(Clone, Debug)]
pub(crate) struct Relayed {
    pub number: u64,
    /// The lanes to both, with their connections.
    pub ends: [(LaneId, ConnectionId); 2],
    /// What is kept for each \[B\].
    pub held: [u64; 2],
}

impl Relayed {
    /// Which of its ends is at the other end of a lane.
    pub fn end(&self, lane: LaneId, connection: ConnectionId) -> Option<usize> {
        self.ends.iter().position(|end| *end == (lane, connection))
    }
}
