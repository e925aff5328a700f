//! Bytes come in: where they go, and what frames say.

use super::connection::{Incoming, header};
use super::failure::{Failure, LaneError};
use super::frame::{ChunkHeader, Frame, HEADER};
use super::lane::Item;
use super::load::Load;
use super::machine::Exchange;
use super::name::{ConnectionId, LaneId, OperationId};
use super::output::Space;
use super::ranges::There;
use crate::planted::Planted;
use lightloom_units::Time;

/// Where a chunk belongs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Memory(OperationId),
    Bounce,
    Nowhere,
}

impl Exchange {
    /// Where the next bytes of a connection go; `None` if it is not known here any more. The answer is good for one
    /// read, and until anything else is called.
    pub fn space(&mut self, connection: ConnectionId) -> Option<Space<'_>> {
        let it = self.connections.get(connection.0)?;
        if it.reader.relay.is_some() {
            return self.space_of_part(connection);
        }
        let (Some(lane), Some(incoming)) = (it.lane(), it.reader.chunk) else {
            return Some(Space::Buffer(self.connections.get_mut(connection.0)?.reader.space()));
        };
        let Incoming { header, done, .. } = incoming;
        let (peer, length) = (self.lanes[lane.at()].peer, header.length - done);
        let offset = header.offset + u64::from(done);
        match self.wanted(peer, &incoming) {
            Target::Memory(operation) => {
                Some(Space::Memory { operation, source: header.source, offset, length })
            }
            Target::Bounce => {
                let early = self.peers[peer].bounce.get_mut((header.group, header.number))?;
                let space = early.bytes.get_mut(offset as usize..header.end() as usize);
                space.map(Space::Buffer)
            }
            Target::Nowhere => {
                let it = self.connections.get_mut(connection.0)?;
                it.reader.chunk = Some(Incoming { sunk: true, ..incoming });
                Some(Space::Sink { length })
            }
        }
    }

    /// So many bytes were read to where [`Exchange::space`] said.
    pub fn filled(&mut self, now: Time, connection: ConnectionId, bytes: usize) {
        self.advance(now);
        let Some(it) = self.connections.get_mut(connection.0) else { return };
        if bytes == 0 {
            return;
        }
        if it.reader.relay.is_some() {
            self.part_filled(connection, bytes);
            return self.say_runtime();
        }
        let lane = it.lane().filter(|_| it.is_up());
        let whole = match &mut it.reader.chunk {
            Some(incoming) => {
                let left = incoming.header.length - incoming.done;
                incoming.done += bytes.min(left as usize) as u32;
                incoming.done == incoming.header.length
            }
            None => it.reader.read(bytes),
        };
        let of = it.lane();
        if let Some(lane) = lane {
            let peer = self.lanes[lane.at()].peer;
            self.peers[peer].heard = self.now;
        }
        if let Some(lane) = of {
            self.lanes[lane.at()].statistics.stream_bytes_received += bytes as u64;
        }
        if !whole {
            return;
        }
        let chunk = it.reader.chunk.take();
        let result = match (lane, chunk) {
            (Some(lane), Some(incoming)) => {
                self.lanes[lane.at()].statistics.frames_received += 1;
                self.keep(lane, incoming);
                self.count_chunk(lane, connection, &incoming.header);
                Ok(())
            }
            (Some(lane), None) => {
                let read = header(&it.reader.take(HEADER));
                self.frame(lane, connection, &read)
            }
            (None, _) => self.greeted(connection),
        };
        if let Err(error) = result {
            self.shut(connection, error);
        }
        self.say_runtime();
    }

    /// A header has come as a whole.
    fn frame(
        &mut self,
        lane: LaneId,
        connection: ConnectionId,
        bytes: &[u8; HEADER],
    ) -> Result<(), LaneError> {
        let peer = self.lanes[lane.at()].peer;
        let frame = Frame::decode(bytes)?;
        // A chunk is whole once its payload has come.
        let whole = !matches!(frame, Frame::Chunk(_));
        self.lanes[lane.at()].statistics.frames_received += u64::from(whole);
        match frame {
            Frame::Chunk(header) => {
                let operation = self.admit(lane, &header)?;
                self.lanes[lane.at()].marked = false;
                let incoming = Incoming { header, done: 0, sunk: false, operation };
                if let Some(it) = self.connections.get_mut(connection.0) {
                    it.reader.chunk = Some(incoming);
                }
                if self.bug.is(Planted::AcksBeforeReceipt) {
                    self.count(lane, connection);
                }
                return Ok(());
            }
            Frame::Ack { count, coming, lanes } => {
                self.lanes[lane.at()].coming = Load { chunks: coming, lanes };
                return self.acknowledged(lane, count);
            }
            Frame::Ready { group, number, bytes } => self.ready(peer, group, number, bytes)?,
            Frame::Fail { group, cause, endpoint, by } => {
                self.hear_failure(peer, Failure { group, cause, endpoint, by })?;
            }
            Frame::Mark { epoch } => {
                self.check_epoch(lane, epoch)?;
                let it = &mut self.lanes[lane.at()];
                it.epoch_in = it.epoch_in.wrapping_add(1);
                it.marked = true;
            }
            Frame::Beat => self.lanes[lane.at()].behind = 0, // else a chunk would have come
            Frame::Over { group, number } => self.hear_over(peer, group, number)?,
            Frame::Open(tunnel) => self.tunnel_opens(lane, connection, tunnel)?,
            Frame::Shut(tunnel) => self.tunnel_shuts(lane, connection, tunnel)?,
            Frame::Relay { tunnel, length, epoch } => {
                self.check_epoch(lane, epoch)?;
                return self.part_comes((lane, connection), tunnel, length);
            }
        }
        self.count(lane, connection);
        Ok(())
    }

    /// A chunk has come as a whole: it is acknowledged, with others if nobody waits for that.
    fn count_chunk(&mut self, lane: LaneId, connection: ConnectionId, header: &ChunkHeader) {
        let it = &mut self.lanes[lane.at()];
        if it.connection != Some(connection) {
            return;
        }
        it.held += u64::from(header.length);
        it.behind = header.behind;
        if header.asks || it.held >= self.settings.together.into() {
            return self.count(lane, connection);
        }
        it.received += 1;
        if it.confirm_at == Time::MAX {
            let by = self.now.saturating_add(self.settings.hold);
            it.confirm_at = by;
            self.schedule(by);
        }
    }

    /// A frame that is acknowledged at once has come as a whole.
    pub(crate) fn count(&mut self, lane: LaneId, connection: ConnectionId) {
        let it = &mut self.lanes[lane.at()];
        if it.connection == Some(connection) {
            it.received += 1;
            self.wake(connection);
        }
    }

    fn check_epoch(&self, lane: LaneId, found: u16) -> Result<(), LaneError> {
        let allowed = self.lanes[lane.at()].epoch_in;
        if found == allowed { Ok(()) } else { Err(LaneError::Epoch { found, allowed }) }
    }

    /// Where a chunk belongs by what is under way here.
    fn target(&self, peer: usize, header: &ChunkHeader) -> Result<Target, LaneError> {
        let ChunkHeader { group, number, .. } = *header;
        let Some(joined) = self.groups.get(&group) else {
            let over = self.has_left(group) || self.doomed.contains_key(&group);
            return Ok(if over { Target::Nowhere } else { Target::Bounce });
        };
        if !joined.has(self.peers[peer].endpoint) {
            return Err(LaneError::Member { group });
        }
        if joined.failed.is_some() {
            return Ok(Target::Nowhere);
        }
        if number >= joined.posted {
            return Ok(Target::Bounce);
        }
        Ok(joined.running.get(&number).map_or(Target::Nowhere, |&id| Target::Memory(id)))
    }

    /// Where a chunk that was let in goes now: nowhere if it has come meanwhile, or its operation is over.
    fn wanted(&self, peer: usize, incoming: &Incoming) -> Target {
        let Incoming { header, operation, .. } = incoming;
        let target = match *operation {
            Some(id) if self.operations.get(id.0).is_some() => Target::Memory(id),
            Some(id) if self.bug.is(Planted::KeepsPlaces) => return Target::Memory(id),
            Some(_) => Target::Nowhere,
            None => self.target(peer, header).unwrap_or(Target::Nowhere),
        };
        let got = match target {
            Target::Memory(id) => {
                let running = self.operations.get(id.0);
                running.and_then(|it| it.receiving(header.source)).map(|it| &it.got)
            }
            Target::Bounce => {
                let early = self.peers[peer].bounce.get((header.group, header.number));
                early.map(|early| &early.got)
            }
            Target::Nowhere => None,
        };
        let there = got.map(|got| got.there(header.offset, header.end()));
        let doubles = self.bug.is(Planted::CountsDoubles) && target != Target::Bounce;
        let twice = doubles && there == Some(There::All);
        if twice || there == Some(There::Nothing) { target } else { Target::Nowhere }
    }

    /// Looks whether a chunk may come as it says, and makes room for it if it comes early. Says to which operation
    /// it belongs, if that is under way.
    fn admit(
        &mut self,
        lane: LaneId,
        header: &ChunkHeader,
    ) -> Result<Option<OperationId>, LaneError> {
        let peer = self.lanes[lane.at()].peer;
        let (found, allowed) = (header.source, self.peers[peer].endpoint);
        if found != allowed {
            return Err(LaneError::Source { found, allowed });
        }
        self.check_epoch(lane, header.epoch)?;
        let ChunkHeader { group, number, offset, .. } = *header;
        let (end, name) = (header.end(), (group, number));
        let target = self.target(peer, header)?;
        let there = match target {
            Target::Memory(id) => {
                let running = self.operations.get(id.0);
                let receiving = running.and_then(|it| it.receiving(header.source));
                match receiving.filter(|it| end <= it.bytes) {
                    Some(receiving) => receiving.got.there(offset, end),
                    None => {
                        self.differs(group, allowed);
                        return Ok(None);
                    }
                }
            }
            Target::Bounce => {
                let boundless = self.bug.is(Planted::IgnoresAllowance);
                let most = if boundless { u64::MAX } else { self.settings.allowance.into() };
                let peer = &mut self.peers[peer];
                peer.bounce.reserve(name, end, most)?;
                let early = peer.bounce.get(name);
                early.map_or(There::Nothing, |early| early.got.there(offset, end))
            }
            Target::Nowhere => There::All,
        };
        if there == There::Part {
            return Err(LaneError::Overlap { group, number, offset, end });
        }
        match target {
            Target::Memory(id) => Ok(Some(id)),
            Target::Bounce | Target::Nowhere => Ok(None),
        }
    }

    /// A chunk has come as a whole.
    fn keep(&mut self, lane: LaneId, incoming: Incoming) {
        let Incoming { header, sunk, .. } = incoming;
        let peer = self.lanes[lane.at()].peer;
        let (start, end) = (header.offset, header.end());
        let target = if sunk { Target::Nowhere } else { self.wanted(peer, &incoming) };
        let statistics = &mut self.lanes[lane.at()].statistics;
        if target == Target::Nowhere {
            statistics.doubled += 1;
            return;
        }
        statistics.chunks_received += 1;
        statistics.bytes_received += u64::from(header.length);
        let mut sooner = 0; // where what came sooner ends
        if target == Target::Bounce
            && let Some(early) = self.peers[peer].bounce.get_mut((header.group, header.number))
        {
            sooner = early.got.end();
            early.got.insert(start, end);
        }
        if let Target::Memory(id) = target {
            let Some(running) = self.operations.get_mut(id.0) else { return };
            running.missing = running.missing.saturating_sub(u64::from(header.length));
            if let Some(receiving) = running.receiving_mut(header.source) {
                sooner = receiving.got.end();
                if receiving.got.there(start, end) == There::Nothing {
                    receiving.got.insert(start, end);
                }
            }
            self.finish(id);
        }
        self.lanes[lane.at()].statistics.out_of_order += u64::from(end <= sooner);
    }

    /// The peer has so many of this connection's frames.
    fn acknowledged(&mut self, lane: LaneId, found: u64) -> Result<(), LaneError> {
        let it = &mut self.lanes[lane.at()];
        let (least, most) = (it.acknowledged, it.written);
        if found < least || found > most {
            return Err(LaneError::Ack { found, least, most });
        }
        let (peer, port) = (it.peer, it.spec.port());
        it.progress = self.now;
        it.acknowledged = found;
        for _ in least..found {
            let Some(item) = self.lanes[lane.at()].flying.pop_front() else { break };
            self.lanes[lane.at()].in_flight -= item.bytes();
            if let Some(port) = port {
                self.runtime.landed(port);
            }
            match item {
                Item::Chunk(chunk) => {
                    if let Some(running) = self.operations.get_mut(chunk.operation.0) {
                        if self.bug.is(Planted::GivesBackOnAck) {
                            self.peers[peer].pledges.give_back((running.group, running.number));
                        }
                        running.unacknowledged -= u64::from(chunk.length);
                        let flow = running.flows.acknowledged(chunk.index, self.now);
                        self.finish(chunk.operation);
                        if let Some(flow) = flow {
                            self.flow_on(chunk.operation, flow);
                        }
                    }
                }
                Item::Fail(failure) => self.peers[peer].pledges.give_back_all(failure.group),
                Item::Ready { .. } | Item::Over { .. } | Item::Mark | Item::Beat => {}
                Item::Open(_) | Item::Shut(_) | Item::Part => {}
            }
        }
        self.wake_lane(lane);
        Ok(())
    }
}
