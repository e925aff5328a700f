//! What an endpoint wants done, and where bytes go.

use super::failure::{Failure, LaneError};
use super::name::{ConnectionId, Endpoint, LaneId, OperationId};
use lightloom_control::RuntimeOutput;

/// What the caller is to do, or to know, in order, before it calls again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a connection for this lane, from its NIC to the peer's, and call [`super::Exchange::dialed`].
    Dial {
        /// The lane.
        lane: LaneId,
    },
    /// A connection has something to send: call [`super::Exchange::transmit`] until it has nothing more.
    Send {
        /// The connection.
        connection: ConnectionId,
    },
    /// Close this connection so that its kernel sends nothing more (a reset, not an orderly end).
    Close {
        /// The connection; it is not known here any more.
        connection: ConnectionId,
        /// Why.
        error: LaneError,
    },
    /// A lane is up.
    Up {
        /// The lane.
        lane: LaneId,
    },
    /// A lane is down.
    Down {
        /// The lane.
        lane: LaneId,
        /// Why.
        error: LaneError,
    },
    /// Bytes that came before the operation was posted: copy them to where `source`'s bytes begin. Later reads
    /// write over those of them that have not come yet.
    Early {
        /// The operation.
        operation: OperationId,
        /// From whom.
        source: Endpoint,
        /// What has come.
        bytes: Vec<u8>,
    },
    /// All that the operation sends was acknowledged, and all that it expects has come. Its memory is the caller's
    /// again.
    Done {
        /// The operation.
        operation: OperationId,
    },
    /// The operation has failed. Its memory is the caller's again.
    Failed {
        /// The operation.
        operation: OperationId,
        /// Why.
        failure: Failure,
    },
    /// A group has failed.
    GroupFailed(Failure),
    /// A peer is lost.
    Lost {
        /// The peer.
        endpoint: Endpoint,
    },
    /// Tell the agent.
    Runtime(RuntimeOutput),
}

/// Where the next bytes of a connection go. To be asked anew before each read.
#[derive(Debug, PartialEq, Eq)]
pub enum Space<'a> {
    /// Into here: a header, a hello, or bounce memory.
    Buffer(&'a mut [u8]),
    /// Into the memory of an operation.
    Memory {
        /// The operation.
        operation: OperationId,
        /// Whose bytes they are.
        source: Endpoint,
        /// From here on in what `source` sends \[B\].
        offset: u64,
        /// At most so many \[B\].
        length: u32,
    },
    /// Nowhere: read at most so many bytes and forget them.
    Sink {
        /// At most so many \[B\].
        length: u32,
    },
}

/// What a connection sends next: first `head`, then `body`.
#[derive(Debug, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// Headers, or a hello.
    pub head: &'a [u8],
    /// After them, a part of an operation's memory.
    pub body: Option<Body>,
}

/// A part of what an operation sends to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// The operation.
    pub operation: OperationId,
    /// To whom.
    pub peer: Endpoint,
    /// From here on in what is sent to that peer \[B\].
    pub offset: u64,
    /// So many \[B\].
    pub length: u32,
}
