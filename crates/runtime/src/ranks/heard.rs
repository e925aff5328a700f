//! What the runtime's thread hears.

use super::agent::FromAgent;
use super::counters::Counters;
use super::message::Question;
use crate::net::Event;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

/// What the thread hears.
pub(super) enum Heard {
    /// Somebody has connected.
    Came { connection: u64, stream: UnixStream },
    /// A rank asks; with the first question comes its arena.
    Asked { connection: u64, question: Question, file: Option<OwnedFd> },
    /// A connection has ended, or makes no sense.
    Gone { connection: u64, why: Option<String> },
    /// Something has happened in the network.
    Net(Event),
    /// A round of an operation is over.
    Over { operation: u64, round: usize, result: Result<(), String> },
    /// The agent says something.
    Agent(FromAgent),
    /// Somebody wants to know what was counted.
    Count(Sender<Counters>),
    /// It is to end.
    End,
}
