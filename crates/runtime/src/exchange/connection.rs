//! What of a connection is half read and half written.

use super::frame::{ChunkHeader, HEADER};
use super::hello::{HELLO, TAG};
use super::name::{ConnectionId, LaneId, Nic, OperationId, Tunnel};
use super::output::{Body, Transmit};
use lightloom_units::Time;

/// A hello and its tag; also two headers.
pub(crate) const ROOM: usize = HELLO + TAG;

/// How far a connection is.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// It was dialed; hello and tag of the other end are to come.
    Dials { lane: LaneId, mine: [u8; HELLO] },
    /// It was accepted; somebody's hello is to come.
    Accepts { nonce: [u8; 16] },
    /// The proof of whoever has dialed is to come.
    Proves { lane: LaneId, mine: [u8; HELLO], theirs: [u8; HELLO] },
    /// Frames go both ways.
    Up { lane: LaneId },
}

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub phase: Phase,
    /// Of this end.
    pub nic: Nic,
    /// What this end has drawn for its hello.
    pub nonce: [u8; 16],
    /// If it goes by a relay: how.
    pub via: Option<Via>,
    /// Hello must be over by then.
    pub due: Time,
    /// The caller knows that there is something to send.
    pub asked: bool,
    pub writer: Writer,
    pub reader: Reader,
}

impl Connection {
    /// The lane, once it is known.
    pub fn lane(&self) -> Option<LaneId> {
        match self.phase {
            Phase::Accepts { .. } => None,
            Phase::Dials { lane, .. } | Phase::Proves { lane, .. } | Phase::Up { lane } => {
                Some(lane)
            }
        }
    }

    pub fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up { .. })
    }
}

/// How a connection goes by a relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Via {
    /// The lane to the relay, and its connection: this one ends with it.
    pub lane: LaneId,
    pub carrier: ConnectionId,
    /// As this end sends.
    pub tunnel: Tunnel,
}

/// What is being written: `head`, then `tail` or `body`.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    /// Before what a relayed connection says come an acknowledgement and a header of this one.
    head: [u8; ROOM + 2 * HEADER],
    from: usize,
    to: usize,
    pub body: Option<Body>,
    /// A frame that is counted is among it.
    pub counts: bool,
    /// The operation whose memory `body` is, if that is a part of a relayed connection: it goes on when that ends.
    pub lends: Option<OperationId>,
    tail: Vec<u8>,
    tail_from: usize,
}

impl Writer {
    pub fn new() -> Self {
        Writer {
            head: [0; ROOM + 2 * HEADER],
            from: 0,
            to: 0,
            body: None,
            counts: false,
            lends: None,
            tail: Vec::new(),
            tail_from: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.from == self.to && self.body.is_none() && self.tail_from == self.tail.len()
    }

    /// Adds what is handed on, after all that was pushed.
    pub fn hand_on(&mut self, bytes: Vec<u8>) {
        (self.tail, self.tail_from) = (bytes, 0);
    }

    /// Adds what is to be written before any body. There is room: see `ROOM`.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
        self.head[self.to..self.to + bytes.len()].copy_from_slice(bytes);
        self.to += bytes.len();
    }

    pub fn rest(&self) -> Transmit<'_> {
        let head = &self.head[self.from..self.to];
        let head = if head.is_empty() { &self.tail[self.tail_from..] } else { head };
        Transmit { head, body: self.body }
    }

    /// So much was written. Says whether that was all.
    pub fn wrote(&mut self, bytes: usize) -> bool {
        let mut head = bytes.min(self.to - self.from);
        self.from += head;
        if head == 0 {
            head = bytes.min(self.tail.len() - self.tail_from);
            self.tail_from += head;
            if self.tail_from == self.tail.len() {
                (self.tail, self.tail_from) = (Vec::new(), 0);
            }
        }
        if let Some(body) = &mut self.body {
            let part = (bytes - head).min(body.length as usize) as u32;
            body.offset += u64::from(part);
            body.length -= part;
        }
        self.body = self.body.filter(|body| body.length > 0);
        self.is_empty()
    }
}

/// A chunk that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub header: ChunkHeader,
    pub done: u32,
    /// Bytes of it went nowhere, so it does not count.
    pub sunk: bool,
    /// The operation that it belongs to, if that was under way when it began.
    pub operation: Option<OperationId>,
}

/// A part of a relayed connection that is being read.
#[derive(Clone, Debug)]
pub(crate) struct Coming {
    pub tunnel: Tunnel,
    pub length: u32,
    pub done: u32,
    pub into: Into,
}

/// Where it goes.
#[derive(Clone, Debug)]
pub(crate) enum Into {
    /// To the connection, which ends here.
    End(ConnectionId),
    /// Here, to be handed on.
    Next(Vec<u8>),
    Nowhere,
}

/// What is being read.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    buffer: [u8; ROOM],
    have: usize,
    want: usize,
    pub chunk: Option<Incoming>,
    pub relay: Option<Coming>,
}

impl Reader {
    /// A reader of so many bytes first.
    pub fn new(want: usize) -> Self {
        Reader { buffer: [0; ROOM], have: 0, want, chunk: None, relay: None }
    }

    pub fn is_empty(&self) -> bool {
        self.have == 0 && self.chunk.is_none() && self.relay.is_none()
    }

    pub fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[self.have..self.want]
    }

    /// So much was read into the space. Says whether it is full.
    pub fn read(&mut self, bytes: usize) -> bool {
        self.have = (self.have + bytes).min(self.want);
        self.have == self.want
    }

    /// What has been read, and the length of what comes next.
    pub fn take(&mut self, want: usize) -> [u8; ROOM] {
        (self.have, self.want) = (0, want);
        self.buffer
    }
}

/// The header that was read.
pub(crate) fn header(bytes: &[u8; ROOM]) -> [u8; HEADER] {
    super::fields::part(bytes, 0)
}
