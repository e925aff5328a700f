//! What the machine wants is done: lanes are dialed, connections closed, owners told.

use super::command::{Post, Posted};
use super::config::{Event, PostFailure};
use super::reactor::Reactor;
use super::transport::{Stream, Transport};
use crate::exchange::{ConnectionId, LaneId, Operation, OperationId, Output, Plan};
use lightloom_control::RuntimeOutput;
use std::io;

impl<T: Transport> Reactor<T> {
    /// Does all that the machine wants.
    pub fn carry_out(&mut self) {
        loop {
            while let Some(output) = self.exchange.poll() {
                self.carry_out_one(output);
            }
            match self.dials.pop_front() {
                Some(lane) => self.dial(lane),
                None => return,
            }
        }
    }

    fn carry_out_one(&mut self, output: Output) {
        match output {
            Output::Dial { lane } => self.dials.push_back(lane),
            Output::Send { connection } => self.sockets.wants(connection),
            Output::Close { connection, error } => {
                if let Some(lane) = self.opening(connection) {
                    self.unreachable(lane, io::Error::other(error));
                }
                self.forget(connection);
            }
            Output::Up { lane } => {
                self.told.remove(&lane);
                (self.events)(Event::Up(lane));
            }
            Output::Down { lane, error } => (self.events)(Event::Down(lane, error)),
            Output::Early { operation, source, bytes } => {
                // The machine lets no more come early than is expected, and `post` has seen that so much fits.
                if let Some(posted) = self.posted.get_mut(&operation) {
                    posted.1.memory.put(source, &bytes);
                    let now_ns = self.clock.boottime_ns(self.clock.now());
                    posted.1.memory.wrote(source, 0, bytes.len(), now_ns);
                }
            }
            Output::Done { operation } => self.over(operation, Ok(())),
            Output::Failed { operation, failure } => self.over(operation, Err(failure.into())),
            Output::GroupFailed(failure) => (self.events)(Event::GroupFailed(failure)),
            Output::Lost { endpoint } => (self.events)(Event::Lost(endpoint)),
            Output::Runtime(said) => {
                if matches!(said, RuntimeOutput::Drained { .. }) {
                    self.acknowledge();
                }
                (self.events)(Event::Runtime(said));
            }
        }
    }

    /// Kernels acknowledge what has come over circuits, before filters close: what the other end's kernel
    /// takes for lost it would send into the dark, later and later, and in front of all that comes next.
    fn acknowledge(&mut self) {
        for id in self.exchange.over_circuits() {
            if let Some(socket) = self.sockets.get_mut(id) {
                // A hint: without, it costs time.
                let _ = socket.stream.acknowledge();
            }
        }
    }

    fn over(&mut self, operation: OperationId, result: Result<(), PostFailure>) {
        if let Some((_, posted)) = self.posted.remove(&operation) {
            posted.over(result);
        }
    }

    /// Begins an operation.
    pub fn post(&mut self, post: Post) {
        let Post { group, number, sends, receives, plan, posted } = post;
        if let Err(why) = posted.memory.check(&sends, &receives) {
            return posted.over(Err(why.into()));
        }
        let Plan { chunks: plan, flows } = plan(&self.exchange);
        let operation = Operation { group, number, sends, receives, plan };
        match self.exchange.post_flows(self.clock.now(), operation, flows) {
            Ok(id) => {
                let earlier: Option<(u32, Posted)> = self.posted.insert(id, (group, posted));
                debug_assert!(earlier.is_none(), "no operation has the same name again");
            }
            Err(why) => posted.over(Err(why.into())),
        }
    }

    /// Opens a connection for a lane.
    fn dial(&mut self, lane: LaneId) {
        let Some(&(spec, address)) = self.lanes.get(lane.0 as usize) else { return };
        let opened = nonce().and_then(|nonce| {
            let stream = self.transport.dial(&self.nics[usize::from(spec.nic)], address)?;
            Ok((stream, nonce))
        });
        let (stream, nonce) = match opened {
            Ok((stream, nonce)) => (Ok(stream), nonce),
            Err(why) => (Err(why), [0; 16]), // which is never said
        };
        let dialed = self.exchange.dialed(self.clock.now(), lane, nonce);
        let result = match (dialed, stream) {
            (Err(_), Ok(stream)) => return stream.reset(self.poll.registry()),
            (Err(_), Err(_)) => return,
            (Ok(id), Err(why)) => Err((id, why)),
            (Ok(id), Ok(stream)) => {
                let registry = self.poll.registry();
                self.sockets.insert(registry, id, stream, Some(lane)).map_err(|why| (id, why))
            }
        };
        if let Err((id, why)) = result {
            self.unreachable(lane, why);
            self.exchange.closed(self.clock.now(), id);
        }
    }

    /// Tells that a lane could not be opened, if that is news.
    fn unreachable(&mut self, lane: LaneId, why: io::Error) {
        if self.told.insert(lane, why.kind()) != Some(why.kind()) {
            (self.events)(Event::Unreachable(lane, why));
        }
    }

    /// The lane that a connection was dialed for, if its hello is not over.
    fn opening(&mut self, id: ConnectionId) -> Option<LaneId> {
        self.sockets.get_mut(id).filter(|it| it.stranger).and_then(|it| it.dialed)
    }

    /// A connection was closed by somebody else, or is broken.
    pub fn closed(&mut self, id: ConnectionId, why: Option<io::Error>) {
        if let (Some(lane), Some(why)) = (self.opening(id), why) {
            self.unreachable(lane, why);
        }
        self.forget(id);
        self.exchange.closed(self.clock.now(), id);
        self.carry_out();
    }

    /// A socket is closed at once.
    fn forget(&mut self, id: ConnectionId) {
        self.gate.leave(id);
        if let Some(socket) = self.sockets.remove(id) {
            socket.stream.reset(self.poll.registry());
        }
    }
}

/// 16 bytes at random.
pub(super) fn nonce() -> io::Result<[u8; 16]> {
    let mut nonce = [0; 16];
    let got = rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
    if got == nonce.len() { Ok(nonce) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
