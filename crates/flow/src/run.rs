//! One run of the flow engine: its events, and the flows that start.

use crate::component::filling::Scratch;
use crate::component::{Component, Done};
use crate::partition::Partition;
use crate::pool::{Pool, Tag};
use lightloom_engine::{
    Due, EngineError, EventQueue, Ledger, Observer, Outcome, Policy, Scenario, Sending, Step,
};
use lightloom_fabric::{Fabric, LinkClass, LinkId};
use lightloom_units::{Bytes, Time};

pub(crate) const NONE: u32 = u32::MAX;

/// Events between two questions to the observer whether to go on.
const CHECK_EVERY: u64 = 8192;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Something that the ledger waits for.
    Due(Due),
    /// A flow of a component is done, unless the component has changed since.
    Drained { component: u32, version: u32 },
}

pub(crate) struct Run<'a> {
    pub(crate) tolerance: f64,
    pub(crate) ledger: Ledger<'a>,
    pub(crate) queue: EventQueue<Event>,
    // Links.
    binds: Vec<bool>,
    /// Bytes per picosecond; zero while dark.
    pub(crate) capacity: Vec<f64>,
    latency: Vec<Time>,
    pub(crate) component_of: Vec<u32>,
    // Components.
    pub(crate) components: Vec<Component>,
    pub(crate) free_components: Vec<u32>,
    pub(crate) stale: Vec<u32>,
    pub(crate) dissolving: Vec<u32>,
    /// Flows that belong to no component yet.
    pub(crate) pool: Pool,
    /// Whether paths may not be whole any more: links broke, or circuits were patched away.
    pub(crate) broken: bool,
    pub(crate) partition: Partition,
    pub(crate) local: Vec<u32>,
    pub(crate) scratch: Scratch,
    pub(crate) done: Vec<Done>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        tolerance: f64,
        scenario: &'a Scenario<'a>,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let fabric: &Fabric = scenario.fabric;
        let links = fabric.links();
        let mut binds: Vec<bool> =
            (0..links.len() as u32).map(|l| !fabric.never_binds(LinkId(l))).collect();
        // What may break must be seen on the paths that it is on.
        for &LinkId(link) in scenario.incidents.iter().flat_map(|incident| &incident.down) {
            binds[link as usize] = true;
        }
        if !scenario.incidents.is_empty() {
            let optical = links.iter().zip(&mut binds);
            optical.for_each(|(link, binds)| *binds |= link.class == LinkClass::Circuit);
        }
        Run {
            tolerance,
            ledger: Ledger::new(scenario, policy, observer),
            queue: EventQueue::new(),
            binds,
            capacity: links.iter().map(|l| l.rate.bytes_per_ps()).collect(),
            latency: links.iter().map(|l| l.delay).collect(),
            component_of: vec![NONE; links.len()],
            components: Vec::new(),
            free_components: Vec::new(),
            stale: Vec::new(),
            dissolving: Vec::new(),
            pool: Pool::default(),
            broken: false,
            partition: Partition::new(links.len()),
            local: vec![0; links.len()],
            scratch: Scratch::default(),
            done: Vec::new(),
        }
    }

    pub(crate) fn complete(mut self) -> Result<Outcome, EngineError> {
        let mut now = Time::ZERO;
        self.ledger.begin();
        self.keep_up(now)?;
        self.settle(now)?;
        while let Some((at, event)) = self.queue.pop() {
            now = at;
            self.handle(event, now)?;
            while let Some(event) = self.queue.pop_at(now) {
                self.handle(event, now)?;
            }
            self.settle(now)?;
        }
        self.ledger.close(now)
    }

    fn handle(&mut self, event: Event, now: Time) -> Result<(), EngineError> {
        self.ledger.outcome.events += 1;
        if self.ledger.outcome.events % CHECK_EVERY == 0 {
            self.ledger.ask(now)?;
        }
        match event {
            Event::Due(due) => {
                self.ledger.due(due);
                self.keep_up(now)
            }
            Event::Drained { component, version } => {
                if self.components[component as usize].version == version {
                    self.drain(component, now);
                }
                Ok(())
            }
        }
    }

    /// Does what the ledger asks for at this instant.
    fn keep_up(&mut self, now: Time) -> Result<(), EngineError> {
        while let Some(step) = self.ledger.step(now)? {
            match step {
                Step::Wake(wake) => self.queue.push(wake.at, Event::Due(wake.due)),
                Step::Patch { task, patches } => self.reconfigure(Some(task), &patches, now),
                Step::Ready(links) => self.set_ready(&links),
                Step::Incident(changes) => self.incident(&changes, now),
                Step::Send(sending) => self.launch(sending, now)?,
            }
        }
        Ok(())
    }

    /// Starts the flows of a phase.
    fn launch(&mut self, sending: Sending, now: Time) -> Result<(), EngineError> {
        let mut ready = now;
        let mut started = 0;
        // A fluid takes all the lanes of its flow, as much of it on each as on another.
        let orders = &sending.orders;
        let lanes = orders.flows(sending.phase).iter().flat_map(|flow| {
            let lanes = orders.lane_numbers(flow);
            let (first, n, bytes) = (lanes.start, lanes.len() as u64, flow.bytes.get());
            lanes
                .map(move |lane| (lane, bytes / n + u64::from(u64::from(lane - first) < bytes % n)))
        });
        for (lane, bytes) in lanes.filter(|&(_, bytes)| bytes > 0) {
            let links = orders.lane_links(lane);
            started += 1;
            ready = ready.max(self.ledger.circuits.ready_along(sending.task, links, now)?);
            for &LinkId(link) in links {
                self.ledger.outcome.link_bytes[link as usize] += Bytes::new(bytes);
            }
            let tag = Tag { slot: sending.track, lane, start: now, latency: Time::ZERO, bytes };
            self.enter(links, bytes as f64, tag);
        }
        self.ledger.sent(sending, started, ready, now);
        Ok(())
    }

    /// Puts a flow into the pool, and takes apart what it will share links with.
    pub(crate) fn enter(&mut self, links: &[LinkId], remaining: f64, tag: Tag) {
        let from = self.pool.links.len();
        let mut latency = Time::ZERO;
        let mut narrowest = links[0].0;
        for &LinkId(link) in links {
            let at = link as usize;
            latency += self.latency[at];
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
        self.pool.push(from, remaining, Tag { latency, ..tag });
    }
}

/// Notes that a component is to be taken apart at the end of this instant.
pub(crate) fn mark(components: &mut [Component], dissolving: &mut Vec<u32>, id: u32) {
    if id != NONE && !components[id as usize].dissolving {
        components[id as usize].dissolving = true;
        dissolving.push(id);
    }
}
