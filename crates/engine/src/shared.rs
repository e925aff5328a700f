//! One policy for several threads.

use crate::engine::Policy;
use crate::orders::{Orders, Patches};
use crate::tasks::TaskId;
use lightloom_fabric::LinkId;
use lightloom_units::{Bytes, Time};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often a thread looks whether its turn has come before it sleeps.
const LOOKS: u32 = 4_000;

/// A policy that others ask, too: one after the other.
///
/// ```
/// use lightloom_engine::conformance::Script;
/// use lightloom_engine::{Policy, Shared, TaskId};
/// use std::sync::Mutex;
/// let mut script = Script { transfers: vec![], at_end: vec![] };
/// let policy: Mutex<&mut dyn Policy> = Mutex::new(&mut script);
/// let (one, other) = (Shared(&policy), Shared(&policy));
/// assert_eq!((one.part(TaskId(0)), other.part(TaskId(0))), (None, None));
/// ```
pub struct Shared<'a, 'p>(pub &'a Mutex<&'p mut dyn Policy>);

impl<'p> Shared<'_, 'p> {
    /// Waits for its turn, awake at first: an answer takes some microseconds, as much as falling asleep.
    fn own(&self) -> MutexGuard<'_, &'p mut dyn Policy> {
        for _ in 0..LOOKS {
            match self.0.try_lock() {
                Ok(policy) => return policy,
                Err(_) => std::hint::spin_loop(),
            }
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for Shared<'_, '_> {
    fn begin(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.own().begin(task, transfer, now, orders)
    }
    fn more(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.own().more(task, transfer, now, orders)
    }
    fn end(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        self.own().end(task, transfer, now, patches)
    }
    fn heeds_ends(&self) -> bool {
        self.own().heeds_ends()
    }
    fn incident(&mut self, index: u32, now: Time, patches: &mut Patches) -> Result<(), String> {
        self.own().incident(index, now, patches)
    }
    fn displaced(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        path: &mut Vec<LinkId>,
    ) -> bool {
        self.own().displaced(task, transfer, now, path)
    }
    fn part(&self, task: TaskId) -> Option<u32> {
        self.own().part(task)
    }
    fn renews(&self) -> bool {
        self.own().renews()
    }
    fn unsent(&mut self, task: TaskId, path: &[LinkId], bytes: Bytes) {
        self.own().unsent(task, path, bytes);
    }
    fn anew(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.own().anew(task, transfer, now, orders)
    }
}
