//! Which lane a frame takes.
//!
//! A chunk takes the lane of its plan if that may be used. Else it takes the circuit to the same peer that
//! may be used and has the fewest bytes before it, else the packet lane that has. A frame without payload
//! takes a packet lane first. If there is none, both go by a relay. If no lane is up, both wait. Of lanes that are alike, the first is taken.

use super::lane::Item;
use super::machine::Exchange;
use super::name::{LaneId, Medium};
use super::settings::OPERATIONS;
use crate::planted::Planted;

impl Exchange {
    /// Whether a lane may take something new.
    pub(crate) fn usable(&self, lane: LaneId) -> bool {
        let it = &self.lanes[lane.at()];
        it.connection.is_some() && self.allowed(lane)
    }

    /// Whether a lane may take something new once it is up.
    pub(crate) fn allowed(&self, lane: LaneId) -> bool {
        match self.lanes[lane.at()].spec.medium {
            Medium::Packet => true,
            Medium::Relay => self.direct(self.lanes[lane.at()].peer).is_none(),
            Medium::Circuit { .. } if self.bug.is(Planted::UsesDrainedPorts) => {
                self.may_speak(lane)
            }
            Medium::Circuit { port, peer } => self.runtime.circuit(self.now, port) == Some(peer),
        }
    }

    /// The lane with the fewest bytes before what is queued now, of packets or circuits.
    pub(crate) fn least(&self, peer: usize, circuits: bool) -> Option<LaneId> {
        let lanes = self.peers[peer].lanes.iter().copied();
        let kind = |lane: &LaneId| {
            let it = &self.lanes[lane.at()];
            !it.needs_relay() && it.spec.port().is_some() == circuits
        };
        let usable = lanes.filter(kind).filter(|&lane| self.usable(lane));
        usable.min_by_key(|lane| self.lanes[lane.at()].load())
    }

    /// The lane to a peer that goes by a relay, if there is no other and it may be used.
    fn roundabout(&self, peer: usize) -> Option<LaneId> {
        self.relay_lane(peer).filter(|&lane| self.usable(lane))
    }

    /// Queues a frame on a lane to a peer, or leaves it to wait. What goes to nobody is dropped.
    pub(crate) fn route(&mut self, peer: usize, item: Item) {
        if self.peers[peer].lost {
            return;
        }
        let lane = match item {
            Item::Chunk(chunk) => {
                let Some(running) = self.operations.get(chunk.operation.0) else { return };
                let planned = running.chunks[chunk.index as usize].lane;
                let other = || self.least(peer, true).or_else(|| self.least(peer, false));
                if self.usable(planned) { Some(planned) } else { other() }
            }
            _ => self.least(peer, false).or_else(|| self.least(peer, true)),
        };
        let lane = lane.or_else(|| self.roundabout(peer));
        match lane {
            // What is only an answer is not kept without end for a peer that asks and does not read.
            Some(lane)
                if matches!(item, Item::Over { .. })
                    && self.lanes[lane.at()].control.len() >= OPERATIONS => {}
            Some(lane) => {
                self.lanes[lane.at()].push(item);
                self.wake_lane(lane);
            }
            None => {
                self.peers[peer].waiting.push_back(item);
                self.miss(peer);
            }
        }
    }

    /// A lane has come up, or may be used again: what waits for one goes on.
    pub(crate) fn serve(&mut self, peer: usize) {
        if self.bug.is(Planted::ForgetsWaiting) {
            return;
        }
        for item in std::mem::take(&mut self.peers[peer].waiting) {
            self.route(peer, item);
        }
    }

    /// What is queued on a lane that may not be used goes elsewhere.
    pub(crate) fn reroute(&mut self, lane: LaneId) {
        let peer = self.lanes[lane.at()].peer;
        for item in self.lanes[lane.at()].take_queue() {
            self.route(peer, item);
        }
    }
}
