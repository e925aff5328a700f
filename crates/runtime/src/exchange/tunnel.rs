//! Connections of this endpoint that go by a relay.
//!
//! The lane of such a connection is dialed once no other lane to the peer may be used: peers that this endpoint
//! reaches are asked in turn ([`lightloom_circuits::failover::in_turn`]), until one of them reaches the peer. From then on
//! it is a connection as any other: it begins with a hello that both ends prove to each other, its frames are
//! counted and acknowledged from end to end, and what was not acknowledged when it ends goes another way. Its bytes
//! are parts of frames of the lane to the relay, and of the relay's lane to the peer. There they count as any
//! frame does: a circuit is drained of them, and nothing of them is put on it after its lease. It ends with either of these
//! lanes' connections, and when the dialer has another lane again.

use super::connection::{Into, Phase, Via};
use super::failure::LaneError;
use super::frame::Frame;
use super::hello::{HELLO, TAG, drawn};
use super::lane::{Carried, Dial, Item, Lane};
use super::machine::Exchange;
use super::name::{ConnectionId, LaneId, NO_NIC, OperationId, Tunnel};
use super::output::{Body, Space};
use super::relayed::RELAYED;
use super::settings::Settings;
use lightloom_circuits::failover::in_turn;

/// A part of a relayed connection that leaves.
pub(crate) struct Part {
    pub tunnel: Tunnel,
    /// First this,
    pub head: Vec<u8>,
    /// then this,
    pub body: Option<Body>,
    /// or what is handed on,
    pub others: Vec<u8>,
    /// or nothing any more.
    pub over: bool,
}

impl Exchange {
    /// The lane to a peer that goes by a relay.
    pub(crate) fn relay_lane(&self, peer: usize) -> Option<LaneId> {
        let mut lanes = self.peers[peer].lanes.iter().rev().copied();
        lanes.find(|lane| self.lanes[lane.at()].needs_relay())
    }

    /// Payload on a lane that may be without acknowledgement \[B\].
    pub(crate) fn window(&self, lane: LaneId) -> u32 {
        let Settings { window, chunk, .. } = self.settings;
        if self.lanes[lane.at()].needs_relay() { window.min(chunk.max(RELAYED)) } else { window }
    }

    /// Whether anybody needs a lane that is down.
    pub(crate) fn is_wanted(&self, lane: LaneId) -> bool {
        let peer = &self.peers[self.lanes[lane.at()].peer];
        !self.lanes[lane.at()].needs_relay() || peer.groups > 0 || !peer.waiting.is_empty()
    }

    /// Something waits for a lane to a peer.
    pub(crate) fn miss(&mut self, peer: usize) {
        let Some(lane) = self.relay_lane(peer) else { return };
        let soon = self.now.saturating_add(self.settings.retry);
        let it = &mut self.lanes[lane.at()];
        if let (Dial::Idle(at), true) = (it.dial, it.dials) {
            let at = if at < self.now { soon } else { at };
            it.dial = Dial::Idle(at);
            self.schedule(at);
        }
    }

    /// A lane to a peer may be used that needs no relay: what waits for one that does takes it.
    pub(crate) fn spare_relay(&mut self, peer: usize) {
        if let Some(lane) = self.relay_lane(peer) {
            self.reroute(lane);
            self.lanes[lane.at()].asked = 0;
        }
    }

    /// A relayed connection that is not needed and has nothing on it is closed by its dialer.
    pub(crate) fn end_unneeded(&mut self, lane: LaneId) {
        let it = &self.lanes[lane.at()];
        let (idle, said) = (it.is_idle(), it.received == it.confirmed);
        if let (Some(id), true, true) = (it.connection, it.needs_relay() && it.dials, idle && said)
            && !self.allowed(lane)
        {
            self.shut(id, LaneError::Unneeded);
        }
    }

    /// Asks the next relay.
    pub(crate) fn dig(&mut self, lane: LaneId) {
        let (peer, target) = (self.lanes[lane.at()].peer, self.lanes[lane.at()].spec.peer);
        let others = (0..self.peers.len()).filter(|&it| it != peer && !self.peers[it].lost);
        let reached: Vec<usize> = others.filter(|&it| self.direct(it).is_some()).collect();
        let reached = in_turn(reached, target.into());
        let Lane { asked, patience, .. } = self.lanes[lane.at()];
        let Some(next) = reached.get(asked).and_then(|&it| self.direct(it)) else {
            let at = self.now.saturating_add(patience);
            let it = &mut self.lanes[lane.at()];
            it.asked = 0;
            it.patience = patience.saturating_add(patience).min(self.settings.handshake);
            it.dial = Dial::Idle(at);
            return self.schedule(at);
        };
        self.lanes[lane.at()].asked += 1;
        self.dug += 1;
        let tunnel = Tunnel { source: self.settings.endpoint, target, number: self.dug };
        let nonce = self.draw(next.1, tunnel);
        let mine = self.hello(lane, nonce).encode();
        let id = self.open((NO_NIC, nonce), Phase::Dials { lane, mine }, HELLO + TAG, patience);
        self.lanes[lane.at()].dial = Dial::Hello(id);
        self.carry(id, next, tunnel);
        self.say_of_tunnel(next, Item::Open(tunnel));
        self.say(id, &mine);
    }

    /// What a hello over a relay needs: nobody has seen it, for it hangs on what was drawn for the lane to the relay.
    fn draw(&self, carrier: ConnectionId, tunnel: Tunnel) -> [u8; 16] {
        let drawn_there = self.connections.get(carrier.0).map_or([0; 16], |it| it.nonce);
        drawn(&self.settings.secret, &drawn_there, self.settings.endpoint, tunnel)
    }

    fn carry(&mut self, id: ConnectionId, (lane, carrier): (LaneId, ConnectionId), tunnel: Tunnel) {
        if let Some(it) = self.connections.get_mut(id.0) {
            it.via = Some(Via { lane, carrier, tunnel });
        }
        let peer =
            if tunnel.source == self.settings.endpoint { tunnel.target } else { tunnel.source };
        if let Some(old) = self.tunnels.insert((peer, tunnel.number), id) {
            self.end(old, LaneError::Replaced);
        }
    }

    /// Somebody opens a tunnel to this endpoint, or by it to another one.
    pub(crate) fn tunnel_opens(
        &mut self,
        lane: LaneId,
        connection: ConnectionId,
        tunnel: Tunnel,
    ) -> Result<(), LaneError> {
        if tunnel.source > tunnel.target {
            return Err(LaneError::Tunnel(tunnel));
        }
        if !self.is_end(lane, tunnel)? {
            self.relay(lane, connection, tunnel);
            return Ok(());
        }
        // One hello at a time of each peer: the dialer has given up the last.
        let ids = self.tunnels.range((tunnel.source, 0)..=(tunnel.source, u64::MAX));
        let ids: Vec<ConnectionId> = ids.map(|it| *it.1).collect();
        for id in ids {
            if !self.is_up(id) {
                self.end(id, LaneError::Replaced);
            }
        }
        let nonce = self.draw(connection, tunnel);
        let patience = self.settings.handshake;
        let id = self.open((NO_NIC, nonce), Phase::Accepts { nonce }, HELLO, patience);
        self.carry(id, (lane, connection), tunnel.back());
        Ok(())
    }

    /// Somebody says that a tunnel is over.
    pub(crate) fn tunnel_shuts(
        &mut self,
        lane: LaneId,
        connection: ConnectionId,
        tunnel: Tunnel,
    ) -> Result<(), LaneError> {
        if !self.is_end(lane, tunnel)? {
            self.relay_is_over((lane, connection), tunnel);
            return Ok(());
        }
        let id = self.tunnels.get(&(tunnel.source, tunnel.number)).copied();
        let via = id.and_then(|id| self.connections.get(id.0)).and_then(|it| it.via);
        if let (Some(id), true) = (id, via.is_some_and(|via| via.carrier == connection)) {
            self.end(id, LaneError::Closed);
        }
        Ok(())
    }

    /// Where the next bytes of a part go: as the connection says that it is of.
    pub(crate) fn space_of_part(&mut self, id: ConnectionId) -> Option<Space<'_>> {
        let coming = self.connections.get_mut(id.0)?.reader.relay.as_mut()?;
        let (left, done) = (coming.length - coming.done, coming.done as usize);
        let end = match &coming.into {
            Into::End(end) => *end,
            Into::Next(_) => {
                let coming = self.connections.get_mut(id.0)?.reader.relay.as_mut()?;
                let Into::Next(bytes) = &mut coming.into else { return None };
                return Some(Space::Buffer(&mut bytes[done..]));
            }
            Into::Nowhere => return Some(Space::Sink { length: left }),
        };
        if self.connections.get(end.0).is_none() {
            return Some(Space::Sink { length: left });
        }
        Some(match self.space(end)? {
            Space::Buffer(buffer) => {
                let length = buffer.len().min(left as usize);
                Space::Buffer(&mut buffer[..length])
            }
            Space::Memory { operation, source, offset, length } => {
                Space::Memory { operation, source, offset, length: length.min(left) }
            }
            Space::Sink { length } => Space::Sink { length: length.min(left) },
        })
    }

    /// So many bytes of a part have come.
    pub(crate) fn part_filled(&mut self, id: ConnectionId, bytes: usize) {
        let Some(it) = self.connections.get_mut(id.0) else { return };
        let (Some(lane), Some(coming)) = (it.lane(), it.reader.relay.as_mut()) else { return };
        coming.done += bytes.min((coming.length - coming.done) as usize) as u32;
        let end = if let Into::End(end) = coming.into { Some(end) } else { None };
        let whole = coming.done == coming.length;
        let part = if whole { it.reader.relay.take() } else { None };
        let peer = self.lanes[lane.at()].peer;
        self.peers[peer].heard = self.now;
        if let Some(end) = end {
            self.filled(self.now, end, bytes);
        }
        let Some(part) = part else { return };
        if let Into::Next(bytes) = part.into {
            self.hand_on((lane, id), part.tunnel, bytes);
        }
        self.count(lane, id);
    }

    /// The next part that leaves over a lane.
    pub(crate) fn next_part(&mut self, lane: LaneId) -> Option<Part> {
        while self.allowed(lane) {
            match self.lanes[lane.at()].carried.pop_front()? {
                Carried::Others(tunnel, others) => {
                    self.handed_on(lane, tunnel, others.len() as u64);
                    return Some(Part { tunnel, head: vec![], body: None, others, over: false });
                }
                Carried::Over(tunnel) => {
                    let (head, others) = (vec![], vec![]);
                    return Some(Part { tunnel, head, body: None, others, over: true });
                }
                Carried::Own(id) => {
                    if !self.load(id) {
                        self.connections.get_mut(id.0).into_iter().for_each(|it| it.asked = false);
                        continue;
                    }
                    let it = self.connections.get(id.0)?;
                    let (via, rest) = (it.via?, it.writer.rest());
                    let (head, body) = (rest.head.to_vec(), rest.body);
                    let bytes = head.len() + body.map_or(0, |body| body.length as usize);
                    self.sent(self.now, id, bytes);
                    self.lanes[lane.at()].carried.push_back(Carried::Own(id));
                    self.lend(body);
                    return Some(Part {
                        tunnel: via.tunnel,
                        head,
                        body,
                        others: vec![],
                        over: false,
                    });
                }
            }
        }
        None
    }

    /// Begins a part: what it is written as.
    pub(crate) fn begin_part(&mut self, lane: LaneId, part: &Part) -> Frame {
        let Part { tunnel, head, body, others, over } = part;
        let bytes = head.len() + others.len() + body.map_or(0, |body| body.length as usize);
        self.fly(lane, Item::Part);
        let it = &mut self.lanes[lane.at()];
        it.statistics.relayed += bytes as u64;
        if *over {
            return Frame::Shut(*tunnel);
        }
        Frame::Relay { tunnel: *tunnel, length: bytes as u32, epoch: it.epoch_out }
    }

    fn lend(&mut self, body: Option<Body>) {
        let running = body.and_then(|body| self.operations.get_mut(body.operation.0));
        running.into_iter().for_each(|it| it.lent += 1);
    }

    /// A lane is not in the midst of this memory any more.
    pub(crate) fn give_back(&mut self, operation: Option<OperationId>) {
        let Some(operation) = operation else { return };
        if let Some(running) = self.operations.get_mut(operation.0) {
            running.lent -= 1;
            self.finish(operation);
        }
    }
}
