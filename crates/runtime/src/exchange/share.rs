//! The packet lanes of a NIC share what is in flight on it.
//!
//! What is written to sockets leaves a NIC in the order of writing. Without a bound, a peer that comes late to an
//! operation is behind all that goes to the others; and since all endpoints hear first of the peers that were early, they
//! all send to the same ones, while the late ones' NICs idle, and then are last. So a lane has in flight at most an even share of
//! [`Settings::nic_window`](super::Settings::nic_window), of the NIC's packet lanes that have something to send or in flight, and
//! at least two chunks: one is under way while the other's acknowledgement is.
//!
//! Nobody waits for another lane's peer, and what may not begin waits for an acknowledgement of its own lane. Not shared: circuits, of which a NIC has one, and relays.
//! Checked: `rules.rs`, and the invariant `nic-window` in scenarios.

use super::machine::Exchange;
use super::name::{LaneId, LaneSpec, Medium, Nic};
use crate::planted::Planted;

impl Exchange {
    /// Whether a lane may begin a chunk of so many bytes, as far as its NIC is concerned.
    pub(crate) fn within_share(&self, lane: LaneId, length: u32) -> bool {
        let it = &self.lanes[lane.at()];
        it.in_flight + u64::from(length) <= self.share(lane) || self.bug.is(Planted::IgnoresShares)
    }

    /// What a lane may have in flight of what its NIC may \[B\].
    pub(crate) fn share(&self, lane: LaneId) -> u64 {
        let LaneSpec { nic, medium, .. } = self.lanes[lane.at()].spec;
        if medium != Medium::Packet {
            return u64::MAX;
        }
        let active = self.of_nic(nic).filter(|it| it.in_flight > 0 || !it.chunks.is_empty());
        let even = u64::from(self.settings.nic_window) / active.count().max(1) as u64;
        even.max(2 * u64::from(self.settings.chunk))
    }

    /// Payload on the packet lanes of a NIC that was begun and not acknowledged \[B\].
    pub fn nic_in_flight(&self, nic: Nic) -> u64 {
        self.of_nic(nic).map(|it| it.in_flight).sum()
    }

    pub(crate) fn of_nic(&self, nic: Nic) -> impl Iterator<Item = &super::lane::Lane> {
        let lanes = self.nics.get(&nic).into_iter().flatten();
        lanes.map(|lane| &self.lanes[lane.at()])
    }
}
