//! The interface of every engine.
//!
//! An engine takes a [`Scenario`] (a fabric and a graph of tasks), asks a [`Policy`] what to send
//! whenever a transfer's turn comes, tells an [`Observer`] what happens, and returns an
//! [`Outcome`]. It decides nothing itself: routes, circuits and reconfigurations are the policy's
//! orders, given at a simulated time. Engines read neither clocks nor random numbers; ties at one
//! picosecond are handled in the order of insertion, so one scenario has one outcome.
//!
//! A new engine implements [`Engine`] on a [`Ledger`], which keeps its books, and passes the shared
//! suite:
//!
//! ```ignore
//! lightloom_engine::conformance!(MyEngine::default());
//! ```

mod circuits;
pub mod conformance;
mod incident;
mod ledger;
mod orders;
mod outcome;
mod queue;
mod tasks;

pub use circuits::Circuits;
pub use incident::Incident;
pub use ledger::{Answer, Due, Ledger, Sending, Step, Wake};
pub use orders::{FlowOrder, Orders, Patch, Patches, Phase};
pub use outcome::{Observer, Outcome, PacketLink, Packets, QueueSample, Reconfiguration, Silent};
pub use queue::EventQueue;
pub use tasks::{NOT_A_TRANSFER, TaskId, Tasks};

use lightloom_fabric::{Fabric, LinkId};
use lightloom_units::Time;

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
pub trait Policy {
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

/// Why a run did not finish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Nothing can happen any more, yet tasks are left: a cycle, or a link that stays dark.
    #[error("stalled at {now} with {left} of {total} tasks unfinished, task {first} the first")]
    Stalled {
        /// When nothing more could happen.
        now: Time,
        /// Unfinished tasks.
        left: usize,
        /// All tasks.
        total: usize,
        /// The lowest unfinished task.
        first: u32,
    },
    /// A flow was ordered over two ports of an optical switch that no circuit joins.
    #[error("task {task}: no circuit joins link {tx:?} to link {rx:?}")]
    NoCircuit {
        /// The task.
        task: u32,
        /// Into the optical switch.
        tx: LinkId,
        /// Out of it.
        rx: LinkId,
    },
    /// A circuit was to be changed while a flow was on it; drain first.
    #[error("the circuit from link {tx:?} was to be patched at {now} while a flow is on it")]
    CircuitInUse {
        /// Into the optical switch.
        tx: LinkId,
        /// When.
        now: Time,
    },
    /// A link broke under a flow that knows no other way.
    #[error("task {task}: link {link:?} broke at {now} under a flow that has no other way")]
    LinkDown {
        /// The task.
        task: u32,
        /// The link.
        link: LinkId,
        /// When.
        now: Time,
    },
    /// The engine cannot carry out incidents.
    #[error("engine {engine:?} knows no failures")]
    NoIncidents {
        /// The engine's name.
        engine: &'static str,
    },
    /// A flow arrived sooner than its path allows: the engine is wrong.
    #[error("task {task}: a flow arrived in {took}, but its path needs {ideal}")]
    Impossible {
        /// The task.
        task: u32,
        /// How long the flow took.
        took: Time,
        /// How long its path needs.
        ideal: Time,
    },
    /// A flow sent again and again, and nothing of it arrived.
    #[error("task {task}: a flow heard nothing after sending again {times} times")]
    Unheard {
        /// The task.
        task: u32,
        /// How often it sent again.
        times: u32,
    },
    /// The policy gave up.
    #[error("task {task}: {reason}")]
    Policy {
        /// The task.
        task: u32,
        /// Why.
        reason: String,
    },
    /// The observer asked to stop.
    #[error("interrupted")]
    Interrupted,
}
