//! What a node's owner wants of its thread.

use super::config::PostFailure;
use super::memory::Memory;
use crate::exchange::{Exchange, Plan, Transfer};
use lightloom_units::Time;

/// A call of the machine, on its thread.
pub(super) type Call = Box<dyn FnOnce(&mut Exchange, Time) + Send>;
/// Makes a plan from what may be used now.
pub(super) type Plans = Box<dyn FnOnce(&Exchange) -> Plan + Send>;
/// Hears of the end of an operation.
type Hears = Box<dyn FnOnce(Result<Memory, PostFailure>) + Send>;

/// What a node's owner wants of its thread.
pub(super) enum Command {
    Call(Call),
    Post(Post),
    End,
}

/// An operation that is to be begun.
pub(super) struct Post {
    pub group: u32,
    pub number: u64,
    pub sends: Vec<Transfer>,
    pub receives: Vec<Transfer>,
    pub plan: Plans,
    pub posted: Posted,
}

/// Who waits for an operation, and its memory.
pub(super) struct Posted {
    pub memory: Memory,
    pub done: Done,
}

impl Posted {
    /// The operation is over.
    pub fn over(self, result: Result<(), PostFailure>) {
        let Posted { memory, done } = self;
        done.tell(result.map(|()| memory));
    }
}

/// Is told once of the end of an operation, whatever happens.
pub(super) struct Done(Option<Hears>);

impl Done {
    pub fn new(hears: Hears) -> Self {
        Done(Some(hears))
    }

    fn tell(mut self, result: Result<Memory, PostFailure>) {
        if let Some(hears) = self.0.take() {
            hears(result);
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(hears) = self.0.take() {
            hears(Err(PostFailure::Ended));
        }
    }
}
