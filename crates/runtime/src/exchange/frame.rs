//! The frames of a lane: a header of 32 bytes, and after a chunk's header its payload.
//!
//! | Bytes | Field | Chunk | Ack | Ready | Fail | Mark | Beat | Over |
//! |---|---|---|---|---|---|---|---|---|
//! | 0..2 | magic | `4c 4c` | same | same | same | same | same | same |
//! | 2 | kind | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
//! | 3 | flags | 1: acknowledge it at once | 0 | 0 | 0 | 0 | 0 | 0 |
//! | 4..8 | group | group | 0 | group | group | 0 | 0 | group |
//! | 8..16 | number | operation's number | count of frames | operation's number | 0 | 0 | 0 | operation's number |
//! | 16..24 | offset | in what the source sends here \[B\]; from bit 48 on: chunks queued behind it | chunks to come to the NIC | bytes expected | endpoint concerned | 0 | 0 | 0 |
//! | 24..28 | length | of the payload \[B\] | over so many lanes | 0 | cause | 0 | 0 | 0 |
//! | 28..30 | source | endpoint | 0 | 0 | endpoint that says so | 0 | 0 | 0 |
//! | 30..32 | epoch | of the lane | 0 | 0 | 0 | that ends | 0 | 0 |
//!
//! And those of connections that go by a relay ([`Tunnel`]):
//!
//! | Bytes | Field | Open | Relay | Shut |
//! |---|---|---|---|---|
//! | 2 | kind | 8 | 9 | 10 |
//! | 4..8 | group | endpoint where they end | same | same |
//! | 8..16 | number | the tunnel's | same | same |
//! | 24..28 | length | 0 | of the payload, bytes of that connection \[B\] | 0 |
//! | 28..30 | source | endpoint where they begin | same | same |
//! | 30..32 | epoch | 0 | of the lane | 0 |
//!
//! Numbers are little-endian. Every field is checked; one that a kind does not use must be zero.
//!
//! ```
//! use lightloom_runtime::exchange::frame::{Frame, FrameError};
//! let frame = Frame::Ready { group: 1, number: 2, bytes: 3 };
//! let bytes = frame.encode();
//! assert_eq!(Frame::decode(&bytes), Ok(frame));
//! assert_eq!(Frame::decode(&[0; 32]), Err(FrameError::Magic { found: 0 }));
//! ```

use super::cause::Cause;
use super::fields::{Fields, MAGIC};
use super::name::{Endpoint, Tunnel};

pub use super::fields::{FrameError, HEADER, LONGEST, MOST};

/// Where the count of chunks behind begins in a chunk's offset, which is below [`MOST`].
const BEHIND: u32 = 48;

/// A part of what one endpoint sends to another in one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The group of the operation.
    pub group: u32,
    /// The operation's number in its group.
    pub number: u64,
    /// Who sends it.
    pub source: Endpoint,
    /// The lane's epoch: the marks that were sent before over this connection, modulo 65,536.
    pub epoch: u16,
    /// Where it begins in what `source` sends to this peer \[B\].
    pub offset: u64,
    /// Bytes of payload \[B\].
    pub length: u32,
    /// It is to be acknowledged at once, and not together with what follows (as AckReq of InfiniBand).
    pub asks: bool,
    /// Chunks that are queued behind it on its lane; 65,535: so many or more.
    pub behind: u16,
}

impl ChunkHeader {
    /// Where it ends in what `source` sends to this peer \[B\].
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// What a lane carries. All but [`Frame::Ack`] are counted and acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The payload follows.
    Chunk(ChunkHeader),
    /// So many frames have come over this connection, with their payload.
    Ack {
        /// Since the connection began.
        count: u64,
        /// What senders have queued behind that which has come to the NIC: so many chunks.
        coming: u64,
        /// Over so many lanes.
        lanes: u32,
    },
    /// The operation is posted here: send its bytes.
    Ready {
        /// The group of the operation.
        group: u32,
        /// Its number.
        number: u64,
        /// What is expected from you.
        bytes: u64,
    },
    /// A group has failed.
    Fail {
        /// Which.
        group: u32,
        /// Why.
        cause: Cause,
        /// Whom that concerns.
        endpoint: Endpoint,
        /// Who found it.
        by: Endpoint,
    },
    /// An epoch of the lane ends: acknowledge what came before.
    Mark {
        /// Its number.
        epoch: u16,
    },
    /// Somebody is there.
    Beat,
    /// You are ready for an operation that is over here: all that was sent to you has come.
    Over {
        /// The group of the operation.
        group: u32,
        /// Its number.
        number: u64,
    },
    /// A connection begins: to be answered by its target, or handed on to it.
    Open(Tunnel),
    /// Bytes of such a connection follow.
    Relay {
        /// Of which.
        tunnel: Tunnel,
        /// So many \[B\].
        length: u32,
        /// As a chunk's.
        epoch: u16,
    },
    /// A connection is over, or cannot begin.
    Shut(Tunnel),
}

/// What frames of a tunnel say of it.
fn of_tunnel(kind: u8, tunnel: Tunnel) -> Fields {
    let Tunnel { source, target, number } = tunnel;
    Fields { kind, group: target.into(), number, source, ..Fields::default() }
}

impl Frame {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let none = Fields::default();
        let fields = match *self {
            Frame::Chunk(chunk) => {
                let ChunkHeader { group, number, source, epoch, offset, length, asks, behind } =
                    chunk;
                let offset = offset | u64::from(behind) << BEHIND;
                Fields { kind: 1, flags: asks.into(), group, number, offset, length, source, epoch }
            }
            Frame::Ack { count, coming, lanes } => {
                Fields { kind: 2, number: count, offset: coming, length: lanes, ..none }
            }
            Frame::Ready { group, number, bytes } => {
                Fields { kind: 3, group, number, offset: bytes, ..none }
            }
            Frame::Fail { group, cause, endpoint, by } => Fields {
                kind: 4,
                group,
                offset: endpoint.into(),
                length: cause.code(),
                source: by,
                ..none
            },
            Frame::Mark { epoch } => Fields { kind: 5, epoch, ..none },
            Frame::Beat => Fields { kind: 6, ..none },
            Frame::Over { group, number } => Fields { kind: 7, group, number, ..none },
            Frame::Open(tunnel) => of_tunnel(8, tunnel),
            Frame::Relay { tunnel, length, epoch } => {
                Fields { length, epoch, ..of_tunnel(9, tunnel) }
            }
            Frame::Shut(tunnel) => of_tunnel(10, tunnel),
        };
        fields.encode()
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The first field that may not be as it is.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self, FrameError> {
        let fields = Fields::decode(bytes);
        let magic = u16::from_le_bytes([bytes[0], bytes[1]]);
        if magic != MAGIC {
            return Err(FrameError::Magic { found: magic });
        }
        let Fields { kind, flags, group, number, offset, length, source, epoch } = fields;
        if kind == 1 {
            fields.check("flags", flags.into(), flags <= 1, "0 or 1")?;
        } else {
            fields.unused(&["flags"])?;
        }
        match kind {
            1 => {
                let fits = (1..=LONGEST).contains(&length);
                fields.check("length", length.into(), fits, "1 to 67,108,864")?;
                let (offset, behind) = (offset & (MOST - 1), (offset >> BEHIND) as u16);
                fields.check("offset", offset, offset <= MOST - u64::from(length), "up to 2^48")?;
                let asks = flags == 1;
                let chunk =
                    ChunkHeader { group, number, source, epoch, offset, length, asks, behind };
                Ok(Frame::Chunk(chunk))
            }
            2 => {
                fields.unused(&["group", "source", "epoch"])?;
                fields.check("offset", offset, offset <= MOST, "up to 2^48")?;
                Ok(Frame::Ack { count: number, coming: offset, lanes: length })
            }
            3 => {
                fields.unused(&["length", "source", "epoch"])?;
                fields.check("offset", offset, (1..=MOST).contains(&offset), "1 to 2^48")?;
                Ok(Frame::Ready { group, number, bytes: offset })
            }
            4 => {
                fields.unused(&["number", "epoch"])?;
                let endpoint = Endpoint::try_from(offset).ok();
                fields.check("offset", offset, endpoint.is_some(), "up to 65,535")?;
                let cause = Cause::from_code(length);
                fields.check("length", length.into(), cause.is_some(), "1 to 4")?;
                let both = endpoint.zip(cause);
                let (endpoint, cause) = both.ok_or(FrameError::Kind { found: kind })?;
                Ok(Frame::Fail { group, cause, endpoint, by: source })
            }
            5 => {
                fields.unused(&["group", "number", "offset", "length", "source"])?;
                Ok(Frame::Mark { epoch })
            }
            6 => {
                fields.unused(&["group", "number", "offset", "length", "source", "epoch"])?;
                Ok(Frame::Beat)
            }
            7 => {
                fields.unused(&["offset", "length", "source", "epoch"])?;
                Ok(Frame::Over { group, number })
            }
            8..=10 => {
                let target = Endpoint::try_from(group).ok();
                fields.check("group", group.into(), target.is_some(), "up to 65,535")?;
                let tunnel = Tunnel { source, target: target.unwrap_or_default(), number };
                fields.unused(&["offset"])?;
                if kind == 9 {
                    let fits = (1..=LONGEST).contains(&length);
                    fields.check("length", length.into(), fits, "1 to 67,108,864")?;
                    return Ok(Frame::Relay { tunnel, length, epoch });
                }
                fields.unused(&["length", "epoch"])?;
                Ok(if kind == 8 { Frame::Open(tunnel) } else { Frame::Shut(tunnel) })
            }
            found => Err(FrameError::Kind { found }),
        }
    }
}

#[cfg(test)]
mod tests;
