//! Bytes move between sockets and where the machine says.

use super::reactor::Reactor;
use super::transport::{Moved, Stream, Transport};
use crate::exchange::{ConnectionId, Space, Transmit};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};

/// A connection reads so much in a turn, and writes so much \[B\].
const TURN: usize = 512 << 10;
/// So much is read into nothing at once \[B\].
const SINK: usize = 64 << 10;

impl<T: Transport> Reactor<T> {
    /// Reads what has come on a connection.
    pub fn read(&mut self, id: ConnectionId) {
        let mut left = TURN;
        while left > 0 {
            let Some(socket) = self.sockets.get_mut(id).filter(|it| it.readable) else { return };
            let Some(space) = self.exchange.space(id) else { return };
            let read = match space {
                Space::Buffer(buffer) => socket.stream.read(&mut [IoSliceMut::new(buffer)]),
                Space::Memory { operation, source, offset, length } => {
                    let length = (length as usize).min(left);
                    let posted = self.posted.get_mut(&operation);
                    let mut targets = Vec::new();
                    match posted
                        .and_then(|it| it.1.memory.from(source, offset, length, &mut targets))
                    {
                        Some(()) => socket.stream.read(&mut targets),
                        None => Err(io::Error::other("no memory of that operation")),
                    }
                }
                Space::Sink { length } => {
                    self.sink.resize(SINK, 0);
                    let length = (length as usize).min(SINK);
                    socket.stream.read(&mut [IoSliceMut::new(&mut self.sink[..length])])
                }
            };
            match read {
                Ok(Moved { bytes: 0, .. }) => return self.closed(id, None),
                Ok(Moved { bytes, blocked }) => {
                    left = left.saturating_sub(bytes);
                    socket.readable = !blocked || socket.ends;
                    let stranger = socket.stranger;
                    self.exchange.filled(self.clock.now(), id, bytes);
                    self.carry_out();
                    if stranger {
                        self.meet(id);
                    }
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => socket.readable = false,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return self.closed(id, Some(why)),
            }
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
            let mut slices = vec![IoSlice::new(head)];
            let payload = match body {
                None => Some(()),
                Some(body) => {
                    let length = (body.length as usize).min(left);
                    let posted = self.posted.get(&body.operation);
                    let slices = &mut slices;
                    posted.and_then(|it| it.1.memory.to(body.peer, body.offset, length, slices))
                }
            };
            let written = match payload {
                Some(()) => socket.stream.write(&slices),
                None => Err(io::Error::other("no memory of that operation")),
            };
            match written {
                Ok(Moved { bytes, blocked }) => {
                    left = left.saturating_sub(bytes.max(1));
                    socket.writable = !blocked;
                    self.exchange.sent(self.clock.now(), id, bytes);
                    self.carry_out();
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => socket.writable = false,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return self.closed(id, Some(why)),
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
