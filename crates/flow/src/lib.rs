//! The flow engine: flows as fluids that share links max-min fairly, event by event.
//!
//! Modelled: the real path of every flow with each link's capacity and delay; the scale-up network
//! inside a server like any other link; circuits that carry nothing while their ports are dark;
//! many flows that start or end at one picosecond. A flow of S bytes alone on its path takes the
//! path's delays plus S over the narrowest link.
//! Ignored: packets, queues, losses, and the time that a transport takes to find the fair rate.
//! Links that can never bind ([`Fabric::never_binds`]) are left out of the computation of rates,
//! which changes no rate.
//! Cost: a change computes anew only the component of flows that it touches, and where flows end
//! only rates as high as theirs; components fall apart as flows end.
//! Checked by the shared conformance suite, by closed forms, and by the definition of max-min
//! fairness on random instances.

mod circuits;
mod component;
mod partition;
mod pool;
mod settling;

use circuits::join;
use component::{Component, Done, Scratch};
use lightloom_engine::{
    Engine, EngineError, EventQueue, NOT_A_TRANSFER, Observer, Orders, Outcome, Patches, Phase,
    Policy, Scenario, TaskId,
};
use lightloom_fabric::{Fabric, LinkId, NodeKind};
use lightloom_units::{Bytes, Time};
use partition::Partition;
use pool::{Pool, Tag};
use settling::mark;

const NONE: u32 = u32::MAX;
/// Events between two questions to the observer whether to go on.
const CHECK_EVERY: u64 = 8192;

/// The flow engine and its one knob.
///
/// ```
/// use lightloom_flow::FlowEngine;
/// let exact = FlowEngine::default();
/// assert_eq!(exact.tolerance, 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowEngine {
    /// How long, as a share of a component's age, the bandwidth of flows that have ended may stay
    /// unused before rates are computed anew. 0 is exact; with t > 0 nothing ends early, and a
    /// transfer of many flows ends at most about t later than exactly, at a fraction of the cost.
    pub tolerance: f64,
}

impl Engine for FlowEngine {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn run(
        &self,
        scenario: &Scenario<'_>,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, EngineError> {
        Run::new(self.tolerance, scenario, policy, observer).complete()
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A computation is over.
    Computed(u32),
    /// All flows of a track's phase have arrived, and its latency has passed.
    PhaseOver(u32),
    /// A flow of a component is done, unless the component has changed since.
    Drained { component: u32, version: u32 },
    /// The ports of a reconfiguration carry light again.
    Light(u32),
}

/// A transfer under way.
#[derive(Default)]
struct Transfer {
    task: u32,
    orders: Orders,
    /// Tracks that are not over.
    tracks: usize,
}

/// Phases of a transfer that follow one another.
#[derive(Default)]
struct Track {
    transfer: u32,
    phase: usize,
    end: usize,
    outstanding: u32,
    last_arrival: Time,
    /// What the phase takes after its last arrival.
    pause: Time,
    /// How long dark circuits have held it up.
    waited: Time,
}

struct Run<'a> {
    tolerance: f64,
    scenario: &'a Scenario<'a>,
    policy: &'a mut dyn Policy,
    observer: &'a mut dyn Observer,
    queue: EventQueue<Event>,
    outcome: Outcome,
    /// Predecessors that each task still waits for.
    waiting: Vec<u32>,
    finished: usize,
    transfers: Vec<Transfer>,
    free_transfers: Vec<u32>,
    tracks: Vec<Track>,
    free_tracks: Vec<u32>,
    // Links.
    binds: Vec<bool>,
    /// Bytes per picosecond; zero while dark.
    capacity: Vec<f64>,
    latency: Vec<Time>,
    /// For links into an optical switch: where they lead.
    circuit: Vec<u32>,
    /// For links out of one: where they come from.
    fed_by: Vec<u32>,
    into_switch: Vec<bool>,
    dark_until: Vec<Time>,
    component_of: Vec<u32>,
    // Components.
    components: Vec<Component>,
    free_components: Vec<u32>,
    stale: Vec<u32>,
    dissolving: Vec<u32>,
    /// Flows that belong to no component yet.
    pool: Pool,
    partition: Partition,
    local: Vec<u32>,
    scratch: Scratch,
    done: Vec<Done>,
    patches: Patches,
    patched_links: Vec<Vec<u32>>,
}

impl<'a> Run<'a> {
    fn new(
        tolerance: f64,
        scenario: &'a Scenario<'a>,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let fabric: &Fabric = scenario.fabric;
        let links = fabric.links();
        let tasks = scenario.tasks.len();
        let (mut circuit, mut fed_by) = (vec![NONE; links.len()], vec![NONE; links.len()]);
        for patch in scenario.circuits {
            join(&mut circuit, &mut fed_by, patch);
        }
        let outcome = Outcome {
            start: vec![Time::MAX; tasks],
            end: vec![Time::MAX; tasks],
            cause: vec![NONE; tasks],
            waited: vec![Time::ZERO; tasks],
            bytes: vec![Bytes::ZERO; tasks],
            link_bytes: vec![Bytes::ZERO; links.len()],
            ..Outcome::default()
        };
        Run {
            tolerance,
            scenario,
            policy,
            observer,
            queue: EventQueue::new(),
            outcome,
            waiting: scenario.tasks.predecessors.to_vec(),
            finished: 0,
            transfers: Vec::new(),
            free_transfers: Vec::new(),
            tracks: Vec::new(),
            free_tracks: Vec::new(),
            binds: (0..links.len() as u32).map(|l| !fabric.never_binds(LinkId(l))).collect(),
            capacity: links.iter().map(|l| l.rate.bytes_per_ps()).collect(),
            latency: links.iter().map(|l| l.delay).collect(),
            circuit,
            fed_by,
            into_switch: links
                .iter()
                .map(|l| matches!(fabric.nodes()[l.to.0 as usize].kind, NodeKind::Ocs { .. }))
                .collect(),
            dark_until: vec![Time::ZERO; links.len()],
            component_of: vec![NONE; links.len()],
            components: Vec::new(),
            free_components: Vec::new(),
            stale: Vec::new(),
            dissolving: Vec::new(),
            pool: Pool::default(),
            partition: Partition::new(links.len()),
            local: vec![0; links.len()],
            scratch: Scratch::default(),
            done: Vec::new(),
            patches: Patches::default(),
            patched_links: Vec::new(),
        }
    }

    fn complete(mut self) -> Result<Outcome, EngineError> {
        let total = self.scenario.tasks.len();
        let mut now = Time::ZERO;
        for task in 0..total as u32 {
            if self.scenario.tasks.predecessors[task as usize] == 0 {
                self.start(task, NONE, now)?;
            }
        }
        self.settle(now);
        while let Some((at, event)) = self.queue.pop() {
            now = at;
            self.handle(event, now)?;
            while let Some(event) = self.queue.pop_at(now) {
                self.handle(event, now)?;
            }
            self.settle(now);
        }
        if self.finished < total {
            let first = self.outcome.end.iter().position(|&end| end == Time::MAX);
            return Err(EngineError::Stalled {
                now,
                left: total - self.finished,
                total,
                first: first.unwrap_or(0) as u32,
            });
        }
        self.outcome.makespan = self.outcome.end.iter().copied().max().unwrap_or(Time::ZERO);
        Ok(self.outcome)
    }

    fn handle(&mut self, event: Event, now: Time) -> Result<(), EngineError> {
        self.outcome.events += 1;
        if self.outcome.events % CHECK_EVERY == 0 {
            let total = self.scenario.tasks.len();
            if !self.observer.keep_going(self.finished, total, now) {
                return Err(EngineError::Interrupted);
            }
        }
        match event {
            Event::Computed(task) => self.finish(task, now),
            Event::PhaseOver(track) => self.next_phase(track, now),
            Event::Drained { component, version } => {
                if self.components[component as usize].version == version {
                    self.drain(component, now);
                }
                Ok(())
            }
            Event::Light(reconfiguration) => {
                self.light(reconfiguration, now);
                Ok(())
            }
        }
    }

    // ---- tasks

    fn start(&mut self, task: u32, cause: u32, now: Time) -> Result<(), EngineError> {
        let at = task as usize;
        self.outcome.start[at] = now;
        self.outcome.cause[at] = cause;
        let name = self.scenario.tasks.transfer[at];
        if name == NOT_A_TRANSFER {
            let end = now.saturating_add(self.scenario.tasks.duration[at]);
            self.queue.push(end, Event::Computed(task));
            return Ok(());
        }
        let slot = self.free_transfers.pop().unwrap_or_else(|| {
            self.transfers.push(Transfer::default());
            self.transfers.len() as u32 - 1
        });
        let transfer = &mut self.transfers[slot as usize];
        transfer.orders.clear();
        transfer.task = task;
        self.policy
            .begin(TaskId(task), name, now, &mut transfer.orders)
            .map_err(|reason| EngineError::Policy { task, reason })?;
        self.outcome.bytes[at] = transfer.orders.all_flows().iter().map(|f| f.bytes).sum();
        transfer.tracks = transfer.orders.tracks();
        let orders = std::mem::take(&mut transfer.orders);
        self.reconfigure(task, &orders.patches.patches, orders.patches.delay, now)?;
        for phases in (0..orders.tracks()).map(|index| orders.track(index)) {
            let track = self.free_tracks.pop().unwrap_or_else(|| {
                self.tracks.push(Track::default());
                self.tracks.len() as u32 - 1
            });
            self.tracks[track as usize] =
                Track { transfer: slot, phase: phases.start, end: phases.end, ..Track::default() };
            self.launch(track, &orders, now)?;
        }
        self.transfers[slot as usize].orders = orders;
        Ok(())
    }

    fn finish(&mut self, task: u32, now: Time) -> Result<(), EngineError> {
        self.outcome.end[task as usize] = now;
        self.finished += 1;
        for &next in self.scenario.tasks.successors(task) {
            let waiting = &mut self.waiting[next as usize];
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                self.start(next, task, now)?;
            }
        }
        Ok(())
    }

    // ---- transfers

    fn next_phase(&mut self, id: u32, now: Time) -> Result<(), EngineError> {
        let track = &mut self.tracks[id as usize];
        track.phase += 1;
        let slot = track.transfer as usize;
        if track.phase < track.end {
            let orders = std::mem::take(&mut self.transfers[slot].orders);
            let launched = self.launch(id, &orders, now);
            self.transfers[slot].orders = orders;
            return launched;
        }
        let waited = track.waited;
        self.free_tracks.push(id);
        let transfer = &mut self.transfers[slot];
        transfer.tracks -= 1;
        if transfer.tracks > 0 {
            return Ok(());
        }
        let task = transfer.task;
        self.free_transfers.push(slot as u32);
        self.outcome.waited[task as usize] = waited;
        let name = self.scenario.tasks.transfer[task as usize];
        let mut patches = std::mem::take(&mut self.patches);
        patches.clear();
        self.policy
            .end(TaskId(task), name, now, &mut patches)
            .map_err(|reason| EngineError::Policy { task, reason })?;
        self.reconfigure(task, &patches.patches, patches.delay, now)?;
        self.patches = patches;
        self.finish(task, now)
    }

    /// Starts the current phase of a track; `orders` are its transfer's.
    fn launch(&mut self, id: u32, orders: &Orders, now: Time) -> Result<(), EngineError> {
        let track = &mut self.tracks[id as usize];
        let phase = track.phase;
        track.last_arrival = now;
        let task = self.transfers[track.transfer as usize].task;
        if phase >= track.end {
            self.queue.push(now, Event::PhaseOver(id)); // nothing to send at all
            return Ok(());
        }
        let Phase { dark, latency: pause, .. } = orders.phases()[phase];
        track.pause = pause;
        self.reconfigure(task, orders.circuits(phase), dark, now)?;
        let flows = orders.flows(phase);
        if flows.is_empty() {
            self.queue.push(now.saturating_add(pause), Event::PhaseOver(id));
            return Ok(());
        }
        let mut dark_until = now;
        let mut started = 0;
        // A fluid takes all the lanes of its flow, as much of it on each as on another.
        let lanes = flows.iter().flat_map(|flow| {
            let lanes = orders.lanes(flow);
            let (n, bytes) = (lanes.len() as u64, flow.bytes.get());
            lanes
                .enumerate()
                .map(move |(i, lane)| (lane, bytes / n + u64::from((i as u64) < bytes % n)))
        });
        for (links, bytes) in lanes.filter(|&(_, bytes)| bytes > 0) {
            started += 1;
            let from = self.pool.links.len();
            let mut latency = Time::ZERO;
            let mut narrowest = links[0].0;
            for (hop, &LinkId(link)) in links.iter().enumerate() {
                let at = link as usize;
                if self.into_switch[at] {
                    let next = links.get(hop + 1).map_or(NONE, |l| l.0);
                    if next == NONE || self.circuit[at] != next {
                        return Err(EngineError::NoCircuit {
                            task,
                            tx: LinkId(link),
                            rx: LinkId(next),
                        });
                    }
                }
                latency += self.latency[at];
                self.outcome.link_bytes[at] += Bytes::new(bytes);
                dark_until = dark_until.max(self.dark_until[at]);
                if self.capacity[at] < self.capacity[narrowest as usize] {
                    narrowest = link;
                }
                if self.binds[at] {
                    self.pool.links.push(link);
                }
            }
            if self.pool.links.len() == from {
                self.pool.links.push(narrowest); // something must bound the rate
            }
            for at in from..self.pool.links.len() {
                let component = self.component_of[self.pool.links[at] as usize];
                mark(&mut self.components, &mut self.dissolving, component);
            }
            self.pool.push(from, bytes as f64, Tag { slot: id, start: now, latency, bytes });
        }
        self.outcome.flows += u64::from(started);
        let track = &mut self.tracks[id as usize];
        track.outstanding = started;
        track.waited += dark_until - now;
        Ok(())
    }
}

#[cfg(test)]
lightloom_engine::conformance!(FlowEngine::default());
