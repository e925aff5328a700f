//! What every engine keeps book of: which tasks may start, which transfers are under way and in which
//! phase, which circuits stand, what was measured. An engine adds how bytes move, and nothing else.
//!
//! The ledger does no work and has no clock: it hears what has happened and answers with
//! [`Step`]s, what is to be done next. An engine has one queue of events, of which [`Due`] is one
//! kind, and four duties:
//!
//! 1. at the beginning [`Ledger::begin`], and whenever a [`Due`] is due [`Ledger::due`]; after either
//!    it carries out every [`Ledger::step`], in order, before anything else happens;
//! 2. for [`Step::Wake`]: put the `Due` into its queue;
//! 3. for [`Step::Patch`]: move or refuse the flows on the links that are [touched](Circuits::touched),
//!    [join](Circuits::join) the patches, stop what is on them and tell [`Ledger::darkened`];
//!    [`Step::Ready`] undoes the darkness; for [`Step::Incident`] see [`LinkChanges`]; patches that
//!    [wait](Patches::waits) are made when no flow is on the links that are touched, and phases that are
//!    to be sent before then are [postponed](Ledger::postpone);
//! 4. for [`Step::Send`]: start the flows of the phase, tell [`Ledger::sent`], and as each flow
//!    arrives [`Ledger::arrived`].
//!
//! An engine without circuits may answer `Patch` with an error. Checked: by the conformance suite, on
//! which every engine with this ledger is run, and here on an engine whose bytes take no time.

use crate::circuits::Circuits;
use crate::engine::{Policy, Scenario};
use crate::error::EngineError;
use crate::orders::{Orders, Patches};
use crate::outcome::{Observer, Outcome, Reconfiguration};
use crate::tasks::{NOT_A_TRANSFER, TaskId};
use crate::transfers::{AfterPhase, Transfers};
use lightloom_fabric::LinkId;
use lightloom_units::{BitRate, Bytes, Time};

const NONE: u32 = u32::MAX;

/// Something that happens at a time set beforehand; an engine keeps it and gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A computation is over.
    Computed(u32),
    /// All flows of a track's phase have arrived, and its latency has passed.
    PhaseOver(u32),
    /// The ports of a reconfiguration can carry data again.
    Ready(u32),
    /// Something breaks or is whole again.
    Incident(u32),
    /// A held task starts.
    Started(u32),
}

/// `due` is to be given back at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is not given back never happens"]
pub struct Wake {
    /// The time at which it happens.
    pub at: Time,
    /// What happens then.
    pub due: Due,
}

/// What an engine is to do next.
#[derive(Debug)]
pub enum Step {
    /// Give this back in time.
    Wake(Wake),
    /// Patch circuits, then tell [`Ledger::darkened`].
    Patch {
        /// The transfer that ordered it.
        task: u32,
        /// What changes, and how long it is dark.
        patches: Patches,
    },
    /// These links can carry data again. One may be named twice.
    Ready(Vec<LinkId>),
    /// Start the flows of a phase, then tell [`Ledger::sent`].
    Send(Sending),
    /// Links broke or are whole again, and the policy has answered.
    Incident(LinkChanges),
}

/// What an incident means for an engine: first `down` carries nothing any more, then `patches` are
/// made as for [`Step::Patch`], then flows whose paths are not [whole](Circuits::is_whole) go where
/// [`Ledger::displaced`] says, then `up` carries again, then `rates` hold. If it [renews](Ledger::renews),
/// flows do not go elsewhere: they are [`Ledger::cut`], and [`Ledger::renew`] comes last.
#[derive(Debug)]
pub struct LinkChanges {
    /// Links that carry nothing now.
    pub down: Vec<LinkId>,
    /// Links that carry again, unless they are dark: those follow with [`Step::Ready`].
    pub up: Vec<LinkId>,
    /// Links that carry at another rate.
    pub rates: Vec<(LinkId, BitRate)>,
    /// What the policy patches.
    pub patches: Patches,
}

/// A phase whose flows are to start: `orders.flows(phase)`, of which there is at least one.
#[derive(Debug)]
pub struct Sending {
    /// The track, to be named when a flow arrives.
    pub track: u32,
    /// Index of the transfer in the task graph.
    pub task: u32,
    /// Which phase of the orders.
    pub phase: usize,
    /// The transfer's orders; they go back to the ledger with [`Ledger::sent`].
    pub orders: Orders,
}

impl Sending {
    /// When the last of the phase's flows has light all along its lanes, `now` or later.
    ///
    /// # Errors
    /// [`EngineError::NoCircuit`], as [`Circuits::ready_along`].
    pub fn ready(&self, circuits: &Circuits, now: Time) -> Result<Time, EngineError> {
        let flows = self.orders.flows(self.phase).iter();
        let mut lanes = flows.flat_map(|flow| self.orders.lanes(flow));
        lanes
            .try_fold(now, |ready, lane| Ok(ready.max(circuits.ready_along(self.task, lane, now)?)))
    }
}

/// What the ledger itself has still to do at this instant.
enum Entry {
    Start { task: u32, cause: u32 },
    Launch(u32),
    Flows(u32),
    PhaseOver(u32),
    Finish(u32),
    Ready(u32),
    Await(u32),
    Incident(u32),
    Started(u32),
}

/// The bookkeeping of one run.
///
/// An engine whose bytes take no time at all, in full:
///
/// ```
/// use lightloom_engine::conformance::{Graph, Script, Work};
/// use lightloom_engine::{EventQueue, Ledger, Orders, Scenario, Silent, Step};
/// use lightloom_fabric::LinkId;
/// use lightloom_units::{Bytes, Time};
/// let mut orders = Orders::default();
/// orders.path().push(LinkId(0));
/// orders.flow(Bytes::new(1_000));
/// orders.end_phase(Time::from_us(3)); // the phase's own latency
/// let mut policy = Script { transfers: vec![orders], at_end: vec![] };
/// let work = vec![Work::Compute(Time::from_us(2)), Work::Send(0)];
/// let (graph, fabric) = (Graph::new(work, vec![(0, 1)]), lightloom_engine::conformance::leaf_spine());
/// let scenario = Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
/// let mut observer = Silent;
///
/// let mut queue = EventQueue::new();
/// let mut ledger = Ledger::new(&scenario, &mut policy, &mut observer);
/// let mut now = Time::ZERO;
/// ledger.begin();
/// loop {
///     while let Some(step) = ledger.step(now)? {
///         match step {
///             Step::Wake(wake) => queue.push(wake.at, wake.due),
///             Step::Send(sending) => {
///                 let (track, ready) = (sending.track, sending.ready(&ledger.circuits, now)?);
///                 let flows = sending.orders.flows(sending.phase).to_vec();
///                 ledger.sent(sending, flows.len() as u32, ready, now);
///                 for flow in flows {
///                     if let Some(wake) = ledger.arrived(track, flow.bytes, now, now, now) {
///                         queue.push(wake.at, wake.due);
///                     }
///                 }
///             }
///             Step::Patch { .. } | Step::Ready(_) => unreachable!("no optical switch here"),
///             Step::Incident(_) => unreachable!("nothing breaks here"),
///         }
///     }
///     let Some((at, due)) = queue.pop() else { break };
///     now = at;
///     ledger.due(due);
/// }
/// let outcome = ledger.close(now)?;
/// assert_eq!(outcome.makespan, Time::from_us(5));
/// # Ok::<(), lightloom_engine::EngineError>(())
/// ```
pub struct Ledger<'a> {
    /// What is run.
    pub scenario: &'a Scenario<'a>,
    policy: &'a mut dyn Policy,
    observer: &'a mut dyn Observer,
    /// The circuits that stand.
    pub circuits: Circuits,
    /// What has been measured. Times, causes, waits, the bytes of transfers, reconfigurations and
    /// the makespan are the ledger's; the rest is the engine's.
    pub outcome: Outcome,
    /// Predecessors that each task still waits for.
    waiting: Vec<u32>,
    /// Tasks that have not ended.
    left: usize,
    transfers: Transfers,
    /// The next one last.
    entries: Vec<Entry>,
    darkened: Vec<Vec<LinkId>>,
    /// By task, empty while none is held: it does not start before.
    held_until: Vec<Time>,
    /// Computations under way that take longer.
    longer: Vec<(u32, Time)>,
    /// Something broke or healed, and [`Ledger::renew`] is to come.
    renewed: bool,
}

impl<'a> Ledger<'a> {
    /// The books of a run that has not begun.
    pub fn new(
        scenario: &'a Scenario<'a>,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let tasks = scenario.tasks.len();
        let outcome = Outcome {
            start: vec![Time::MAX; tasks],
            end: vec![Time::MAX; tasks],
            cause: vec![NONE; tasks],
            waited: vec![Time::ZERO; tasks],
            bytes: vec![Bytes::ZERO; tasks],
            link_bytes: vec![Bytes::ZERO; scenario.fabric.links().len()],
            ..Outcome::default()
        };
        Ledger {
            scenario,
            policy,
            observer,
            circuits: Circuits::new(scenario.fabric, scenario.circuits),
            outcome,
            waiting: scenario.tasks.predecessors.to_vec(),
            left: tasks,
            transfers: Transfers::default(),
            entries: Vec::new(),
            darkened: Vec::new(),
            held_until: Vec::new(),
            longer: Vec::new(),
            renewed: false,
        }
    }

    // ---- what has happened

    /// The run begins: tasks without predecessors start, once what breaks at once has broken.
    pub fn begin(&mut self) {
        let ready = (0..self.waiting.len() as u32).rev();
        let ready = ready.filter(|&task| self.waiting[task as usize] == 0);
        self.entries.extend(ready.map(|task| Entry::Start { task, cause: NONE }));
        let incidents = (0..self.scenario.incidents.len() as u32).rev();
        self.entries.extend(incidents.map(Entry::Await));
    }

    /// Something that was due has come.
    pub fn due(&mut self, due: Due) {
        match due {
            Due::Computed(task) => self.entries.push(Entry::Finish(task)),
            Due::PhaseOver(track) => self.entries.push(Entry::PhaseOver(track)),
            Due::Ready(change) => self.entries.push(Entry::Ready(change)),
            Due::Incident(index) => self.entries.push(Entry::Incident(index)),
            Due::Started(task) => self.entries.push(Entry::Started(task)),
        }
    }

    /// The flows of a phase have been started, `flows` in the engine's own count, of which each is to
    /// be reported by [`Ledger::arrived`]. The circuits of all of them can carry from `ready` on.
    pub fn sent(&mut self, sending: Sending, flows: u32, ready: Time, now: Time) {
        self.outcome.flows += u64::from(flows);
        self.transfers.sent(sending.track, sending.orders, flows, ready - now);
    }

    /// The circuits of a phase are not there yet, for they [wait](Patches::waits).
    pub fn postpone(&mut self, Sending { track, orders, .. }: Sending) {
        *self.transfers.orders_mut(track) = orders;
    }

    /// What was [postponed](Ledger::postpone) of a track, to be started now or postponed again.
    ///
    /// # Errors
    /// As [`Ledger::divert`], if a link of its paths has broken since.
    pub fn resume(&mut self, track: u32, now: Time) -> Result<Sending, EngineError> {
        let (phase, _) = self.transfers.phase(track);
        self.sending(track, phase, now)
    }

    /// A flow of a track that started at `start` has arrived whole at `arrival`, which may lie
    /// before or after `now`. The last of its phase says when that is over.
    pub fn arrived(
        &mut self,
        track: u32,
        bytes: Bytes,
        start: Time,
        arrival: Time,
        now: Time,
    ) -> Option<Wake> {
        self.arrived_alike(track, 1, bytes, (start, arrival), now)
    }

    /// As [`Ledger::arrived`], for as many flows that are alike: of so many bytes each, from a start to
    /// an arrival.
    pub fn arrived_alike(
        &mut self,
        track: u32,
        flows: u32,
        bytes: Bytes,
        (start, arrival): (Time, Time),
        now: Time,
    ) -> Option<Wake> {
        let task = TaskId(self.task_of(track));
        for _ in 0..flows {
            self.observer.flow_finished(task, bytes, start, arrival);
        }
        let over = self.transfers.arrived(track, flows, arrival);
        over.map(|over| Wake { at: over.max(now), due: Due::PhaseOver(track) })
    }

    /// The patches of a [`Step::Patch`] are made and `links` have gone dark for `patches.delay`. The
    /// answer says when they carry light again, unless a later change darkens them for longer.
    pub fn darkened(
        &mut self,
        task: Option<u32>,
        patches: &Patches,
        links: Vec<LinkId>,
        now: Time,
    ) -> Wake {
        let ready = now.saturating_add(patches.delay);
        self.circuits.darken(&links, ready);
        let due = Due::Ready(self.darkened.len() as u32);
        self.darkened.push(links);
        let patches = patches.patches.len() as u32;
        self.outcome.reconfigurations.push(Reconfiguration { task, at: now, ready, patches });
        Wake { at: ready, due }
    }

    /// A circuit under a flow of this track is patched elsewhere, or a link of it is down: asks the
    /// policy for another path, see [`Policy::displaced`].
    pub fn displaced(&mut self, track: u32, now: Time, path: &mut Vec<LinkId>) -> bool {
        let task = self.task_of(track);
        let name = self.scenario.tasks.transfer[task as usize];
        self.policy.displaced(TaskId(task), name, now, path)
    }

    /// When the phase of a track began, and its flows started.
    pub fn began(&self, track: u32) -> Time {
        self.transfers.began(track)
    }

    /// The orders of a track's transfer.
    pub fn orders(&self, track: u32) -> &Orders {
        self.transfers.orders(track)
    }

    /// The path of a lane of the track's phase, by [`Orders::lane_numbers`].
    pub fn lane(&self, track: u32, lane: u32) -> &[LinkId] {
        self.transfers.lane(track, lane)
    }

    /// Asks the policy where a lane whose path is not whole goes on, and keeps the answer.
    ///
    /// # Errors
    /// [`EngineError::LinkDown`] or [`EngineError::CircuitInUse`] if it does not know, or names a
    /// path that is not whole either.
    pub fn divert(&mut self, track: u32, lane: u32, now: Time) -> Result<(), EngineError> {
        let old = self.lane(track, lane).to_vec();
        let mut path = old.clone();
        if !self.displaced(track, now, &mut path)
            || path.is_empty()
            || !self.circuits.is_whole(&path)
        {
            let task = self.task_of(track);
            return Err(match old.iter().find(|&&link| self.circuits.is_down(link)) {
                Some(&link) => EngineError::LinkDown { task, link, now },
                None => {
                    let tx = old.iter().find(|&&link| self.circuits.enters_switch(link));
                    EngineError::CircuitInUse { tx: *tx.unwrap_or(&old[0]), now }
                }
            });
        }
        self.transfers.orders_mut(track).divert(lane, path);
        Ok(())
    }

    /// Whether transfers wait to be renewed.
    #[inline]
    pub fn renews(&self) -> bool {
        self.renewed
    }

    /// A flow of a track ends where it is, with `left` still to be sent; see [`Policy::unsent`].
    pub fn cut(&mut self, track: u32, lane: u32, left: Bytes, now: Time) -> Option<Wake> {
        let (task, path) = (self.task_of(track), self.transfers.lane(track, lane));
        self.policy.unsent(TaskId(task), path, left);
        less(&mut self.outcome, task, left);
        let sent = Bytes::new(self.orders(track).share(lane).get().saturating_sub(left.get()));
        self.arrived(track, sent, self.began(track), now, now)
    }

    /// After an incident, once what it cut is [`Ledger::cut`]: the policy orders anew, and
    /// [`Ledger::step`] goes on.
    ///
    /// # Errors
    /// [`EngineError::Policy`] if the policy gives up.
    pub fn renew(&mut self, now: Time) -> Result<(), EngineError> {
        self.renewed = false;
        let mut slots = self.transfers.renewed();
        slots.sort_by_key(|&(_, task)| (self.outcome.start[task as usize], task));
        let next = self.entries.len();
        for (slot, task) in slots {
            let (name, policy) = (self.scenario.tasks.transfer[task as usize], &mut self.policy);
            let order = |orders: &mut Orders| policy.anew(TaskId(task), name, now, orders);
            let launch = |track| self.entries.push(Entry::Launch(track));
            let more = self.transfers.renew(slot, order, launch);
            let more = more.map_err(|reason| EngineError::Policy { task, reason })?;
            self.outcome.bytes[task as usize] += more;
        }
        self.entries[next..].reverse();
        Ok(())
    }

    // ---- what is next

    /// What is to be done next at this instant; `None` once the ledger waits for something to happen.
    ///
    /// # Errors
    /// [`EngineError::Policy`] if the policy gives up.
    pub fn step(&mut self, now: Time) -> Result<Option<Step>, EngineError> {
        while let Some(entry) = self.entries.pop() {
            let step = match entry {
                Entry::Start { task, cause } => self.start(task, cause, now)?,
                Entry::Launch(track) => self.launch(track, now),
                Entry::Flows(track) => Some(self.flows(track, now)?),
                Entry::PhaseOver(track) => self.phase_over(track, now)?,
                Entry::Finish(task) => match self.longer.iter().position(|&(t, _)| t == task) {
                    Some(at) => {
                        let wake = now.saturating_add(self.longer.swap_remove(at).1);
                        Some(Step::Wake(Wake { at: wake, due: Due::Computed(task) }))
                    }
                    None => {
                        self.finish(task, now);
                        None
                    }
                },
                Entry::Await(index) => {
                    let at = self.scenario.incidents[index as usize].at;
                    match at == now {
                        true => self.incident(index, now)?,
                        false => Some(Step::Wake(Wake { at, due: Due::Incident(index) })),
                    }
                }
                Entry::Incident(index) => self.incident(index, now)?,
                Entry::Started(task) => self.carry_out(task, now)?,
                Entry::Ready(change) => {
                    let mut links = std::mem::take(&mut self.darkened[change as usize]);
                    links.retain(|&link| self.circuits.carries(link, now));
                    Some(Step::Ready(links))
                }
            };
            if step.is_some() {
                return Ok(step);
            }
        }
        Ok(None)
    }

    fn start(&mut self, task: u32, cause: u32, now: Time) -> Result<Option<Step>, EngineError> {
        let at = task as usize;
        self.outcome.start[at] = now;
        self.outcome.cause[at] = cause;
        if let Some(&until) = self.held_until.get(at).filter(|&&until| until > now) {
            self.outcome.waited[at] = until - now;
            return Ok(Some(Step::Wake(Wake { at: until, due: Due::Started(task) })));
        }
        self.carry_out(task, now)
    }

    /// An incident: the policy is asked what it makes of it.
    fn incident(&mut self, index: u32, now: Time) -> Result<Option<Step>, EngineError> {
        if self.is_over() {
            return Ok(None);
        }
        let incident = &self.scenario.incidents[index as usize];
        self.circuits.change(&incident.down, &incident.up);
        if incident.hold > Time::ZERO {
            self.held_until.resize(self.scenario.tasks.len(), Time::ZERO);
            for &task in &incident.held {
                let at = task as usize;
                let computes = self.scenario.tasks.transfer[at] == NOT_A_TRANSFER;
                if self.outcome.start[at] == Time::MAX {
                    let until = &mut self.held_until[at];
                    *until = now.saturating_add(incident.hold).max(*until);
                } else if self.outcome.end[at] == Time::MAX && computes {
                    self.outcome.waited[at] += incident.hold;
                    self.longer.push((task, incident.hold));
                }
            }
        }
        if self.policy.renews() {
            self.renewed = true;
            let (policy, outcome) = (&mut self.policy, &mut self.outcome);
            self.transfers.forget(|task, path, bytes| {
                policy.unsent(TaskId(task), path, bytes);
                less(outcome, task, bytes);
            });
        }
        let mut patches = Patches::default();
        let first = self.scenario.tasks.len() as u32;
        self.policy.incident(index, now, &mut patches).map_err(|reason| {
            let unfinished = self.outcome.end.iter().position(|&end| end == Time::MAX);
            EngineError::Policy { task: unfinished.map_or(first, |at| at as u32), reason }
        })?;
        let ready = |link: &&LinkId| self.circuits.carries(**link, now);
        let up = incident.up.iter().filter(ready).copied().collect();
        let (down, rates) = (incident.down.clone(), incident.rates.clone());
        Ok(Some(Step::Incident(LinkChanges { down, up, rates, patches })))
    }

    /// A task that nothing holds: computes, or sends what the policy says.
    fn carry_out(&mut self, task: u32, now: Time) -> Result<Option<Step>, EngineError> {
        let at = task as usize;
        let name = self.scenario.tasks.transfer[at];
        if name == NOT_A_TRANSFER {
            let at = now.saturating_add(self.scenario.tasks.duration[at]);
            return Ok(Some(Step::Wake(Wake { at, due: Due::Computed(task) })));
        }
        let (slot, orders) = self.transfers.open(task);
        self.policy
            .begin(TaskId(task), name, now, orders)
            .map_err(|reason| EngineError::Policy { task, reason })?;
        Ok(self.ordered(slot, task))
    }

    /// The orders of a transfer are there: its tracks are launched.
    fn ordered(&mut self, slot: u32, task: u32) -> Option<Step> {
        let next = self.entries.len();
        let (patches, bytes) =
            self.transfers.begin(slot, |track| self.entries.push(Entry::Launch(track)));
        self.outcome.bytes[task as usize] += bytes;
        self.entries[next..].reverse();
        self.patch(task, patches)
    }

    fn finish(&mut self, task: u32, now: Time) {
        self.outcome.end[task as usize] = now;
        self.left -= 1;
        let next = self.entries.len();
        for &successor in self.scenario.tasks.successors(task) {
            let waiting = &mut self.waiting[successor as usize];
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                self.entries.push(Entry::Start { task: successor, cause: task });
            }
        }
        self.entries[next..].reverse();
    }

    /// A track's current phase begins.
    fn launch(&mut self, track: u32, now: Time) -> Option<Step> {
        let Some((task, patches)) = self.transfers.launch(track, now) else {
            // Nothing to send at all: over at this instant, but after all that is due before.
            return Some(Step::Wake(Wake { at: now, due: Due::PhaseOver(track) }));
        };
        self.entries.push(Entry::Flows(track));
        self.patch(task, patches)
    }

    /// Patches to be made, if any.
    fn patch(&self, task: u32, mut patches: Patches) -> Option<Step> {
        if patches.keeps {
            patches.patches.retain(|patch| self.circuits.leads_to(patch.tx) != patch.rx);
        }
        (!patches.patches.is_empty()).then_some(Step::Patch { task, patches })
    }

    /// A phase's circuits are set: its flows start, or it is a pause. What has broken since they were
    /// ordered they go around.
    fn flows(&mut self, track: u32, now: Time) -> Result<Step, EngineError> {
        let (phase, pause) = self.transfers.phase(track);
        let orders = self.transfers.orders(track);
        if orders.flows(phase).is_empty() {
            let at = now.saturating_add(pause);
            return Ok(Step::Wake(Wake { at, due: Due::PhaseOver(track) }));
        }
        Ok(Step::Send(self.sending(track, phase, now)?))
    }

    fn sending(&mut self, track: u32, phase: usize, now: Time) -> Result<Sending, EngineError> {
        if !self.scenario.incidents.is_empty() {
            let orders = self.transfers.orders(track);
            let lanes = orders.flows(phase).iter().flat_map(|flow| orders.lane_numbers(flow));
            let broken = |&lane: &u32| !self.circuits.is_whole(orders.lane_links(lane));
            for lane in lanes.filter(broken).collect::<Vec<_>>() {
                self.divert(track, lane, now)?;
            }
        }
        let task = self.transfers.task(track);
        let orders = std::mem::take(self.transfers.orders_mut(track));
        Ok(Sending { track, task, phase, orders })
    }

    fn phase_over(&mut self, track: u32, now: Time) -> Result<Option<Step>, EngineError> {
        let (slot, task, waited) = match self.transfers.phase_over(track) {
            AfterPhase::NextPhase => return Ok(self.launch(track, now)),
            AfterPhase::OtherTracks => return Ok(None),
            AfterPhase::Over { slot, task, waited } => (slot, task, waited),
        };
        self.outcome.waited[task as usize] += waited;
        let name = self.scenario.tasks.transfer[task as usize];
        let orders = self.transfers.emptied(slot);
        self.policy
            .more(TaskId(task), name, now, orders)
            .map_err(|reason| EngineError::Policy { task, reason })?;
        if !orders.phases().is_empty() {
            return Ok(self.ordered(slot, task));
        }
        self.transfers.close(slot);
        let mut patches = Patches::default();
        self.policy
            .end(TaskId(task), name, now, &mut patches)
            .map_err(|reason| EngineError::Policy { task, reason })?;
        self.entries.push(Entry::Finish(task));
        Ok(self.patch(task, patches))
    }

    // ---- how far it is

    /// Whether the end of a track's phase sets something off, but that the run is over: more of its transfer,
    /// another task, or what the policy does.
    pub fn leads_on(&self, track: u32) -> bool {
        let task = self.task_of(track);
        !self.transfers.is_last(track)
            || !self.scenario.tasks.successors(task).is_empty()
            || self.policy.heeds_ends()
    }

    /// Tasks that have not ended.
    #[inline]
    pub fn left(&self) -> usize {
        self.left
    }

    /// The task whose transfer a track is part of.
    #[inline]
    pub fn task_of(&self, track: u32) -> u32 {
        self.transfers.task(track)
    }

    /// Whether every task has ended.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Asks the observer whether to go on; an engine does so every few thousand events.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] if not.
    pub fn ask(&mut self, now: Time) -> Result<(), EngineError> {
        let total = self.scenario.tasks.len();
        if self.observer.keep_going(total - self.left, total, now) {
            Ok(())
        } else {
            Err(EngineError::Interrupted)
        }
    }

    /// The run is over, or nothing can happen any more.
    ///
    /// # Errors
    /// [`EngineError::Stalled`] if tasks are left.
    pub fn close(mut self, now: Time) -> Result<Outcome, EngineError> {
        let total = self.scenario.tasks.len();
        if !self.is_over() {
            let first = self.outcome.end.iter().position(|&end| end == Time::MAX).unwrap_or(0);
            return Err(EngineError::Stalled { now, left: self.left, total, first: first as u32 });
        }
        // Parts go one after the other, and at one instant in any order.
        self.outcome.reconfigurations.sort_by_key(|change| (change.at, change.task));
        self.outcome.makespan = self.outcome.end.iter().copied().max().unwrap_or(Time::ZERO);
        Ok(self.outcome)
    }
}

/// A task sends so much less than it was to.
fn less(outcome: &mut Outcome, task: u32, bytes: Bytes) {
    let ordered = &mut outcome.bytes[task as usize];
    *ordered = Bytes::new(ordered.get().saturating_sub(bytes.get()));
}

pub(crate) mod books;
#[cfg(test)]
mod tests;
