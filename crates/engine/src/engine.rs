//! What an engine runs, whom it asks, and what it is.

use crate::error::EngineError;
use crate::incident::Incident;
use crate::orders::{Orders, Patch, Patches};
use crate::outcome::{Observer, Outcome};
use crate::tasks::{TaskId, Tasks};
use lightloom_fabric::{Fabric, LinkId};
use lightloom_units::{Bytes, Time};

/// What is to be run: tasks on a fabric.
#[derive(Clone, Copy)]
pub struct Scenario<'a> {
    /// What is wired.
    pub fabric: &'a Fabric,
    /// What is to be done, and in which order.
    pub tasks: Tasks<'a>,
    /// The circuits that stand when the run begins.
    pub circuits: &'a [Patch],
    /// What breaks and heals, in any order.
    pub incidents: &'a [Incident],
}

/// Answers an engine's questions at simulated times.
///
/// The same decision code stands behind a policy under simulation and behind the controller on
/// hardware: a policy only translates.
pub trait Policy: Send {
    /// The turn of a transfer has come: say what it sends, in phases, and which circuits are to be
    /// patched now.
    ///
    /// # Errors
    /// A message that says why the transfer cannot be carried out; the run ends with it.
    fn begin(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String>;

    /// All that a transfer was ordered to send has arrived: what it sends next. If the orders stay empty,
    /// it is over.
    ///
    /// # Errors
    /// As [`Policy::begin`].
    fn more(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let _ = (task, transfer, now, orders);
        Ok(())
    }

    /// The last byte of a transfer has arrived: circuits may be patched now for what comes next.
    ///
    /// # Errors
    /// As [`Policy::begin`].
    fn end(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        let _ = (task, transfer, now, patches);
        Ok(())
    }

    /// Whether [`Policy::more`] or [`Policy::end`] do anything. If not, an engine may tell of the end of a
    /// task that no other waits for some time later than it is, with the time that it was.
    fn heeds_ends(&self) -> bool {
        true
    }

    /// Incident `index` of the scenario has come: what it takes down is down. Flows on it are asked
    /// for after this by [`Policy::displaced`]; circuits may be patched now.
    ///
    /// # Errors
    /// As [`Policy::begin`].
    fn incident(&mut self, index: u32, now: Time, patches: &mut Patches) -> Result<(), String> {
        let _ = (index, now, patches);
        Ok(())
    }

    /// A circuit under a flow of this transfer is being patched elsewhere, or a link of its path is
    /// down; the flow runs, or is about to start. `path` is the flow's; put another there and return `true`, and what has not
    /// arrived goes over that one. Otherwise the run ends with [`EngineError::CircuitInUse`] or
    /// [`EngineError::LinkDown`], as it does on an engine that cannot move flows.
    fn displaced(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        path: &mut Vec<LinkId>,
    ) -> bool {
        let _ = (task, transfer, now, path);
        false
    }

    /// Of which part of the run a task is, if any. The policy promises that transfers of different parts share no
    /// link that [may bind](lightloom_fabric::Fabric::never_binds), and that what it answers of one does not depend
    /// on what it is asked of another, or when. An engine may then take parts one after the other, in any order, and
    /// `now` goes back when the next one begins; see [`Parts`](crate::Parts). It is not asked where anything breaks.
    fn part(&self, task: TaskId) -> Option<u32> {
        let _ = task;
        None
    }

    /// Whether transfers under way are ordered anew at every incident, in place of [`Policy::displaced`].
    /// Before [`Policy::incident`] their phases that have not begun are forgotten; after it flows end
    /// whose paths are down, and [`Policy::anew`] says what is sent instead. The flow engine knows this.
    fn renews(&self) -> bool {
        false
    }

    /// So many bytes of a flow over this path are not sent: all of it if its phase is forgotten, else what
    /// is left of it.
    fn unsent(&mut self, task: TaskId, path: &[LinkId], bytes: Bytes) {
        let _ = (task, path, bytes);
    }

    /// What a transfer sends instead of what is [unsent](Policy::unsent): tracks that are added to its
    /// orders, beside phases that had begun. Asked of one transfer after the other, as they began.
    ///
    /// # Errors
    /// As [`Policy::begin`].
    fn anew(
        &mut self,
        task: TaskId,
        transfer: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let _ = (task, transfer, now, orders);
        Ok(())
    }
}

/// A simulator of [`Scenario`]s.
pub trait Engine {
    /// The engine's name, as in a specification.
    fn name(&self) -> &'static str;

    /// Runs the scenario to its end.
    ///
    /// # Errors
    /// [`EngineError`] if the run cannot finish; nothing is returned of a run that did not.
    fn run(
        &self,
        scenario: &Scenario<'_>,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, EngineError>;
}
