//! What the sessions of an emulated switch share: the switch, its clock, its faults.

use super::fault::{Faults, Heard, Said};
use super::kept::Kept;
use super::light::Mirrors;
use crate::clock::Clock;
use lightloom_control::Patch;
use lightloom_control::drivers::tl1::{Framer, SessionId, Tl1Server};
use lightloom_units::Time;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::sleep_until;

/// The switch and all that it is to remember.
#[derive(Debug)]
pub(super) struct Shared {
    pub inner: Mutex<Inner>,
    /// Something is due sooner than it was.
    pub sooner: Notify,
    pub clock: Clock,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub server: Tl1Server,
    /// Woken when there are bytes for a session.
    pub wakers: BTreeMap<SessionId, Arc<Notify>>,
    pub faults: Faults,
    pub state: Option<PathBuf>,
    /// The patches that are in the file.
    pub kept: Vec<Patch>,
    /// What frames go through, if anything.
    pub mirrors: Option<Mirrors>,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        // The switch is legal after every step, also after the last one of a thread that is no more.
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Calls the server when it wants to be.
    pub async fn tick(&self) {
        loop {
            let next = self.lock().next_timeout();
            let due = next.map(|at| self.clock.at(at));
            tokio::select! {
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {
                    let mut inner = self.lock();
                    let now = self.now();
                    inner.server.timeout(now);
                    inner.shine(now);
                    inner.wake(None);
                }
                () = self.sooner.notified() => {}
            }
        }
    }

    /// Bytes have come for a session.
    pub fn receive(&self, id: SessionId, framer: &mut Framer, bytes: &[u8]) {
        let mut inner = self.lock();
        let (before, now) = (inner.next_timeout(), self.now());
        if inner.faults.is_empty() {
            inner.server.receive(now, id, bytes);
        } else {
            for heard in inner.faults.hear(self.clock.elapsed(), framer, bytes) {
                inner.obey(now, id, heard);
            }
        }
        // Before anyone hears that they stand.
        inner.shine(now);
        inner.keep();
        inner.wake(Some(id));
        if inner.next_timeout() != before {
            self.sooner.notify_one();
        }
    }

    /// What there is for a session, and what is to come.
    pub fn take(&self, id: SessionId) -> (Said, Still) {
        let mut inner = self.lock();
        let bytes = inner.server.transmit(id).unwrap_or_default();
        let still = Still { open: inner.server.is_open(id), owes: inner.server.owes(id) };
        let said = match bytes.is_empty() || inner.faults.is_empty() {
            true => Said { delay: Duration::ZERO, bytes, broken: false },
            false => inner.faults.say(self.clock.elapsed(), bytes),
        };
        (said, still)
    }
}

/// What is to come of a session: whether it goes on, and whether it waits for answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Still {
    pub open: bool,
    pub owes: bool,
}

impl Inner {
    pub fn obey(&mut self, now: Time, id: SessionId, heard: Heard) {
        match heard {
            Heard::Command(text) => self.server.receive(now, id, &text),
            Heard::Pretend(text) => {
                let ports = 1..=2 * self.server.switch().ports();
                ports.clone().for_each(|port| self.server.switch_mut().stick(port, true));
                self.server.receive(now, id, &text);
                ports.for_each(|port| self.server.switch_mut().stick(port, false));
            }
        }
    }

    /// Tells sessions that there is something for them; `but` knows.
    pub fn wake(&self, but: Option<SessionId>) {
        for id in self.server.waiting().filter(|id| Some(*id) != but) {
            if let Some(waker) = self.wakers.get(&id) {
                waker.notify_one();
            }
        }
    }

    /// Frames go where patches lead now.
    pub fn shine(&mut self, now: Time) {
        if let Some(mirrors) = &mut self.mirrors {
            mirrors.follow(self.server.switch(), now);
        }
    }

    /// When something is due.
    pub fn next_timeout(&self) -> Option<Time> {
        let light = self.mirrors.as_ref().and_then(Mirrors::next_timeout);
        [self.server.next_timeout(), light].into_iter().flatten().min()
    }

    pub fn keep(&mut self) {
        let Some(path) = &self.state else { return };
        let switch = self.server.switch();
        if switch.patches().eq(self.kept.iter().copied()) {
            return;
        }
        self.kept = switch.patches().collect();
        let kept = Kept { ports: switch.ports(), patches: self.kept.clone() };
        if let Err(why) = kept.write(path) {
            tracing::error!(file = %path.display(), %why, "patches are not kept");
        }
    }
}
