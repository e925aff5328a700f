//! What a lane has queued and in flight, and the counts of its connection.

use super::failure::Failure;
use super::load::Load;
use super::name::{ConnectionId, LaneSpec, Medium, OperationId, Tunnel};
use super::statistics::Statistics;
use lightloom_units::Time;
use std::collections::VecDeque;

/// A chunk of an operation that is, or was, under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkItem {
    pub operation: OperationId,
    /// Its place in the operation's chunks.
    pub index: u32,
    pub length: u32,
}

/// What a frame that is counted and acknowledged is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Chunk(ChunkItem),
    Ready {
        group: u32,
        number: u64,
        bytes: u64,
    },
    Over {
        group: u32,
        number: u64,
    },
    Fail(Failure),
    /// Of this lane and its connection.
    Mark,
    /// Of this lane and its connection.
    Beat,
    /// Of this lane and its connection.
    Open(Tunnel),
    /// Of this lane and its connection.
    Shut(Tunnel),
    /// A part of a relayed connection, which sees to it by itself.
    Part,
}

/// Who has something to say over a lane that is not its own.
#[derive(Clone, Debug)]
pub(crate) enum Carried {
    /// A connection of this endpoint.
    Own(ConnectionId),
    /// What others say to each other.
    Others(Tunnel, Vec<u8>),
    /// They say no more.
    Over(Tunnel),
}

impl Item {
    /// The bytes that count for the window \[B\].
    pub fn bytes(&self) -> u64 {
        if let Item::Chunk(chunk) = self { chunk.length.into() } else { 0 }
    }
}

/// How far the dialer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dial {
    /// Nothing before this time.
    Idle(Time),
    /// The caller has been asked.
    Asked,
    /// Hello is under way.
    Hello(ConnectionId),
}

/// A lane.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub spec: LaneSpec,
    /// The peer's place.
    pub peer: usize,
    /// This end dials.
    pub dials: bool,
    pub dial: Dial,
    /// The next hello that is dialed must be over in this time: twice as long after each that was not, for a frame
    /// that was lost in the dark is not sent again for a second.
    pub patience: Time,
    /// Hello is over on it.
    pub connection: Option<ConnectionId>,
    /// Frames without payload: they go first.
    pub control: VecDeque<Item>,
    pub chunks: VecDeque<ChunkItem>,
    /// The payload of `chunks` \[B\].
    pub queued: u64,
    /// Relayed connections that have something for this lane.
    pub carried: VecDeque<Carried>,
    /// It is their turn, and not that of `chunks`.
    pub turn: bool,
    /// Relays that were asked in vain, of a lane that needs one.
    pub asked: usize,
    /// Begun and not acknowledged, in order.
    pub flying: VecDeque<Item>,
    /// The payload of `flying` \[B\].
    pub in_flight: u64,
    /// Chunks that its peer has queued behind what has come.
    pub behind: u16,
    /// What is to come to the NIC at its other end, as the peer said last.
    pub coming: Load,
    /// Its next chunk may begin then, and whether it waits for that.
    pub pace: Time,
    pub paced: bool,
    /// What was begun since the peer was last asked to acknowledge at once \[B\].
    pub unasked: u64,
    /// Frames that were written as a whole, and those of them that were acknowledged.
    pub written: u64,
    pub acknowledged: u64,
    /// Frames that have come as a whole, and those of them that this end has acknowledged.
    pub received: u64,
    pub confirmed: u64,
    /// The payload of chunks that this end has not acknowledged \[B\], and when they must be.
    pub held: u64,
    pub confirm_at: Time,
    /// Marks that were sent and that have come.
    pub epoch_out: u16,
    pub epoch_in: u16,
    /// The peer has ended its epoch, and sent nothing since: all that it will send over the circuit has come.
    pub marked: bool,
    /// This end drains, and the peer's mark is to come or to be acknowledged: it counts as something in flight here.
    pub awaits: bool,
    /// Since when an acknowledgement is due.
    pub progress: Time,
    /// When a frame was begun.
    pub spoke: Time,
    pub statistics: Statistics,
}

impl Lane {
    pub fn new(spec: LaneSpec, peer: usize, dials: bool, patience: Time, now: Time) -> Self {
        Lane {
            spec,
            peer,
            dials,
            dial: Dial::Idle(now),
            patience,
            connection: None,
            control: VecDeque::new(),
            chunks: VecDeque::new(),
            queued: 0,
            carried: VecDeque::new(),
            turn: false,
            asked: 0,
            flying: VecDeque::new(),
            in_flight: 0,
            behind: 0,
            coming: Load::default(),
            pace: Time::ZERO,
            paced: false,
            unasked: 0,
            written: 0,
            acknowledged: 0,
            received: 0,
            confirmed: 0,
            held: 0,
            confirm_at: Time::MAX,
            epoch_out: 0,
            epoch_in: 0,
            marked: false,
            awaits: false,
            progress: now,
            spoke: now,
            statistics: Statistics::default(),
        }
    }

    /// Bytes that are to be acknowledged before what is queued now \[B\].
    pub fn load(&self) -> u64 {
        self.queued + self.in_flight
    }

    /// Queues a frame.
    pub fn push(&mut self, item: Item) {
        match item {
            Item::Chunk(chunk) => {
                self.queued += u64::from(chunk.length);
                self.chunks.push_back(chunk);
            }
            control => self.control.push_back(control),
        }
    }

    /// The next chunk leaves the queue.
    pub fn pop_chunk(&mut self) -> Option<ChunkItem> {
        let chunk = self.chunks.pop_front()?;
        self.queued -= u64::from(chunk.length);
        Some(chunk)
    }

    /// What is queued and may go over another lane.
    pub fn take_queue(&mut self) -> Vec<Item> {
        let (own, others): (VecDeque<Item>, VecDeque<Item>) =
            self.control.drain(..).partition(|item| matches!(item, Item::Mark));
        self.control = own;
        self.queued = 0;
        let own = |item: &Item| matches!(item, Item::Beat | Item::Open(_) | Item::Shut(_));
        let others = others.into_iter().filter(|item| !own(item));
        others.chain(self.chunks.drain(..).map(Item::Chunk)).collect()
    }

    /// Nothing is left to say: no beat is needed while something is.
    pub fn is_idle(&self) -> bool {
        self.flying.is_empty() && self.control.is_empty() && self.chunks.is_empty()
    }

    /// It goes by another endpoint.
    pub fn needs_relay(&self) -> bool {
        self.spec.medium == Medium::Relay
    }

    /// Its connection is gone: the next one counts from the beginning.
    pub fn reset(&mut self, next_dial: Time) {
        self.connection = None;
        self.dial = Dial::Idle(next_dial);
        self.flying.clear();
        self.carried.clear();
        self.in_flight = 0;
        (self.behind, self.coming) = (0, Load::default());
        self.unasked = 0;
        (self.written, self.acknowledged) = (0, 0);
        (self.received, self.confirmed) = (0, 0);
        (self.held, self.confirm_at) = (0, Time::MAX);
        (self.epoch_out, self.epoch_in) = (0, 0);
        self.marked = false;
    }
}
