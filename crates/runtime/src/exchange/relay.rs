//! What a relay does: it hands on what two others say to each other.
//!
//! A tunnel is kept by its pair of ends: one at a time, over one connection of a lane to each. What comes is read into
//! memory and leaves in the order in which it came. A pair's ends bound what they have not acknowledged
//! ([`PARTS`], and [`Exchange::window`] of a relayed lane), so what is kept here of a pair is bounded, and nobody is
//! kept waiting: who sends more has broken that bound, and its connection is closed. A tunnel ends when a lane of it breaks or
//! may not be used any more, or either end says so; the other end is told, after what was kept for it. Then the ends send again, another way, what
//! was not acknowledged from end to end.

use super::connection::{Coming, Into};
use super::failure::LaneError;
use super::frame::HEADER;
use super::hello::{HELLO, TAG};
use super::lane::{Carried, Item};
use super::machine::Exchange;
use super::name::{ConnectionId, Endpoint, LaneId, Tunnel};
use super::relayed::{PARTS, RELAYED, Relayed};
use crate::planted::Planted;

/// An endpoint relays for so many pairs.
const PAIRS: usize = 1024;

impl Exchange {
    /// Whether a frame of a tunnel ends here; else it is to be handed on.
    pub(crate) fn is_end(&self, lane: LaneId, tunnel: Tunnel) -> Result<bool, LaneError> {
        let (me, it) = (self.settings.endpoint, &self.lanes[lane.at()]);
        let Tunnel { source, target, .. } = tunnel;
        let (peer, known) = (it.spec.peer, self.peer(source).is_some());
        let ends = target == me && source != peer && known;
        let passes = source == peer && target != me && target != peer;
        let may = self.settings.relays && !it.needs_relay() && (ends || passes);
        if may { Ok(ends) } else { Err(LaneError::Tunnel(tunnel)) }
    }

    /// A lane to a peer that needs no relay and may be used now, and its connection: over packets first.
    pub(crate) fn direct(&self, peer: usize) -> Option<(LaneId, ConnectionId)> {
        let lane = self.least(peer, false).or_else(|| self.least(peer, true))?;
        Some((lane, self.lanes[lane.at()].connection?))
    }

    /// An endpoint wants to reach another one by this one.
    pub(crate) fn relay(&mut self, lane: LaneId, connection: ConnectionId, tunnel: Tunnel) {
        self.end_relay(tunnel.pair(), None);
        self.forget_parts(tunnel.pair());
        let peer = self.peer(tunnel.target).filter(|&peer| !self.peers[peer].lost);
        let next = peer.and_then(|peer| self.direct(peer));
        let Some(next) = next.filter(|_| self.relayed.len() < PAIRS) else {
            return self.say_of_tunnel((lane, connection), Item::Shut(tunnel.back()));
        };
        let ends = [(lane, connection), next];
        let relayed = Relayed { number: tunnel.number, ends, held: [0; 2] };
        self.relayed.insert(tunnel.pair(), relayed);
        self.say_of_tunnel(next, Item::Open(tunnel));
    }

    /// Says something of a tunnel on a connection of a lane, if that may still be used.
    pub(crate) fn say_of_tunnel(&mut self, at: (LaneId, ConnectionId), item: Item) {
        let (lane, connection) = at;
        if self.lanes[lane.at()].connection == Some(connection) && self.usable(lane) {
            self.lanes[lane.at()].push(item);
            self.wake(connection);
        }
    }

    /// A part of a tunnel begins to come. Says where it goes.
    pub(crate) fn part_comes(
        &mut self,
        (lane, connection): (LaneId, ConnectionId),
        tunnel: Tunnel,
        length: u32,
    ) -> Result<(), LaneError> {
        let allowed = self.longest_part();
        if length > allowed {
            return Err(LaneError::Part { found: length, allowed });
        }
        let into = if self.is_end(lane, tunnel)? {
            let end = self.tunnels.get(&(tunnel.source, tunnel.number)).copied();
            let carried = |id: &ConnectionId| {
                let via = self.connections.get(id.0).and_then(|it| it.via);
                via.is_some_and(|via| via.carrier == connection)
            };
            end.filter(carried).map_or(Into::Nowhere, Into::End)
        } else if self.keeps((lane, connection), tunnel, length)? {
            Into::Next(vec![0; length as usize]) // no longer than a chunk and its header
        } else {
            Into::Nowhere
        };
        if let Some(it) = self.connections.get_mut(connection.0) {
            it.reader.relay = Some(Coming { tunnel, length, done: 0, into });
        }
        Ok(())
    }

    /// The longest part: a chunk with its header and an acknowledgement \[B\].
    fn longest_part(&self) -> u32 {
        (self.settings.chunk).saturating_add(2 * HEADER as u32).max((HELLO + TAG) as u32)
    }

    /// Whether a part is of a tunnel that is known here: then it is kept, if there is room.
    fn keeps(
        &self,
        at: (LaneId, ConnectionId),
        tunnel: Tunnel,
        length: u32,
    ) -> Result<bool, LaneError> {
        let it = self.relayed.get(&tunnel.pair()).filter(|it| it.number == tunnel.number);
        let Some((it, from)) = it.and_then(|it| Some((it, it.end(at.0, at.1)?))) else {
            return Ok(false);
        };
        let (found, allowed) = (it.held[1 - from] + u64::from(length), self.most_kept());
        if found <= allowed { Ok(true) } else { Err(LaneError::Kept { found, allowed }) }
    }

    /// What a relay keeps for one end of a pair at most: payload, and headers, acknowledgements and hellos \[B\].
    fn most_kept(&self) -> u64 {
        u64::from(self.settings.chunk.max(RELAYED))
            + (PARTS * 3 * HEADER + 2 * (HELLO + TAG)) as u64
    }

    /// What is kept here of others' connections \[B\].
    pub fn kept(&self) -> u64 {
        let part = |it: &Carried| if let Carried::Others(_, part) = it { part.len() } else { 0 };
        self.lanes.iter().flat_map(|lane| &lane.carried).map(part).sum::<usize>() as u64
    }

    /// Pairs of endpoints that this one relays for now.
    pub fn relays(&self) -> usize {
        self.relayed.len()
    }

    /// A part of a tunnel has come as a whole, to be handed on.
    pub(crate) fn hand_on(&mut self, at: (LaneId, ConnectionId), tunnel: Tunnel, bytes: Vec<u8>) {
        let twice = self.bug.is(Planted::HandsOnTwice);
        let it = self.relayed.get_mut(&tunnel.pair()).filter(|it| it.number == tunnel.number);
        let Some((it, from)) = it.and_then(|it| it.end(at.0, at.1).map(|from| (it, from))) else {
            return;
        };
        let (lane, connection) = it.ends[1 - from];
        for _ in 0..=usize::from(twice) {
            it.held[1 - from] += bytes.len() as u64;
            self.lanes[lane.at()].carried.push_back(Carried::Others(tunnel, bytes.clone()));
        }
        self.wake(connection);
    }

    /// What was kept of a tunnel leaves on a lane.
    pub(crate) fn handed_on(&mut self, lane: LaneId, tunnel: Tunnel, bytes: u64) {
        if let Some(it) = self.relayed.get_mut(&tunnel.pair()) {
            let ends = it.ends.iter().zip(&mut it.held);
            let held = ends.filter(|(end, _)| end.0 == lane).map(|(_, held)| held);
            held.for_each(|held| *held = held.saturating_sub(bytes));
        }
    }

    /// An end says that a tunnel is over.
    pub(crate) fn relay_is_over(&mut self, at: (LaneId, ConnectionId), tunnel: Tunnel) {
        let it = self.relayed.get(&tunnel.pair()).filter(|it| it.number == tunnel.number);
        if it.is_some_and(|it| it.end(at.0, at.1).is_some()) {
            self.end_relay(tunnel.pair(), Some(at.0));
        }
    }

    /// A tunnel is over: its ends are told after all that was kept for them, but for the one on the lane `but`.
    fn end_relay(&mut self, pair: (Endpoint, Endpoint), but: Option<LaneId>) {
        let Some(it) = self.relayed.remove(&pair) else { return };
        for (lane, connection) in it.ends {
            let other = self.lanes[lane.at()].spec.peer;
            let source = if other == pair.0 { pair.1 } else { pair.0 };
            let tunnel = Tunnel { source, target: other, number: it.number };
            if but != Some(lane) && self.lanes[lane.at()].connection == Some(connection) {
                self.lanes[lane.at()].carried.push_back(Carried::Over(tunnel));
                self.wake(connection);
            }
        }
    }

    /// Forgets what is kept of earlier tunnels of a pair.
    fn forget_parts(&mut self, pair: (Endpoint, Endpoint)) {
        let rests = |it: &Carried| !matches!(it, Carried::Others(of, _) if of.pair() == pair);
        self.lanes.iter_mut().for_each(|lane| lane.carried.retain(rests));
    }

    /// A lane is down, or may not be used: no tunnel leads over it any more.
    pub(crate) fn end_tunnels(&mut self, lane: LaneId) {
        let over = self.relayed.iter().filter(|(_, it)| it.ends.iter().any(|end| end.0 == lane));
        let over: Vec<_> = over.map(|(pair, _)| *pair).collect();
        over.into_iter().for_each(|pair| self.end_relay(pair, Some(lane)));
        let own = self.tunnels.values().copied().filter(|id| {
            let via = self.connections.get(id.0).and_then(|it| it.via);
            via.is_some_and(|via| via.lane == lane)
        });
        let own: Vec<ConnectionId> = own.collect();
        own.into_iter().for_each(|id| self.end(id, LaneError::Closed));
        self.lanes[lane.at()].carried.clear();
    }
}
