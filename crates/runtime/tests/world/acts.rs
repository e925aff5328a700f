//! What an endpoint does when it may run.

use super::event::Event;
use super::invariant::{BYTES, DRAINED, DRAINING, HANDED_BACK, LEASE, LIT, broken};
use super::scenario::World;
use super::wire::{End, Pipe, Wire};
use lightloom_control::RuntimeOutput;
use lightloom_runtime::exchange::frame::Frame;
use lightloom_runtime::exchange::*;

impl World {
    /// Lets an endpoint do all that it can.
    pub fn run(&mut self, at: usize) {
        if !self.nodes[at].runs() {
            return;
        }
        loop {
            let mut busy = self.carry_out(at);
            let sockets: Vec<_> = self.nodes[at].sockets.keys().copied().collect();
            for connection in sockets {
                busy |= self.read(at, connection);
                busy |= self.carry_out(at);
            }
            let sending: Vec<_> = self.nodes[at].sending.iter().copied().collect();
            for connection in sending {
                busy |= self.write(at, connection);
                busy |= self.carry_out(at);
            }
            if !busy || self.broken.is_some() {
                return;
            }
        }
    }

    /// Does what the endpoint wants done.
    pub fn carry_out(&mut self, at: usize) -> bool {
        let mut any = false;
        while let Some(output) = self.nodes[at].exchange.as_mut().and_then(Exchange::poll) {
            any = true;
            self.output(at, output);
        }
        any
    }

    pub fn output(&mut self, at: usize, output: Output) {
        if !matches!(output, Output::Send { .. } | Output::Early { .. }) {
            self.note(|| format!("endpoint {at}: {output:?}"));
        }
        match output {
            Output::Dial { lane } => self.dial(at, lane),
            Output::Send { connection } => {
                self.nodes[at].sending.insert(connection);
            }
            Output::Close { connection, error } => {
                self.peers_behave(at, error);
                self.close(at, connection);
            }
            Output::Up { lane } => {
                let own = (lane.0 as usize) < self.shape.lanes[at].len();
                self.tally(if own { "lane up" } else { "lane up by a relay" });
            }
            Output::Down { error, .. } => self.went_down(at, error),
            Output::Early { operation, source, bytes } => self.early(at, operation, source, &bytes),
            Output::Done { operation } => self.done(at, operation),
            Output::Failed { operation, .. } => self.failed(at, operation),
            Output::GroupFailed(failure) => self.group_failed(at, failure),
            Output::Lost { endpoint } => self.peer_lost(at, usize::from(endpoint)),
            Output::Runtime(RuntimeOutput::Drained { token }) => self.is_drained(at, token),
            Output::Runtime(RuntimeOutput::Using { .. }) => {}
        }
    }

    fn went_down(&mut self, at: usize, error: LaneError) {
        self.peers_behave(at, error);
        self.tally(match error {
            LaneError::Closed => "lane down: closed",
            LaneError::Replaced => "lane down: replaced",
            LaneError::Stalled => "lane down: stalled",
            LaneError::LeaseEnded => "lane down: lease ended",
            LaneError::HalfSent => "lane down: half-sent chunk of a failed group",
            LaneError::Unneeded => "lane down: needs no relay any more",
            _ => "lane down: peer",
        });
    }

    fn early(&mut self, at: usize, operation: OperationId, source: u16, bytes: &[u8]) {
        self.tally("early bytes");
        let memory = self.nodes[at].memory.get_mut(&operation);
        let place = memory.and_then(|memory| memory.receives.get_mut(&source));
        match place.and_then(|place| place.1.get_mut(..bytes.len())) {
            Some(place) => place.copy_from_slice(bytes),
            None => self
                .fail(broken(HANDED_BACK, format!("endpoint {at}: early bytes of {operation:?}"))),
        }
    }

    /// A drain is said to be over: nothing that is acknowledged may be on its way.
    fn is_drained(&mut self, at: usize, token: u64) {
        let Some(ports) = self.nodes[at].drains.remove(&token) else { return };
        for &(wire, end) in self.nodes[at].sockets.values() {
            let it = &self.wires[wire];
            let Some(own) = it.ports.map(|both| both[end]) else { continue };
            if ports.contains(&own.1) && !it.dead && it.pipes[end].counts() {
                let what = format!("endpoint {at}, port {}: frames are on their way", own.1);
                return self.fail(broken(DRAINED, what));
            }
        }
        self.tally("ports drained");
        self.optics.released(at, token);
    }

    fn dial(&mut self, at: usize, lane: LaneId) {
        let spec = self.shape.lanes[at][lane.0 as usize];
        let (nonce, now, peer) = (self.chance.nonce(), self.now, usize::from(spec.peer));
        let Some(exchange) = &mut self.nodes[at].exchange else { return };
        let Ok(connection) = exchange.dialed(now, lane, nonce) else { return };
        let end = |node: usize, life, nic, connection| End { node, life, nic, connection };
        let ends = [
            end(at, self.nodes[at].life, spec.nic, Some(connection)),
            end(peer, self.nodes[peer].life, spec.peer_nic, None),
        ];
        let ports = match spec.medium {
            Medium::Packet | Medium::Relay => None,
            Medium::Circuit { port, peer } => Some([(at as u16, port), peer]),
        };
        let dark = ports.is_some_and(|ports| !self.optics.stands(ports[0], ports[1]));
        let gone = ports.is_none() && [at, peer].iter().any(|&end| now < self.stranded[end]);
        let dead = dark || gone || self.apart.contains_key(&(at.min(peer), at.max(peer)));
        self.wires.push(Wire { ends, ports, pipes: [Pipe::default(), Pipe::default()], dead });
        let wire = self.wires.len() - 1;
        self.nodes[at].sockets.insert(connection, (wire, 0));
        if dark {
            return self
                .fail(broken(LIT, format!("endpoint {at} dials over a dark port: {ports:?}")));
        }
        let later = self.late();
        if dead {
            self.at(later, Event::Closed { wire, end: 0 });
        } else {
            self.at(later, Event::Accept { wire });
        }
    }

    /// The other end of a wire comes to its endpoint.
    pub fn accept(&mut self, wire: usize) {
        let end = self.wires[wire].ends[1];
        let (nonce, now, node) = (self.chance.nonce(), self.now, &mut self.nodes[end.node]);
        let alive = node.life == end.life && !self.wires[wire].dead;
        let accepted =
            node.exchange.as_mut().filter(|_| alive).map(|it| it.accepted(now, end.nic, nonce));
        match accepted {
            Some(Ok(connection)) => {
                node.sockets.insert(connection, (wire, 1));
                self.wires[wire].ends[1].connection = Some(connection);
                self.dirty.insert(end.node);
            }
            _ => {
                self.wires[wire].dead = true;
                let later = self.late();
                self.at(later, Event::Closed { wire, end: 0 });
            }
        }
    }

    /// An endpoint closes a connection; the other end hears of it, mostly.
    fn close(&mut self, at: usize, connection: ConnectionId) {
        self.nodes[at].sending.remove(&connection);
        self.nodes[at].midst.remove(&connection);
        let Some((wire, end)) = self.nodes[at].sockets.remove(&connection) else { return };
        self.wires[wire].ends[end].connection = None;
        self.wires[wire].pipes[end].cut(&mut self.chance);
        self.wires[wire].dead = true;
        if self.chance.hit(850) || self.wires[wire].ends[1 - end].connection.is_none() {
            let later = self.late();
            self.at(later, Event::Closed { wire, end: 1 - end });
        }
    }

    /// An end of a wire hears that it is closed.
    pub fn hears_close(&mut self, wire: usize, end: usize) {
        let End { node, life, connection, .. } = self.wires[wire].ends[end];
        let Some(connection) = connection.filter(|_| self.nodes[node].life == life) else { return };
        self.wires[wire].ends[end].connection = None;
        let (now, node_) = (self.now, &mut self.nodes[node]);
        node_.sending.remove(&connection);
        node_.midst.remove(&connection);
        if node_.sockets.remove(&connection).is_some()
            && let Some(exchange) = &mut node_.exchange
        {
            exchange.closed(now, connection);
        }
        self.dirty.insert(node);
    }

    /// Reads once from a connection.
    fn read(&mut self, at: usize, connection: ConnectionId) -> bool {
        let Some(&(wire, end)) = self.nodes[at].sockets.get(&connection) else { return false };
        let (now, from) = (self.now, &mut self.wires[wire].pipes[1 - end]);
        if !from.is_ready(now) {
            return false;
        }
        let node = &mut self.nodes[at];
        let Some(exchange) = &mut node.exchange else { return false };
        let most = 1 + self.chance.below(400) as usize;
        let (mut read, mut fault) = (0, None);
        match exchange.space(connection) {
            None => fault = Some((HANDED_BACK, format!("{connection:?} is not known"))),
            Some(Space::Buffer(buffer)) => {
                let most = most.min(buffer.len());
                let mut place = buffer.iter_mut();
                from.read(now, most, |byte| {
                    read += 1;
                    place.next().into_iter().for_each(|place| *place = byte);
                });
            }
            Some(Space::Sink { length }) => {
                read = from.read(now, most.min(length as usize), |_| ())
            }
            Some(Space::Memory { operation, source, offset, length }) => {
                let memory = node.memory.get_mut(&operation);
                let receive = memory.and_then(|memory| memory.receives.get_mut(&source));
                let start = offset as usize;
                let place = receive.and_then(|(pattern, bytes)| {
                    let place = bytes.get_mut(start..start + length as usize)?;
                    Some((*pattern, place))
                });
                if let Some((pattern, place)) = place {
                    read = from.read(now, most.min(place.len()), |byte| {
                        place[read] = byte;
                        read += 1;
                    });
                    if !pattern.is(offset, &place[..read]) {
                        fault = Some((BYTES, format!("{pattern:?} at {offset}, {read} B")));
                    }
                } else {
                    let what = format!("{operation:?} gets {length} B at {offset} from {source}");
                    fault = Some((HANDED_BACK, what));
                }
            }
        }
        if let Some((invariant, what)) = fault {
            self.fail(broken(invariant, format!("endpoint {at}: {what}")));
            return false;
        }
        exchange.filled(now, connection, read);
        let writer = self.wires[wire].ends[1 - end];
        if let Some(other) =
            writer.connection.filter(|_| self.nodes[writer.node].life == writer.life)
            && self.nodes[writer.node].sending.contains(&other)
        {
            self.dirty.insert(writer.node);
        }
        true
    }

    /// Writes once to a connection.
    fn write(&mut self, at: usize, connection: ConnectionId) -> bool {
        let Some(&(wire, end)) = self.nodes[at].sockets.get(&connection) else {
            self.nodes[at].sending.remove(&connection);
            return false;
        };
        let room = self.shape.pipe.saturating_sub(self.wires[wire].pipes[end].held);
        if room == 0 {
            return false;
        }
        let (now, node) = (self.now, &mut self.nodes[at]);
        let Some(exchange) = &mut node.exchange else { return false };
        let Some(Transmit { head, body }) = exchange.transmit(now, connection) else {
            node.sending.remove(&connection);
            return false;
        };
        let mut bytes = head.to_vec();
        if let Some(body) = body {
            let memory = node.memory.get(&body.operation);
            let Some(pattern) = memory.and_then(|it| it.sends.get(&body.peer)) else {
                let what = format!("endpoint {at} sends {body:?}");
                self.fail(broken(HANDED_BACK, what));
                return false;
            };
            bytes.extend(pattern.bytes(body.offset).take(body.length as usize));
        }
        let most =
            if self.chance.hit(300) { 1 + self.chance.below(room as u64) } else { room as u64 };
        let whole = bytes.len();
        bytes.truncate(most as usize);
        let written = bytes.len();
        exchange.sent(now, connection, written);
        self.put(at, connection, (wire, end), bytes, written == whole);
        true
    }

    /// Bytes are on a wire.
    fn put(
        &mut self,
        at: usize,
        connection: ConnectionId,
        (wire, end): (usize, usize),
        bytes: Vec<u8>,
        whole: bool,
    ) {
        let (now, later) = (self.now, self.late());
        let node = &mut self.nodes[at];
        let it = &mut self.wires[wire];
        let own = it.ports.map(|both| usize::from(both[end].1));
        let drains = own.is_some_and(|port| node.draining[port]);
        let drained_at_first = *node.midst.entry(connection).or_insert(drains);
        if whole {
            node.midst.remove(&connection);
        }
        let (greets, mut frames, length) = (it.pipes[end].greets(), Vec::new(), bytes.len());
        let arrives = it.pipes[end].write(now, later.saturating_sub(now), bytes, &mut frames);
        let counted = it.pipes[end].counted();
        if let (Some(ports), Some(own)) = (it.ports, own) {
            let told = node.granted[own];
            let leased = told.is_some_and(|(peer, until)| peer == ports[1 - end] && now < until);
            let stands = self.optics.stands(ports[0], ports[1]);
            let begun = |frame: &Frame| !matches!(frame, Frame::Ack { .. } | Frame::Mark { .. });
            let what = format!("endpoint {at}, port {own}: {length} B, {frames:?}, told {told:?}");
            if !leased {
                self.fail(broken(LEASE, what));
            } else if !stands && (greets || counted) {
                self.fail(broken(LIT, what));
            } else if drained_at_first && frames.iter().any(begun) {
                self.fail(broken(DRAINING, what));
            }
        }
        let it = &mut self.wires[wire];
        if it.dead {
            it.pipes[end].cut_last(length);
            return;
        }
        let reader = it.ends[1 - end].node;
        self.at(arrives, Event::Arrive { node: reader });
    }
}
