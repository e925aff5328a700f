//! Why a run did not finish.

use lightloom_fabric::LinkId;
use lightloom_units::Time;

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
        /// Its index in the task graph.
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
        /// When it was to be patched.
        now: Time,
    },
    /// A link broke under a flow that has no other path.
    #[error("task {task}: link {link:?} broke at {now} under a flow that has no other path")]
    LinkDown {
        /// Its index in the task graph.
        task: u32,
        /// The link that broke.
        link: LinkId,
        /// When the link broke.
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
        /// Its index in the task graph.
        task: u32,
        /// How long the flow took.
        took: Time,
        /// How long its path needs.
        ideal: Time,
    },
    /// A flow sent again and again, and nothing of it arrived.
    #[error("task {task}: a flow heard nothing after sending again {times} times")]
    Unheard {
        /// Its index in the task graph.
        task: u32,
        /// How often it sent again.
        times: u32,
    },
    /// The policy gave up.
    #[error("task {task}: {reason}")]
    Policy {
        /// Its index in the task graph.
        task: u32,
        /// What the policy says.
        reason: String,
    },
    /// The observer asked to stop.
    #[error("interrupted")]
    Interrupted,
}
