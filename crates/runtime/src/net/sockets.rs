//! The sockets of a node: which can be read and written, and whose turn it is.

use super::transport::Stream;
use crate::exchange::{ConnectionId, LaneId};
use mio::event::Event;
use mio::{Interest, Registry, Token};
use std::collections::{HashMap, VecDeque};
use std::io;

/// One socket.
pub(super) struct Socket<S> {
    pub stream: S,
    /// The lane that it was dialed for.
    pub dialed: Option<LaneId>,
    /// Its hello is not over.
    pub stranger: bool,
    /// It may have something to read.
    pub readable: bool,
    /// It may have room to write.
    pub writable: bool,
    /// The machine has something to send.
    pub wants: bool,
    /// A read that got less than it could have was not the last: the end of what comes is to be read, too.
    pub ends: bool,
    /// So many bytes must be there before epoll says so \[B\].
    pub expected: usize,
    queued: bool,
    token: Token,
}

impl<S> Socket<S> {
    fn has_work(&self) -> bool {
        self.readable || self.writable && self.wants
    }
}

/// All sockets.
pub(super) struct Sockets<S> {
    all: HashMap<ConnectionId, Socket<S>>,
    tokens: HashMap<Token, ConnectionId>,
    turns: VecDeque<ConnectionId>,
    next: usize,
}

impl<S: Stream> Sockets<S> {
    /// No sockets; those that come have tokens from `first` on.
    pub fn new(first: usize) -> Self {
        let (all, tokens, turns) = (HashMap::new(), HashMap::new(), VecDeque::new());
        Sockets { all, tokens, turns, next: first }
    }

    pub fn insert(
        &mut self,
        registry: &Registry,
        id: ConnectionId,
        mut stream: S,
        dialed: Option<LaneId>,
    ) -> io::Result<()> {
        let token = Token(self.next);
        self.next += 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        if let Err(why) = registry.register(&mut stream, token, both) {
            stream.reset(registry);
            return Err(why);
        }
        let socket = Socket {
            stream,
            dialed,
            stranger: true,
            readable: false,
            writable: false,
            wants: false,
            ends: false,
            expected: 1,
            queued: false,
            token,
        };
        self.all.insert(id, socket);
        self.tokens.insert(token, id);
        Ok(())
    }

    pub fn remove(&mut self, id: ConnectionId) -> Option<Socket<S>> {
        let socket = self.all.remove(&id)?;
        self.tokens.remove(&socket.token);
        Some(socket)
    }

    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Socket<S>> {
        self.all.get_mut(&id)
    }

    pub fn ids(&self) -> Vec<ConnectionId> {
        self.all.keys().copied().collect()
    }

    /// Something has happened to a socket.
    pub fn happened(&mut self, event: &Event) {
        let Some(&id) = self.tokens.get(&event.token()) else { return };
        if let Some(it) = self.all.get_mut(&id) {
            let over = event.is_error() || event.is_read_closed();
            it.ends |= over;
            it.readable |= event.is_readable() || over;
            it.writable |= event.is_writable() || event.is_error() || event.is_write_closed();
        }
        self.queue(id);
    }

    /// The machine has something to send.
    pub fn wants(&mut self, id: ConnectionId) {
        if let Some(it) = self.all.get_mut(&id) {
            it.wants = true;
        }
        self.queue(id);
    }

    /// A socket has its turn after the others, if it has anything to do.
    pub fn queue(&mut self, id: ConnectionId) {
        let Some(it) = self.all.get_mut(&id).filter(|it| !it.queued && it.has_work()) else {
            return;
        };
        it.queued = true;
        self.turns.push_back(id);
    }

    /// So many have a turn in this round.
    pub fn round(&self) -> usize {
        self.turns.len()
    }

    /// Whose turn it is.
    pub fn turn(&mut self) -> Option<ConnectionId> {
        loop {
            let id = self.turns.pop_front()?;
            if let Some(it) = self.all.get_mut(&id) {
                it.queued = false;
                return Some(id);
            }
        }
    }

    /// Nothing is left to write.
    pub fn has_written(&self) -> bool {
        self.all.values().all(|it| it.stranger || !it.wants)
    }
}
