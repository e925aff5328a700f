//! Bytes go out: what a connection sends next.

use super::frame::{ChunkHeader, Frame};
use super::lane::{ChunkItem, Item};
use super::load::Load;
use super::machine::Exchange;
use super::name::{ConnectionId, LaneId, Medium};
use super::output::{Body, Transmit};
use super::relayed::PARTS;
use super::tunnel::Part;
use crate::planted::Planted;
use lightloom_units::Time;

/// What a lane says next.
enum Next {
    Item(Item),
    Part(Part),
}

impl Exchange {
    /// What a connection sends next, if anything; the answer is good until anything else is called. If nothing,
    /// [`super::Output::Send`] says when there is something again.
    pub fn transmit(&mut self, now: Time, connection: ConnectionId) -> Option<Transmit<'_>> {
        self.advance(now);
        if !self.load(connection) {
            self.connections.get_mut(connection.0)?.asked = false;
            return None;
        }
        Some(self.connections.get(connection.0)?.writer.rest())
    }

    /// So many bytes of what [`Exchange::transmit`] said were written, of head and body together.
    pub fn sent(&mut self, now: Time, connection: ConnectionId, bytes: usize) {
        self.advance(now);
        let Some(it) = self.connections.get_mut(connection.0) else { return };
        if let Some(lane) = it.lane() {
            self.lanes[lane.at()].statistics.stream_bytes_sent += bytes as u64;
        }
        if !it.writer.wrote(bytes) {
            return;
        }
        let (counts, lends) = (std::mem::take(&mut it.writer.counts), it.writer.lends.take());
        let lane = it.lane();
        if let Some(lane) = lane.filter(|_| counts) {
            self.lanes[lane.at()].written += 1;
        }
        self.give_back(lends);
        if let Some(lane) = lane {
            self.all_written(lane);
        }
    }

    /// Whether there is something to send, and it may be sent now.
    pub(crate) fn load(&mut self, connection: ConnectionId) -> bool {
        let Some(it) = self.connections.get(connection.0) else { return false };
        let (empty, up) = (it.writer.is_empty(), it.is_up());
        let Some(lane) = it.lane() else { return false };
        let begins = self.lanes[lane.at()].needs_relay() || self.allowed(lane);
        if !self.may_speak(lane) || !up && !begins {
            return false; // hello is not counted on circuits, so it waits for one that may take something new
        }
        if !empty || !up {
            return !empty;
        }
        let ack = self.ack(lane);
        let next = self.next(lane);
        if ack.is_none() && next.is_none() {
            return false;
        }
        let frames = u64::from(ack.is_some()) + u64::from(next.is_some());
        self.lanes[lane.at()].statistics.frames_sent += frames;
        let (item, part) = match next {
            Some(Next::Item(item)) => (Some(self.begin(lane, item)), None),
            Some(Next::Part(part)) => (None, Some((self.begin_part(lane, &part), part))),
            None => (None, None),
        };
        let Some(it) = self.connections.get_mut(connection.0) else { return false };
        if let Some(ack) = ack {
            it.writer.push(&ack.encode());
        }
        if let Some((frame, body)) = item {
            it.writer.push(&frame.encode());
            (it.writer.body, it.writer.counts) = (body, true);
        }
        if let Some((frame, Part { head, body, others, .. })) = part {
            it.writer.push(&frame.encode());
            it.writer.push(&head);
            it.writer.hand_on(others);
            (it.writer.body, it.writer.counts) = (body, true);
            it.writer.lends = body.map(|body| body.operation);
        }
        true
    }

    /// What comes next: frames without payload first, then chunks and relayed connections in turn.
    fn next(&mut self, lane: LaneId) -> Option<Next> {
        if !self.lanes[lane.at()].control.is_empty() {
            return self.next_control(lane).map(Next::Item);
        }
        let first = std::mem::take(&mut self.lanes[lane.at()].turn);
        let part = if first { self.next_counted_part(lane) } else { None };
        if part.is_some() {
            return part.map(Next::Part);
        }
        if let Some(chunk) = self.next_chunk(lane) {
            self.lanes[lane.at()].turn = true;
            return Some(Next::Item(chunk));
        }
        if first { None } else { self.next_counted_part(lane).map(Next::Part) }
    }

    fn next_counted_part(&mut self, lane: LaneId) -> Option<Part> {
        let part = self.next_part(lane)?;
        let counted = self.count_on_circuit(lane);
        debug_assert!(counted, "`next_part` has looked whether the lane may be used");
        Some(part)
    }

    /// What is to be acknowledged.
    fn ack(&mut self, lane: LaneId) -> Option<Frame> {
        let it = &mut self.lanes[lane.at()];
        let due = it.received > it.confirmed;
        it.confirmed = it.received;
        (it.held, it.confirm_at) = (0, Time::MAX);
        let count = it.received;
        due.then(|| {
            let Load { chunks, lanes } = self.coming(lane);
            Frame::Ack { count, coming: chunks, lanes }
        })
    }

    /// The next frame without payload, if it may be begun. A mark was counted on its circuit when it was queued.
    fn next_control(&mut self, lane: LaneId) -> Option<Item> {
        let control = *self.lanes[lane.at()].control.front()?;
        let may = control == Item::Mark || self.has_place(lane) && self.count_on_circuit(lane);
        if may { self.lanes[lane.at()].control.pop_front() } else { None }
    }

    /// Whether another frame may be on its way: only relays bound their number.
    fn has_place(&self, lane: LaneId) -> bool {
        let it = &self.lanes[lane.at()];
        !it.needs_relay() || it.flying.len() < PARTS
    }

    /// The next chunk, if it may be begun.
    fn next_chunk(&mut self, lane: LaneId) -> Option<Item> {
        while let Some(chunk) = self.lanes[lane.at()].chunks.front().copied() {
            let lives = self.operations.get(chunk.operation.0).is_some();
            let in_flight = self.lanes[lane.at()].in_flight;
            let fits = in_flight + u64::from(chunk.length) <= self.window(lane).into()
                || self.bug.is(Planted::IgnoresWindows);
            let fits = fits && self.has_place(lane) && self.within_share(lane, chunk.length);
            if lives && !(fits && self.on_time(lane) && self.count_on_circuit(lane)) {
                return None;
            }
            let chunk = self.lanes[lane.at()].pop_chunk();
            if lives {
                return chunk.map(Item::Chunk);
            }
        }
        None
    }

    /// Counts a frame on the circuit that a lane crosses, if it crosses one that may be used.
    fn count_on_circuit(&mut self, lane: LaneId) -> bool {
        match self.lanes[lane.at()].spec.medium {
            Medium::Packet | Medium::Relay => true,
            Medium::Circuit { port, .. } => {
                self.allowed(lane)
                    && (self.runtime.begin(self.now, port).is_some()
                        || self.bug.is(Planted::UsesDrainedPorts))
            }
        }
    }

    /// Counts a frame that is begun.
    pub(crate) fn fly(&mut self, lane: LaneId, item: Item) {
        let it = &mut self.lanes[lane.at()];
        if it.flying.is_empty() {
            it.progress = self.now;
            let due = self.now.saturating_add(self.settings.stall);
            self.next = self.next.min(due);
        }
        it.spoke = self.now;
        it.flying.push_back(item);
        it.in_flight += item.bytes();
    }

    /// Begins a frame.
    fn begin(&mut self, lane: LaneId, item: Item) -> (Frame, Option<Body>) {
        self.fly(lane, item);
        let it = &mut self.lanes[lane.at()];
        match item {
            Item::Chunk(chunk) => self.begin_chunk(lane, chunk),
            Item::Ready { group, number, bytes } => (Frame::Ready { group, number, bytes }, None),
            Item::Over { group, number } => (Frame::Over { group, number }, None),
            Item::Fail(failure) => {
                let super::failure::Failure { group, cause, endpoint, by } = failure;
                (Frame::Fail { group, cause, endpoint, by }, None)
            }
            Item::Mark => {
                let epoch = it.epoch_out;
                it.epoch_out = epoch.wrapping_add(1);
                (Frame::Mark { epoch }, None)
            }
            Item::Open(tunnel) => (Frame::Open(tunnel), None),
            Item::Shut(tunnel) => (Frame::Shut(tunnel), None),
            // Parts are begun by `begin_part`.
            Item::Beat | Item::Part => (Frame::Beat, None),
        }
    }

    fn begin_chunk(&mut self, lane: LaneId, item: ChunkItem) -> (Frame, Option<Body>) {
        let follows = self.follows(lane, &item);
        // What is to be sent next may wait for an acknowledgement: one is asked for four times while what may be in flight
        // is begun, and so in time.
        let much = u64::from(self.window(lane)).min(self.share(lane)) / 4;
        let it = &mut self.lanes[lane.at()];
        it.unasked += u64::from(item.length);
        let (operation, epoch) = (item.operation, it.epoch_out);
        // The operation lives: `next_item` has looked.
        let Some(running) = self.operations.get(operation.0) else { return (Frame::Beat, None) };
        let chunk = running.chunks[item.index as usize];
        it.statistics.chunks_sent += 1;
        it.statistics.bytes_sent += u64::from(chunk.length);
        it.statistics.detours += u64::from(chunk.lane != lane);
        let of_flow = running.flows.of(item.index as usize).is_some();
        let asks = !follows || of_flow || it.unasked >= much;
        it.unasked = if asks { 0 } else { it.unasked };
        let header = ChunkHeader {
            group: running.group,
            number: running.number,
            source: self.settings.endpoint,
            epoch,
            offset: chunk.offset,
            length: chunk.length,
            asks,
            behind: it.chunks.len().min(usize::from(u16::MAX)) as u16,
        };
        self.set_pace(lane, item.length);
        let (peer, offset, length) = (chunk.peer, chunk.offset, chunk.length);
        (Frame::Chunk(header), Some(Body { operation, peer, offset, length }))
    }

    /// Whether another chunk of the operation comes right behind: nobody waits for this one alone.
    fn follows(&self, lane: LaneId, item: &ChunkItem) -> bool {
        let it = &self.lanes[lane.at()];
        let next = it.chunks.front();
        !it.needs_relay() && next.is_some_and(|next| next.operation == item.operation)
    }
}
