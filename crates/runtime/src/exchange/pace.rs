//! A packet lane is no faster than the busier of its two NICs needs.
//!
//! NICs that send to several others, which hear several, are done soonest if each lane has the share of its NIC's rate that
//! its chunks are of all that the busier of its two NICs has yet to carry. Windows alone do not give that: a lane through two
//! shared NICs waits in two queues, and has half the rate of a rival that waits in one. So each chunk says how many are
//! queued behind it on its lane, and each acknowledgement how many are to come to the receiver's NIC, over how many lanes.
//! A lane begins chunks at that share of [`Settings::nic_rate`](super::Settings::nic_rate), if the rate is known, or at an
//! even share of both NICs, whichever is more: what is small does not wait for what is large.
//!
//! Not paced: circuits, of which a NIC has one, and relays. Checked: `rules.rs`, and the invariant `pace` in scenarios.

use super::load::Load;
use super::machine::Exchange;
use super::name::{LaneId, LaneSpec, Medium};
use crate::planted::Planted;
use lightloom_units::Time;

impl Exchange {
    /// What is to come to a lane's NIC, as far as the senders have said; nothing if nobody paces lanes by it.
    pub(crate) fn coming(&self, lane: LaneId) -> Load {
        let LaneSpec { nic, medium, .. } = self.lanes[lane.at()].spec;
        if medium != Medium::Packet || self.settings.nic_rate == 0 {
            return Load::default();
        }
        Load::of(self.of_nic(nic).map(|it| it.behind.into()))
    }

    /// Whether a lane may begin its next chunk now; if not, it is woken when it may.
    pub(crate) fn on_time(&mut self, lane: LaneId) -> bool {
        let it = &mut self.lanes[lane.at()];
        it.paced = it.pace > self.now && !self.bug.is(Planted::IgnoresPace);
        let (waits, pace) = (it.paced, it.pace);
        if waits {
            self.schedule(pace);
        }
        !waits
    }

    /// A lane has begun a chunk of so many bytes.
    pub(crate) fn set_pace(&mut self, lane: LaneId, length: u32) {
        let LaneSpec { nic, medium, .. } = self.lanes[lane.at()].spec;
        let rate = self.settings.nic_rate;
        if medium != Medium::Packet || rate == 0 {
            return;
        }
        let here = Load::of(self.of_nic(nic).map(|it| it.chunks.len() as u64));
        let it = &mut self.lanes[lane.at()];
        // What was begun now still counts.
        let own = it.chunks.len() as u64 + 1;
        let (all, lanes) = (here.chunks.max(it.coming.chunks) + 1, here.lanes.max(it.coming.lanes));
        // Time for the chunk at all of the rate, over the share.
        let (all, own) = (u128::from(all.max(own)), u128::from(own));
        let (all, own) = match u128::from(lanes.max(1)) {
            lanes if lanes * own < all => (lanes, 1),
            _ => (all, own),
        };
        let work = u128::from(length) * 1_000_000_000_000 * all;
        let rests = work.div_ceil(own * u128::from(rate));
        let rests = Time::from_ps(u64::try_from(rests).unwrap_or(u64::MAX));
        // One chunk that was late may be made up for.
        it.pace = it.pace.max(self.now.saturating_sub(rests)).saturating_add(rests);
    }

    /// A lane that waited for its time.
    pub(crate) fn end_pause(&mut self, lane: LaneId) {
        let it = &mut self.lanes[lane.at()];
        if it.paced && it.pace <= self.now && !self.bug.is(Planted::ForgetsPaced) {
            it.paced = false;
            self.wake_lane(lane);
        }
    }
}
