//! Reading a runtime's counters from without.

use super::counters::Counters;
use super::heard::Heard;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A thread that copies or reduces answers later than this only if it has much to do.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads a runtime's counters, while it is under way and after its end.
#[derive(Clone, Debug)]
pub struct Watch {
    pub(super) heard: Sender<Heard>,
    pub(super) last: Arc<Mutex<Counters>>,
}

impl Watch {
    /// The counters; those that were read last if the runtime has ended, or does not answer within 2 s.
    pub fn counters(&self) -> Counters {
        let (answer, answers) = channel();
        let asked = self.heard.send(Heard::Count(answer));
        let new = asked.ok().and_then(|()| answers.recv_timeout(PATIENCE).ok());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(new) = new {
            *last = new;
        }
        last.clone()
    }
}
