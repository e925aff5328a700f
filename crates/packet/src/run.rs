//! One run: tasks, transfers and circuits between windows, shards of the network while they last.
//!
//! A window ends early where something outside the network happens: a task ends, a circuit changes, a
//! flow ends that may be the last of its phase (`ends.rs`). So tasks start and end to the picosecond.

use crate::common::Common;
use crate::conn::{Conn, Flow};
use crate::crew::Crew;
use crate::layout::Layout;
use crate::link::{Class, Origin};
use crate::packet::LongPaths;
use crate::settings::RunSettings;
use crate::shard::Shard;
use crate::spec::{Dark, PacketSpec};
use crate::tracks::Ends;
use lightloom_engine::{
    Due, EngineError, EventQueue, Ledger, Outcome, Patches, QueueSample, Scenario, Sending, Step,
    Wake,
};
use lightloom_units::{Bytes, Time};

/// Events between two questions to the observer whether to go on.
const CHECK_EVERY: u64 = 1 << 17;
/// What happens outside the network, or to both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Far {
    /// Something that the ledger waits for.
    Due(Due),
    /// A sender has perhaps heard nothing for too long.
    Timeout { conn: u32, life: u32 },
    /// Queues are to be sampled.
    Sample,
}

pub(crate) struct Run<'a> {
    pub spec: &'a PacketSpec,
    pub scenario: &'a Scenario<'a>,
    pub ledger: Ledger<'a>,
    pub far: EventQueue<Far>,
    pub shards: Vec<Shard<'a>>,
    /// As many threads as shards, once two have enough to do at the same time.
    pub crew: Option<Crew>,
    pub layout: Layout,
    pub classes: Vec<Class>,
    /// By link.
    pub class_of: Vec<u16>,
    /// By link: where it starts.
    pub origins: Vec<Origin>,
    pub long: LongPaths,
    pub conns: Vec<Conn>,
    pub free_conns: Vec<u32>,
    pub lives: u32,
    pub flows: Vec<Flow>,
    pub free_flows: Vec<u32>,
    /// Connections that are over and still take part in a ring.
    pub closing: Vec<u32>,
    pub ends: Ends,
    /// Flows on each link of a circuit.
    pub users: Vec<u32>,
    /// Patches that wait until nothing is on their ports, with the tasks that ordered them.
    pub awaited: Vec<(u32, Patches)>,
    /// Tracks that wait for circuits, with the times when their phases were ordered.
    pub postponed: Vec<(u32, Time)>,
    pub order: Vec<u32>,

    pub settings: RunSettings,
    pub dark: Dark,
    /// The longest round trip of the network \[ps\].
    pub longest: u64,
    pub seed: u64,

    pub timeouts: u64,
    pub far_events: u64,
    pub samples: Vec<QueueSample>,
    /// The largest bandwidth-delay product that a given window is below, and that window.
    pub narrow_window: Option<(u64, u64)>,
}

impl<'a> Run<'a> {
    /// The shards, and what they read.
    pub fn split(&mut self) -> (&mut Vec<Shard<'a>>, Common<'_>) {
        let common = Common {
            settings: &self.settings,
            fabric: self.scenario.fabric,
            circuits: &self.ledger.circuits,
            classes: &self.classes,
            class_of: &self.class_of,
            places: &self.layout.places,
            units: &self.layout.units,
            long: &self.long,
            dark: self.dark,
            seed: self.seed,
        };
        (&mut self.shards, common)
    }

    pub fn complete(mut self) -> Result<Outcome, EngineError> {
        self.ledger.begin();
        self.keep_up(Time::ZERO)?;
        if self.spec.sample_period > Time::ZERO {
            self.far.push(self.spec.sample_period, Far::Sample);
        }
        let length = self.layout.window;
        let exact = self.shards[0].outside.is_some();
        // All before this time has happened.
        let (mut until, mut now, mut ask_at) = (0, 0, CHECK_EVERY);
        while !self.ledger.is_over() {
            let window = self.shards.iter().filter_map(|shard| shard.first_window(length)).min();
            let start = window.map_or(u64::MAX, |window| window * length).max(until);
            self.put_off_timeouts(window.map_or(0, |window| (window + 1) * length));
            let far = self.far.peek_time().map_or(u64::MAX, Time::ps);
            if far <= start && far != u64::MAX {
                now = far.max(now);
                let (_, event) = self.far.pop().expect("it was peeked at");
                self.happen_far(event, far)?;
                continue;
            }
            let Some(window) = window else { break };
            let mut end = ((window + 1) * length).min(far);
            if exact {
                let first = self.shards.iter_mut().map(|shard| shard.first_time(window));
                end = end.min(first.min().unwrap_or(u64::MAX).saturating_add(1));
            }
            end = self.possible_end(start, end, !self.awaited.is_empty());
            self.work(window, end);
            until = end.max(until);
            now = self.shards.iter().map(|shard| shard.last).fold(now, u64::max);
            self.hear(now)?;
            let events: u64 = self.shards.iter().map(|shard| shard.counts.events).sum();
            if events >= ask_at {
                ask_at = events + CHECK_EVERY;
                self.ledger.ask(Time::from_ps(now))?;
            }
        }
        self.report(now)
    }

    /// What shards have to say after a window.
    fn hear(&mut self, now: u64) -> Result<(), EngineError> {
        let mut finished = Vec::new();
        for at in 0..self.shards.len() {
            let shard = &mut self.shards[at];
            for (since, sender) in shard.armed.drain(..) {
                let Conn { life, .. } = self.conns[shard.senders[sender as usize].conn as usize];
                let timeout = Far::Timeout { conn: shard.senders[sender as usize].conn, life };
                let time = since + self.settings.retransmit_after;
                self.far.push(Time::from_ps(time), timeout);
            }
            for flow in shard.ending.drain(..) {
                self.ends.ending(&mut self.flows, flow);
            }
            finished.append(&mut shard.finished);
            if let Some(conn) = shard.no_path.take() {
                let track = self.flows[self.conns[conn as usize].flow as usize].track;
                let task = self.ledger.task_of(track);
                let refused = shard.outside.as_mut().and_then(|outside| outside.refused.take());
                let reason = format!("balancer: {}", refused.unwrap_or_default());
                return Err(EngineError::Policy { task, reason });
            }
        }
        if !self.closing.is_empty() {
            let closing = std::mem::take(&mut self.closing);
            closing.into_iter().for_each(|conn| self.free(conn));
        }
        if finished.is_empty() {
            return Ok(());
        }
        finished.sort_unstable();
        for (end, flow) in finished {
            self.finish(flow, end)?;
        }
        if self.awaited.is_empty() { Ok(()) } else { self.patch_what_is_free(Time::from_ps(now)) }
    }

    fn finish(&mut self, id: u32, end: u64) -> Result<(), EngineError> {
        self.complete_flow(id);
        let Flow { track, bytes, start, ideal, .. } = self.flows[id as usize];
        self.ends.over(&mut self.flows, id);
        self.free_flows.push(id);
        if end - start < ideal {
            let task = self.ledger.task_of(track);
            let (took, ideal) = (Time::from_ps(end - start), Time::from_ps(ideal));
            return Err(EngineError::Impossible { task, took, ideal });
        }
        let (start, end) = (Time::from_ps(start), Time::from_ps(end));
        if let Some(wake) = self.ledger.arrived(track, Bytes::new(bytes), start, end, end) {
            self.wake(wake);
        }
        Ok(())
    }

    fn happen_far(&mut self, event: Far, now: u64) -> Result<(), EngineError> {
        let time = Time::from_ps(now);
        match event {
            Far::Due(due) => {
                self.far_events += 1;
                self.ledger.due(due);
                self.keep_up(time)
            }
            Far::Timeout { conn, life } => self.timeout(conn, life, now),
            Far::Sample => {
                self.sample(time);
                Ok(())
            }
        }
    }

    // ---- transfers

    /// Does what the ledger asks for at this instant.
    fn keep_up(&mut self, now: Time) -> Result<(), EngineError> {
        while let Some(step) = self.ledger.step(now)? {
            match step {
                Step::Wake(wake) => self.wake(wake),
                Step::Patch { task, patches } if patches.waits => {
                    self.awaited.push((task, patches));
                    self.patch_what_is_free(now)?;
                }
                Step::Patch { task, patches } => self.reconfigure(Some(task), &patches, now)?,
                Step::Ready(links) => self.set_ready(&links, now),
                Step::Send(sending) => self.launch(sending, now, now)?,
                Step::Incident(changes) => self.incident(&changes, now)?,
            }
        }
        Ok(())
    }

    pub(crate) fn wake(&mut self, wake: Wake) {
        self.far.push(wake.at, Far::Due(wake.due));
    }

    /// Starts the flows of a phase, which were ordered at some time; or postpones them until circuits are
    /// there that wait for their ports.
    pub(crate) fn launch(
        &mut self,
        sending: Sending,
        ordered: Time,
        now: Time,
    ) -> Result<(), EngineError> {
        let ready = match sending.ready(&self.ledger.circuits, now) {
            Err(EngineError::NoCircuit { tx, .. }) if self.is_awaited(tx) => {
                self.postponed.push((sending.track, ordered));
                self.ledger.postpone(sending);
                return Ok(());
            }
            ready => ready?,
        };
        let first = self.new_connections(&sending, now)?;
        let count = sending.orders.flows(sending.phase).len() as u32;
        self.ledger.sent(sending, count, now + (ready - ordered), now);
        let mut order = std::mem::take(&mut self.order);
        for conn in order.drain(first..) {
            let (shard, sender) = self.conns[conn as usize].sender;
            let (shards, common) = self.split();
            shards[shard].ready(&common, sender, now.ps());
        }
        self.order = order;
        Ok(())
    }
}
