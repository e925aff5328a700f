//! What a run leaves behind, and who may watch it.

use crate::tasks::TaskId;
use lightloom_units::{Bytes, Time};

/// Watches a run. Every method does nothing unless it is overridden.
pub trait Observer {
    /// A flow of `task` that started at `start` has arrived whole at `end`.
    fn flow_finished(&mut self, task: TaskId, bytes: Bytes, start: Time, end: Time) {
        let _ = (task, bytes, start, end);
    }
    /// Called every few thousand events; `false` ends the run with
    /// [`EngineError::Interrupted`](crate::EngineError::Interrupted).
    fn keep_going(&mut self, finished: usize, tasks: usize, now: Time) -> bool {
        let _ = (finished, tasks, now);
        true
    }
}

/// An observer that ignores everything.
pub struct Silent;
impl Observer for Silent {}

/// Ports of optical switches that changed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconfiguration {
    /// The transfer at whose beginning or end it was ordered; none if an incident was answered.
    pub task: Option<u32>,
    /// When the ports went dark.
    pub at: Time,
    /// When they carried light again.
    pub ready: Time,
    /// How many connections changed (one direction of a circuit each).
    pub patches: u32,
}

/// Everything that an engine measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When each task started.
    pub start: Vec<Time>,
    /// When each task ended.
    pub end: Vec<Time>,
    /// The predecessor whose end let each task start, or `u32::MAX` for a task without any. Tasks
    /// start when their last predecessor ends, so following it backwards gives a critical path
    /// without gaps.
    pub cause: Vec<u32>,
    /// How long each transfer was held up by circuits that were dark; of its tracks, how long the
    /// one was that ended last.
    pub waited: Vec<Time>,
    /// What each transfer sent.
    pub bytes: Vec<Bytes>,
    /// What each link carried.
    pub link_bytes: Vec<Bytes>,
    /// Every reconfiguration, in order.
    pub reconfigurations: Vec<Reconfiguration>,
    /// When the last task ended.
    pub makespan: Time,
    /// Flows carried.
    pub flows: u64,
    /// With how many the engine computed, where flows that are alike count once.
    pub classes: u64,
    /// Events that the engine handled.
    pub events: u64,
    /// How often rates (or whatever else the engine's inner loop computes) were computed anew.
    pub solves: u64,
    /// What only an engine of packets measures.
    pub packets: Option<Box<Packets>>,
}

/// What an engine of packets measures beside times and bytes. Counts are of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// Packets that hosts put on a link: data, sent again or not, and acknowledgements, pulls and
    /// notifications.
    pub sent: u64,
    /// Links that packets crossed, trimmed ones and acknowledgements included.
    pub hops: u64,
    /// Packets with payload among those sent.
    pub data: u64,
    /// Packets with payload that had been sent before.
    pub resent: u64,
    /// Packets lost: full queues, full headroom, dark circuits.
    pub drops: u64,
    /// Packets whose payload was cut off.
    pub trims: u64,
    /// Packets marked (ECN).
    pub marks: u64,
    /// Pause frames (PFC).
    pub pauses: u64,
    /// Times that a sender heard nothing for too long.
    pub timeouts: u64,
    /// How far behind the furthest packet of its flow each one arrived, in packets: how many were 0
    /// behind, 1, 2 to 3, 4 to 7, and so on.
    pub reorder: Vec<u64>,
    /// By link; empty for none.
    pub links: Vec<PacketLink>,
    /// Bytes queued at a link at a time, where any were; by time, then link.
    pub samples: Vec<QueueSample>,
    /// What a reader must know, such as windows below the bandwidth-delay product.
    pub notes: Vec<String>,
}

/// What the packet engine measures at one link's sending end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketLink {
    /// Packets carried.
    pub packets: u64,
    /// Packets lost.
    pub drops: u64,
    /// Packets trimmed.
    pub trims: u64,
    /// Packets marked.
    pub marks: u64,
    /// The most that was ever queued.
    pub peak_queue: Bytes,
    /// How long it stood still by a pause.
    pub paused: Time,
}

/// A queue at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSample {
    /// When the queue was looked at.
    pub at: Time,
    /// The link that it leads to.
    pub link: u32,
    /// What waits there.
    pub queued: Bytes,
}

impl Outcome {
    /// Adds what was measured of other tasks of the same run.
    pub(crate) fn absorb(&mut self, other: Outcome) {
        for (task, &start) in other.start.iter().enumerate() {
            if start < Time::MAX {
                (self.start[task], self.end[task]) = (start, other.end[task]);
                (self.cause[task], self.waited[task]) = (other.cause[task], other.waited[task]);
                self.bytes[task] = other.bytes[task];
            }
        }
        let links = self.link_bytes.iter_mut().zip(&other.link_bytes);
        links.for_each(|(own, &bytes)| *own += bytes);
        self.reconfigurations.extend(other.reconfigurations);
        self.flows += other.flows;
        self.classes += other.classes;
        self.events += other.events;
        self.solves += other.solves;
    }

    /// The tasks on the critical path, last first.
    ///
    /// ```
    /// use lightloom_engine::Outcome;
    /// use lightloom_units::Time;
    /// let outcome = Outcome {
    ///     end: vec![Time::from_ns(3), Time::from_ns(1), Time::from_ns(4)],
    ///     cause: vec![u32::MAX, u32::MAX, 0],
    ///     ..Outcome::default()
    /// };
    /// assert_eq!(outcome.critical_path(), vec![2, 0]);
    /// ```
    pub fn critical_path(&self) -> Vec<u32> {
        let last = (0..self.end.len()).max_by_key(|&t| (self.end[t], std::cmp::Reverse(t)));
        let mut path = Vec::new();
        let mut task = last.map_or(u32::MAX, |t| t as u32);
        while task != u32::MAX {
            path.push(task);
            task = self.cause[task as usize];
        }
        path
    }
}
