//! Bytes move between sockets and where the machine says.

use super::reactor::Reactor;
use super::transport::{Moved, Stream, Transport};
use crate::exchange::{ConnectionId, Endpoint, OperationId, Space, Transmit};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};

/// A connection reads so much in a turn, and writes so much \[B\].
const TURN: usize = 512 << 10;
/// So much is read into nothing at once \[B\].
const SINK: usize = 64 << 10;
/// The rest of a chunk, but for no more than this, is read at once \[B\].
const EXPECTED: usize = 256 << 10;
const NOWHERE: &str = "an operation has no memory where the machine wants it";

impl<T: Transport> Reactor<T> {
    /// Reads what has come on a connection.
    pub fn read(&mut self, id: ConnectionId) {
        let mut left = TURN;
        while left > 0 {
            let Some(socket) = self.sockets.get_mut(id).filter(|it| it.readable) else { break };
            let Some(space) = self.exchange.space(id) else { return };
            let mut parts = Vec::with_capacity(2);
            let mut place_of = None;
            match space {
                Space::Buffer(buffer) => parts.push(IoSliceMut::new(buffer)),
                Space::Memory { operation, source, offset, length } => {
                    let length = (length as usize).min(left);
                    place_of = Some((operation, source, offset));
                    let place = match self.posted.get_mut(&operation) {
                        Some(posted) => posted.1.memory.from(source, offset, length, &mut parts),
                        None => None,
                    };
                    if place.is_none() {
                        return self.closed(id, Some(io::Error::other(NOWHERE)));
                    }
                }
                Space::Sink { length } => {
                    self.sink.resize(SINK, 0);
                    parts.push(IoSliceMut::new(&mut self.sink[..(length as usize).min(SINK)]));
                }
            }
            let room: usize = parts.iter().map(|part| part.len()).sum();
            parts.push(IoSliceMut::new(&mut self.ahead));
            match socket.stream.read(&mut parts) {
                Ok(Moved { bytes: 0, .. }) => return self.closed(id, None),
                Ok(Moved { bytes, blocked }) => {
                    left = left.saturating_sub(bytes);
                    socket.readable = !blocked || socket.ends;
                    let stranger = socket.stranger;
                    self.wrote(place_of, bytes.min(room));
                    self.exchange.filled(self.clock.now(), id, bytes.min(room));
                    self.carry_out();
                    self.read_ahead(id, bytes.saturating_sub(room));
                    if stranger {
                        self.meet(id);
                    }
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => socket.readable = false,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return self.closed(id, Some(why)),
            }
        }
        if left < TURN {
            self.expect(id);
        }
    }

    /// While a chunk comes, the kernel need not tell of each packet: what is read at once costs one wake-up.
    fn expect(&mut self, id: ConnectionId) {
        let Some(socket) = self.sockets.get_mut(id).filter(|it| !it.readable) else { return };
        let expected = match self.exchange.space(id) {
            Some(Space::Memory { length, .. } | Space::Sink { length }) => {
                (length as usize).min(EXPECTED)
            }
            Some(Space::Buffer(_)) => 1,
            None => return,
        };
        if socket.expected != expected && socket.stream.expect(expected).is_ok() {
            socket.expected = expected;
        }
    }

    /// What was read beyond its place goes where the machine says, too.
    fn read_ahead(&mut self, id: ConnectionId, bytes: usize) {
        let mut at = 0;
        while at < bytes {
            let Some(space) = self.exchange.space(id) else { return };
            let rest = &self.ahead[at..bytes];
            let mut place_of = None;
            let read = match space {
                Space::Buffer(buffer) => copy(rest, &mut [IoSliceMut::new(buffer)]),
                Space::Memory { operation, source, offset, length } => {
                    let length = rest.len().min(length as usize);
                    place_of = Some((operation, source, offset));
                    let mut places = Vec::with_capacity(1);
                    let Some(posted) = self.posted.get_mut(&operation) else { return };
                    match posted.1.memory.from(source, offset, length, &mut places) {
                        Some(()) => copy(rest, &mut places),
                        None => return self.closed(id, Some(io::Error::other(NOWHERE))),
                    }
                }
                Space::Sink { length } => rest.len().min(length as usize),
            };
            at += read;
            self.wrote(place_of, read);
            self.exchange.filled(self.clock.now(), id, read);
            self.carry_out();
        }
    }

    /// Bytes have come into an operation's memory: of what a peer sends, from here on.
    fn wrote(&self, place: Option<(OperationId, Endpoint, u64)>, bytes: usize) {
        let Some((operation, source, offset)) = place else { return };
        if let Some(posted) = self.posted.get(&operation) {
            let now_ns = self.clock.boottime_ns(self.clock.now());
            posted.1.memory.wrote(source, offset, bytes, now_ns);
        }
    }

    /// Writes what the machine has for a connection.
    pub fn write(&mut self, id: ConnectionId) {
        let mut left = TURN;
        while left > 0 {
            let ready = |it: &&mut super::sockets::Socket<T::Stream>| it.writable && it.wants;
            let Some(socket) = self.sockets.get_mut(id).filter(ready) else { return };
            let Some(Transmit { head, body }) = self.exchange.transmit(self.clock.now(), id) else {
                socket.wants = false;
                return self.carry_out();
            };
            let mut parts = Vec::with_capacity(2);
            parts.push(IoSlice::new(head));
            if let Some(body) = body {
                let length = (body.length as usize).min(left);
                let posted = self.posted.get(&body.operation);
                let place = posted
                    .and_then(|it| it.1.memory.to(body.peer, body.offset, length, &mut parts));
                if place.is_none() {
                    return self.closed(id, Some(io::Error::other(NOWHERE)));
                }
            }
            match socket.stream.write(&parts) {
                Ok(Moved { bytes, blocked }) => {
                    left = left.saturating_sub(bytes.max(1));
                    socket.writable = !blocked;
                    self.exchange.sent(self.clock.now(), id, bytes);
                    self.carry_out();
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => socket.writable = false,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // What the other end said last may be unread; after it, a read finds the error, too.
                    (socket.writable, socket.readable, socket.ends) = (false, true, true);
                }
            }
        }
    }

    /// Whoever has said something may be a stranger no more.
    fn meet(&mut self, id: ConnectionId) {
        if self.exchange.is_up(id) {
            self.gate.leave(id);
            if let Some(socket) = self.sockets.get_mut(id) {
                socket.stranger = false;
            }
        } else if self.exchange.has_greeted(id) {
            self.gate.spoke(id);
        }
    }
}

/// Copies as much as there is, or as fits; says how much.
fn copy(from: &[u8], to: &mut [IoSliceMut]) -> usize {
    let mut at = 0;
    for to in to {
        let bytes = (from.len() - at).min(to.len());
        to[..bytes].copy_from_slice(&from[at..at + bytes]);
        at += bytes;
    }
    at
}
