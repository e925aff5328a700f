//! What happens because time has passed.

use super::failure::LaneError;
use super::lane::{Dial, Item};
use super::machine::Exchange;
use super::name::{ConnectionId, LaneId};
use crate::planted::Planted;
use lightloom_units::Time;

impl Exchange {
    /// When [`Exchange::timeout`] wants to be called.
    pub fn next_timeout(&self) -> Time {
        self.next
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Time) {
        self.advance(now);
        self.lapse();
        self.end_hellos();
        for lane in (0..self.lanes.len() as u32).map(LaneId) {
            self.confirm(lane);
            self.end_pause(lane);
            self.end_stall(lane);
            self.beat(lane);
            self.end_unneeded(lane);
            self.dial(lane);
        }
        self.lose_silent();
        self.say_runtime();
        self.next = self.earliest();
    }

    /// It is `now`. If this endpoint did not run when it should have, nobody is silent for that.
    pub(crate) fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        let late = self.now.saturating_sub(self.next);
        if late > self.settings.beat {
            self.next = self.now;
            for peer in &mut self.peers {
                peer.heard = peer.heard.saturating_add(late).min(self.now);
            }
            for lane in &mut self.lanes {
                lane.progress = lane.progress.saturating_add(late).min(self.now);
            }
        }
    }

    /// Wants to be called then, too.
    pub(crate) fn schedule(&mut self, at: Time) {
        self.next = self.next.min(at);
    }

    /// Hellos that take too long.
    fn end_hellos(&mut self) {
        let now = self.now;
        let late = self.connections.iter().filter(|(_, it)| !it.is_up() && it.due <= now);
        let late: Vec<ConnectionId> = late.map(|(key, _)| ConnectionId(key)).collect();
        late.into_iter().for_each(|connection| self.shut(connection, LaneError::Silent));
    }

    /// A connection on which nothing is acknowledged.
    fn end_stall(&mut self, lane: LaneId) {
        let it = &mut self.lanes[lane.at()];
        let due = it.progress.saturating_add(self.settings.stall);
        let Some(connection) = it.connection else { return };
        if !it.flying.is_empty() && due <= self.now && !self.bug.is(Planted::NeverStalls) {
            it.statistics.stalls += 1;
            it.statistics.stalled_ps += self.now.saturating_sub(it.progress).ps();
            self.shut(connection, LaneError::Stalled);
        }
    }

    /// Chunks that have waited for others to be acknowledged with.
    fn confirm(&mut self, lane: LaneId) {
        let it = &mut self.lanes[lane.at()];
        if it.confirm_at <= self.now {
            it.confirm_at = Time::MAX;
            self.wake_lane(lane);
        }
    }

    /// A lane that is idle for long says that somebody is there.
    fn beat(&mut self, lane: LaneId) {
        let it = &self.lanes[lane.at()];
        let due = it.spoke.saturating_add(self.settings.beat);
        if it.is_idle() && due <= self.now && self.usable(lane) {
            self.lanes[lane.at()].push(Item::Beat);
            self.wake_lane(lane);
        }
    }

    /// Peers of which nothing is heard.
    fn lose_silent(&mut self) {
        for peer in 0..self.peers.len() {
            let it = &self.peers[peer];
            let due = it.heard.saturating_add(self.settings.lost);
            let counts = it.groups > 0 && !it.lost && !self.bug.is(Planted::WaitsForEver);
            if counts && due <= self.now {
                self.lose(peer);
            }
        }
    }

    /// When anything is due.
    fn earliest(&self) -> Time {
        let settings = &self.settings;
        let hellos = self.connections.iter().filter(|(_, it)| !it.is_up());
        let hellos = hellos.map(|(_, it)| it.due);
        let peers = self.peers.iter().filter(|it| it.groups > 0 && !it.lost);
        let peers = peers.map(|it| it.heard.saturating_add(settings.lost));
        let leases = self.lit.iter().flatten().map(|lit| lit.1);
        let lanes = (0..self.lanes.len() as u32).map(|lane| self.lane_due(LaneId(lane)));
        let up = self.lanes.iter().any(|lane| lane.connection.is_some());
        let beat = self.now.saturating_add(settings.beat);
        let beat = if up { beat } else { Time::MAX };
        let all = hellos.chain(peers).chain(leases).chain(lanes).min().unwrap_or(Time::MAX);
        // What is due and stays undone (a lease that a planted bug forgets) is not due at once again.
        if all <= self.now { self.now.saturating_add(settings.beat) } else { all.min(beat) }
    }

    fn lane_due(&self, lane: LaneId) -> Time {
        let it = &self.lanes[lane.at()];
        let dial = match it.dial {
            Dial::Idle(at) if it.dials && it.connection.is_none() && self.allowed(lane) => {
                if self.is_wanted(lane) { at } else { Time::MAX }
            }
            _ => Time::MAX,
        };
        let stall = if it.connection.is_some() && !it.flying.is_empty() {
            it.progress.saturating_add(self.settings.stall)
        } else {
            Time::MAX
        };
        let pace = if it.paced { it.pace } else { Time::MAX };
        dial.min(stall).min(it.confirm_at).min(pace)
    }
}
