//! Connections: two pipes of bytes that are late, hold little, and break anywhere.

use super::chance::Chance;
use lightloom_control::PortId;
use lightloom_runtime::exchange::ConnectionId;
use lightloom_runtime::exchange::frame::{Frame, HEADER};
use lightloom_units::Time;
use std::collections::VecDeque;

/// Hello and tag, the same in both directions.
const HELLO: usize = 88;

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub node: usize,
    pub life: u64,
    pub nic: u16,
    /// As its endpoint calls it, while it has it.
    pub connection: Option<ConnectionId>,
}

/// A connection.
pub struct Wire {
    /// The dialer and the accepter.
    pub ends: [End; 2],
    /// By end: its optical port, if it crosses a circuit.
    pub ports: Option<[PortId; 2]>,
    /// By the end that writes.
    pub pipes: [Pipe; 2],
    /// What is written is lost.
    pub dead: bool,
}

/// Bytes on their way in one direction.
#[derive(Default)]
pub struct Pipe {
    segments: VecDeque<Segment>,
    pub held: usize,
    last: Time,
    tap: Tap,
}

struct Segment {
    arrives: Time,
    bytes: VecDeque<u8>,
    counts: bool,
}

impl Pipe {
    /// Bytes are written that may be read at the time that is returned.
    pub fn write(
        &mut self,
        now: Time,
        delay: Time,
        bytes: Vec<u8>,
        frames: &mut Vec<Frame>,
    ) -> Time {
        let counts = self.tap.feed(&bytes, frames);
        self.last = self.last.max(now + delay);
        self.held += bytes.len();
        self.segments.push_back(Segment { arrives: self.last, bytes: bytes.into(), counts });
        self.last
    }

    /// Whether what is written next is a part of hello.
    pub fn greets(&self) -> bool {
        self.tap.greets()
    }

    /// Whether what was written last is of a frame that is acknowledged.
    pub fn counted(&self) -> bool {
        self.segments.back().is_some_and(|it| it.counts)
    }

    /// Whether anything can be read.
    pub fn is_ready(&self, now: Time) -> bool {
        self.segments.front().is_some_and(|it| it.arrives <= now)
    }

    /// Reads what can be read, up to the length of `into`.
    pub fn read(&mut self, now: Time, most: usize, mut each: impl FnMut(u8)) -> usize {
        let mut read = 0;
        while read < most && self.is_ready(now) {
            let Some(segment) = self.segments.front_mut() else { break };
            while let Some(byte) = (read < most).then(|| segment.bytes.pop_front()).flatten() {
                each(byte);
                read += 1;
            }
            if segment.bytes.is_empty() {
                self.segments.pop_front();
            }
        }
        self.held -= read;
        read
    }

    /// A frame that is acknowledged is on its way.
    pub fn counts(&self) -> bool {
        self.segments.iter().any(|it| it.counts)
    }

    /// All after some byte is lost.
    pub fn cut(&mut self, chance: &mut Chance) {
        let mut keep = chance.below(self.held as u64 + 1) as usize;
        for segment in &mut self.segments {
            segment.bytes.truncate(keep);
            keep -= segment.bytes.len();
        }
        self.segments.retain(|it| !it.bytes.is_empty());
        self.held = self.segments.iter().map(|it| it.bytes.len()).sum();
    }

    /// What was written last is lost, and takes room all the same.
    pub fn cut_last(&mut self, length: usize) {
        self.segments.pop_back();
        debug_assert!(self.held >= length);
    }

    /// All is lost.
    pub fn clear(&mut self) {
        (self.segments, self.held) = (VecDeque::new(), 0);
    }
}

/// Knows which bytes are of frames that are acknowledged.
#[derive(Default)]
struct Tap {
    seen: usize,
    header: Vec<u8>,
    payload: usize,
}

impl Tap {
    /// Hello is under way.
    fn greets(&self) -> bool {
        self.seen < HELLO
    }

    /// Says whether bytes of such frames are among these, and which headers ended.
    fn feed(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> bool {
        let skip = bytes.len().min(HELLO - self.seen);
        self.seen += skip;
        let (mut rest, mut counts) = (&bytes[skip..], false);
        while !rest.is_empty() {
            if self.payload > 0 {
                let part = rest.len().min(self.payload);
                (self.payload, rest, counts) = (self.payload - part, &rest[part..], true);
                continue;
            }
            let part = rest.len().min(HEADER - self.header.len());
            self.header.extend_from_slice(&rest[..part]);
            rest = &rest[part..];
            counts |= self.header.get(2).is_some_and(|&kind| kind != 2);
            if self.header.len() == HEADER {
                let frame = Frame::decode(self.header.as_slice().try_into().expect("a header"))
                    .expect("a frame");
                match frame {
                    Frame::Chunk(chunk) => self.payload = chunk.length as usize,
                    Frame::Relay { length, .. } => self.payload = length as usize,
                    _ => {}
                }
                frames.push(frame);
                self.header.clear();
            }
        }
        counts
    }
}
