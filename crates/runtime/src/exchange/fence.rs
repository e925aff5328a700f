//! Circuits come and go: what the agent says, the end of leases, the mark that ends an epoch.

use super::failure::LaneError;
use super::lane::Item;
use super::machine::Exchange;
use super::name::{LaneId, Medium};
use crate::planted::Planted;
use lightloom_control::{PortId, Use};
use lightloom_units::Time;

impl Exchange {
    /// The agent tells which circuits to use, and until when.
    pub fn told(&mut self, now: Time, told: Use) {
        self.advance(now);
        for port in 0..self.lit.len() {
            let Some(circuit) = told.circuits.get(port).copied().flatten() else { continue };
            if self.lit[port].is_some_and(|lit| lit.0 != circuit) {
                self.darken(port as u16, Some(circuit));
            }
            self.lit[port] = Some((circuit, told.until));
            let anew = self.runtime.circuit(now, port as u16) != Some(circuit);
            for lane in self.lanes_of(port as u16).into_iter().filter(|_| anew) {
                self.await_no_mark(lane); // a drain that was given up
                self.lanes[lane.at()].marked = false;
            }
        }
        self.schedule(told.until.max(now));
        self.runtime.told(told);
        self.circuits_changed();
    }

    /// The agent wants these ports drained: nothing new goes on them, and what is in flight is closed by a mark.
    ///
    /// A port is drained once the peer has acknowledged all, its own mark has come, and that has been acknowledged.
    /// Whoever said so sooner would have his NIC's filter closed, and what the peer has in flight would never be
    /// acknowledged. Over circuits of one direction no mark comes back, and the answers take other NICs.
    pub fn drain(&mut self, now: Time, token: u64, ports: &[u16]) {
        self.advance(now);
        let mut marked = Vec::new();
        let lanes: Vec<LaneId> = ports.iter().flat_map(|&port| self.lanes_of(port)).collect();
        for lane in lanes {
            let it = &self.lanes[lane.at()];
            let Medium::Circuit { port, peer } = it.spec.medium else { continue };
            let open = self.runtime.circuit(self.now, port) == Some(peer);
            if it.connection.is_none() || !open {
                continue;
            }
            let counted = !self.bug.is(Planted::ForgetsMarks);
            if !counted || self.runtime.begin(self.now, port).is_some() {
                marked.push(lane);
            }
            let answers = counted && !self.settings.one_way;
            if answers && !self.answered(lane) && self.runtime.begin(self.now, port).is_some() {
                self.lanes[lane.at()].awaits = true;
            }
        }
        self.fences.ask(token, self.now);
        self.runtime.drain(token, ports);
        self.circuits_changed();
        for lane in marked {
            self.lanes[lane.at()].push(Item::Mark);
            self.wake_lane(lane);
        }
    }

    /// The agent is gone, or is another: what it allowed is over.
    pub fn forsaken(&mut self, now: Time) {
        self.advance(now);
        self.fences.forget();
        self.runtime.forsaken();
        (0..self.lanes.len() as u32).for_each(|lane| self.await_no_mark(LaneId(lane)));
        self.circuits_changed();
    }

    /// Leases that have ended: a circuit with anything on it is closed.
    pub(crate) fn lapse(&mut self) {
        let ended = |lit: &Option<_>| lit.is_some_and(|(_, until)| until <= self.now);
        let ports = (0..).zip(&self.lit).filter(|(_, lit)| ended(lit));
        let ports: Vec<u16> = ports.map(|(port, _)| port).collect();
        if ports.is_empty() || self.bug.is(Planted::ForgetsLeases) {
            return;
        }
        for port in ports {
            self.darken(port, None);
            self.lit[usize::from(port)] = None;
        }
        self.circuits_changed();
    }

    /// Nothing more goes over the port's circuit: connections with anything on them are closed, but for those
    /// over the one that takes its place: its other end may have been told sooner, and has begun.
    fn darken(&mut self, port: u16, next: Option<PortId>) {
        for lane in self.lanes_of(port) {
            let Medium::Circuit { peer, .. } = self.lanes[lane.at()].spec.medium else { continue };
            if next == Some(peer) {
                continue;
            }
            self.await_no_mark(lane);
            let connection = self.lanes[lane.at()].connection;
            if let Some(connection) = connection.filter(|_| !self.is_clean(lane)) {
                self.shut(connection, LaneError::LeaseEnded);
            }
        }
    }

    /// All that was begun over a lane has been written.
    pub(crate) fn all_written(&mut self, lane: LaneId) {
        if self.lanes[lane.at()].awaits && self.answered(lane) {
            self.await_no_mark(lane);
            self.say_runtime();
        }
    }

    /// The peer's mark has come, and its acknowledgement has been written.
    fn answered(&self, lane: LaneId) -> bool {
        let it = &self.lanes[lane.at()];
        let connection = it.connection.and_then(|it| self.connections.get(it.0));
        let written =
            it.received == it.confirmed && connection.is_none_or(|it| it.writer.is_empty());
        it.marked && written
    }

    /// The peer's mark has come over a lane and is answered, or will not come any more.
    pub(crate) fn await_no_mark(&mut self, lane: LaneId) {
        let it = &mut self.lanes[lane.at()];
        if let Some(port) = it.spec.port().filter(|_| std::mem::take(&mut it.awaits)) {
            self.runtime.landed(port);
        }
    }

    /// Nothing is on a lane, in either direction, as far as this end knows.
    fn is_clean(&self, lane: LaneId) -> bool {
        let it = &self.lanes[lane.at()];
        let connection = it.connection.and_then(|it| self.connections.get(it.0));
        let said = it.flying.is_empty() && it.control.is_empty() && it.received == it.confirmed;
        let said = said && it.carried.is_empty();
        said && connection.is_none_or(|it| it.writer.is_empty() && it.reader.is_empty())
    }

    /// Which circuits may be used has changed.
    fn circuits_changed(&mut self) {
        let lanes = (0..).zip(&self.lanes).filter(|(_, lane)| lane.spec.port().is_some());
        let lanes: Vec<LaneId> = lanes.map(|(lane, _)| LaneId(lane)).collect();
        for &lane in &lanes {
            if self.usable(lane) {
                let peer = self.lanes[lane.at()].peer;
                self.serve(peer);
                self.spare_relay(peer);
            } else if self.lanes[lane.at()].connection.is_some() {
                self.end_tunnels(lane);
                self.reroute(lane);
                let peer = self.lanes[lane.at()].peer;
                self.miss(peer);
            }
            self.dial(lane);
            self.wake_circuit(lane);
        }
        self.say_runtime();
    }

    /// Connections that may have waited for their circuit.
    fn wake_circuit(&mut self, lane: LaneId) {
        if self.may_speak(lane) {
            let of = |it: &super::connection::Connection| it.lane() == Some(lane);
            let waiting = self.connections.iter().filter(|(_, it)| of(it)).map(|(key, _)| key);
            for key in waiting.collect::<Vec<_>>() {
                self.wake(super::name::ConnectionId(key));
            }
        }
    }
}
