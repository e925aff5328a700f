//! The task graph as an engine sees it: columns, borrowed. What a transfer means is the policy's
//! business; the engine only knows when its turn comes.

use lightloom_units::Time;

/// Index of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// In [`Tasks::transfer`]: this task computes, it sends nothing.
pub const NOT_A_TRANSFER: u32 = u32::MAX;

/// A directed acyclic graph of tasks, one entry a task in each column.
///
/// A task starts the moment its last predecessor ends. A task that is no transfer ends `duration`
/// later; a transfer ends when what the policy ordered has arrived.
///
/// ```
/// use lightloom_engine::{NOT_A_TRANSFER, Tasks};
/// use lightloom_units::Time;
/// // 0 -> 1: compute a millisecond, then transfer 7.
/// let tasks = Tasks {
///     duration: &[Time::from_ms(1), Time::ZERO],
///     transfer: &[NOT_A_TRANSFER, 7],
///     offsets: &[0, 1, 1],
///     targets: &[1],
///     predecessors: &[0, 1],
/// };
/// assert_eq!(tasks.successors(0), &[1]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tasks<'a> {
    /// How long each task computes; ignored for transfers.
    pub duration: &'a [Time],
    /// The policy's name for each transfer, or [`NOT_A_TRANSFER`].
    pub transfer: &'a [u32],
    /// Successors of task `t` are `targets[offsets[t]..offsets[t + 1]]`.
    pub offsets: &'a [u32],
    /// See `offsets`.
    pub targets: &'a [u32],
    /// How many predecessors each task has.
    pub predecessors: &'a [u32],
}

impl<'a> Tasks<'a> {
    /// The number of tasks.
    pub fn len(&self) -> usize {
        self.duration.len()
    }
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.duration.is_empty()
    }
    /// The tasks that wait for `task`.
    pub fn successors(&self, task: u32) -> &'a [u32] {
        let at = task as usize;
        &self.targets[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }
}
