//! One run of the flow engine: its events, and the flows that start.

use crate::component::filling::Scratch;
use crate::component::{Component, Done};
use crate::links::Links;
use crate::partition::Partition;
use crate::pool::{Pool, Tag};
use crate::refinement::{Colours, Quotient, Worthwhile};
use lightloom_engine::{
    Due, EngineError, EventQueue, Ledger, Observer, Outcome, Policy, Scenario, Sending, Step,
};
use lightloom_fabric::LinkId;
use lightloom_units::Time;

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
    pub(crate) links: Links,
    pub(crate) colours: Colours,
    pub(crate) component_of: Vec<u32>,
    // Components.
    pub(crate) components: Vec<Component>,
    pub(crate) free_components: Vec<u32>,
    pub(crate) stale: Vec<u32>,
    pub(crate) dissolving: Vec<u32>,
    /// Flows that belong to no component yet.
    pub(crate) pool: Pool,
    /// Whether classes have been formed at this instant, perhaps on links of such flows.
    pub(crate) formed: bool,
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
        worthwhile: Worthwhile,
        scenario: &'a Scenario<'a>,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let links = Links::new(scenario.fabric, scenario.incidents);
        Run {
            tolerance,
            ledger: Ledger::new(scenario, policy, observer),
            queue: EventQueue::new(),
            colours: Colours::new(worthwhile, links.len()),
            component_of: vec![NONE; links.len()],
            components: Vec::new(),
            free_components: Vec::new(),
            stale: Vec::new(),
            dissolving: Vec::new(),
            pool: Pool::default(),
            formed: false,
            broken: false,
            partition: Partition::new(links.len()),
            local: vec![0; links.len()],
            links,
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
    pub(crate) fn keep_up(&mut self, now: Time) -> Result<(), EngineError> {
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

    /// Starts the flows of a phase: as classes where they are alike, or one by one.
    fn launch(&mut self, sending: Sending, now: Time) -> Result<(), EngineError> {
        let free = |link: u32| self.component_of[link as usize] == NONE;
        let quotient = self.colours.part(&sending, &self.links, free);
        let (mut ready, mut started) = (now, 0);
        let orders = &sending.orders;
        for (lane, bytes) in orders.shares(sending.phase) {
            let links = orders.lane_links(lane);
            started += 1;
            ready = ready.max(self.ledger.circuits.ready_along(sending.task, links, now)?);
            for link in links {
                self.ledger.outcome.link_bytes[link.index()] += bytes;
            }
            if quotient.is_none() {
                self.enter(links, bytes.get() as f64, Tag { slot: sending.track, lane });
            }
        }
        self.ledger.sent(sending, started, ready, now);
        match quotient {
            Some(quotient) => self.form(quotient, now),
            None => self.ledger.outcome.classes += u64::from(started),
        }
        Ok(())
    }

    /// Puts a flow into the pool, and takes apart what it will share links with.
    pub(crate) fn enter(&mut self, links: &[LinkId], remaining: f64, tag: Tag) {
        let from = self.pool.links.len();
        self.pool.push(self.links.binding(links), remaining, tag);
        for &link in &self.pool.links[from..] {
            let component = self.component_of[link as usize];
            mark(&mut self.components, &mut self.dissolving, component);
        }
    }

    /// Makes a component of classes. What else is on their links is not known before the instant is
    /// over.
    fn form(&mut self, quotient: Quotient, now: Time) {
        self.ledger.outcome.classes += quotient.classes.len() as u64;
        let id = self.vacant();
        quotient.names.iter().for_each(|&link| self.component_of[link as usize] = id);
        let component = &mut self.components[id as usize];
        component.fill_by_classes(quotient, now);
        component.stale = true;
        self.stale.push(id);
        self.formed = true;
    }

    /// The place of a new component.
    pub(crate) fn vacant(&mut self) -> u32 {
        self.free_components.pop().unwrap_or_else(|| {
            self.components.push(Component::default());
            self.components.len() as u32 - 1
        })
    }
}

/// Notes that a component is to be taken apart at the end of this instant.
pub(crate) fn mark(components: &mut [Component], dissolving: &mut Vec<u32>, id: u32) {
    if id != NONE && !components[id as usize].dissolving {
        components[id as usize].dissolving = true;
        dissolving.push(id);
    }
}
