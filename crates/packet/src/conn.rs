//! Messages and the connections that carry them, each in two halves: what the sender knows and what the
//! receiver does, for they may be in two shards. A flow of one lane is a message with one connection;
//! of several lanes, a message whose packets are handed out to whichever connection can send next. The
//! window is the message's: its lanes share it.

use crate::layout::Place;
use crate::transport::AnyTransport;

/// A flow, as the run knows it.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// The track it is part of.
    pub track: u32,
    pub bytes: u64,
    pub start: u64,
    /// No flow on its lanes could arrive sooner than this after its start \[ps\].
    pub ideal: u64,
    /// The delays of its links, on the shortest lane \[ps\].
    pub delay: u64,
    /// The first of its connections; they name each other.
    pub conn: u32,
    /// The shard of its receivers, and its place among the inbounds there.
    pub inbound: (usize, u32),
    /// The unit of its receivers, and whether its packets may be in it before they have arrived.
    pub unit: Place,
    pub inside: bool,
    /// Its place in the list of its track's flows with little left.
    pub ending: u32,
    /// All has arrived.
    pub over: bool,
}

/// A connection, as the run knows it: where its two halves are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conn {
    pub flow: u32,
    /// The next connection of the same flow, in a ring.
    pub sibling: u32,
    /// Which lane of the orders it carries.
    pub lane: u32,
    /// Tells it apart from the connections that had this place before.
    pub life: u32,
    /// Shard and place there.
    pub sender: (usize, u32),
    pub receiver: (usize, u32),
    pub done: bool,
}

/// What a flow still has to send.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// Not yet handed to a connection.
    pub unsent: u64,
    pub control: AnyTransport,
    /// Packets in flight on all of its lanes.
    pub in_flight: u32,
    /// Its pace lets no lane send before \[ps\].
    pub not_before: u64,
}

impl Message {
    /// Whether its window, or its credit, lets it send one more packet of so many bytes.
    #[inline]
    pub fn has_room(&self, packet: f64) -> bool {
        self.control.may_send(self.in_flight, packet)
    }
}

/// What of a flow has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inbound {
    pub flow: u32,
    pub bytes: u64,
    pub received: u64,
    /// What has come into the unit of its receivers at least, headers included, and may not have arrived
    /// where in that it is sent \[B\].
    pub entered: u64,
    /// With less than this to come it may end in one of the next windows \[B\].
    pub last: u64,
    /// Packets that the receiver grants as soon as the first one comes.
    pub to_grant: u32,
}
