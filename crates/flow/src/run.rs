//! One run of the flow engine: its events, and the flows that start.

use crate::component::plan::Plan;
use crate::component::planning::Desk;
use crate::component::{Component, Done};
use crate::crew::{Crew, Draft, Job};
use crate::links::Links;
use crate::partition::Partition;
use crate::pool::{Pool, Tag};
use crate::refinement::{Colours, Quotient, Worthwhile};
use lightloom_engine::{
    Due, EngineError, EventQueue, Ledger, Observer, Outcome, Policy, Scenario, Sending, Step, Wake,
};
use lightloom_fabric::LinkId;
use lightloom_units::Time;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) const NONE: u32 = u32::MAX;

/// Events between two questions to the observer whether to go on.
const CHECK_EVERY: u64 = if cfg!(test) { 64 } else { 8192 };

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Something that the ledger waits for.
    Due(Due),
    /// A flow of a component is done, unless the component has changed since.
    Drained { component: u32, version: u32 },
    /// A plan is needed, unless the component has changed since.
    Planned { component: u32, version: u32 },
}

/// Since when it is known that an event comes: while things happened at an instant, or once they had. Events
/// of one picosecond come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Known(u64);

impl Known {
    pub fn since(instant: Time, settled: bool) -> Self {
        Known(instant.ps() << 1 | u64::from(settled))
    }
}

/// Where a component is.
#[derive(Default)]
pub(crate) struct Slot {
    /// What it does, unless it goes step by step, or that is still to be known.
    pub plan: Plan,
    pub pending: Option<Pending>,
    pub steps: Option<Box<Component>>,
    pub version: u32,
    pub stale: bool,
    pub dissolving: bool,
}

/// A plan that is being made.
pub(crate) struct Pending {
    pub job: Arc<Job>,
    /// Of the component's first event, which is known since it began.
    pub ticket: u64,
    pub quiet_until: Time,
}

impl Slot {
    /// Tracks are called so much more from now on.
    pub fn rename(&mut self, tracks: u32) {
        self.plan.rename(tracks);
        if let Some(component) = &mut self.steps {
            component.rename(tracks);
        }
    }

    /// The links it uses, by the fabric's numbers.
    pub fn links(&self) -> &[u32] {
        self.steps.as_ref().map_or(self.plan.links(), |component| component.links())
    }
}

pub(crate) struct Run<'a> {
    pub(crate) ledger: Ledger<'a>,
    pub(crate) queue: EventQueue<Event, Known>,
    /// Events taken out of it.
    handled: u64,
    pub(crate) links: Links,
    pub(crate) colours: Colours,
    pub(crate) component_of: Vec<u32>,
    // Components.
    pub(crate) slots: Vec<Slot>,
    pub(crate) free_slots: Vec<u32>,
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
    /// How a new component begins, and the slot that it is to have, while its twins are looked for.
    pub(crate) waiting: (Plan, u32),
    /// The slot of the last new component, if it is one flow.
    pub(crate) single: u32,
    /// Memory for the next one.
    pub(crate) filled: Plan,
    /// Components that are not needed.
    pub(crate) spare: Vec<Component>,
    pub(crate) desk: Desk,
    pub(crate) crew: Crew,
    /// What it is to be given once this instant is over, and memory for more.
    pub(crate) jobs: Vec<Arc<Job>>,
    #[allow(clippy::vec_box)] // they go to other threads and come back as they are
    pub(crate) drafts: Vec<Box<Draft>>,
    pub(crate) earliest: Vec<f64>,
    /// Whether everything that happens at this instant has happened.
    pub(crate) settling: bool,
    /// Whether components have been taken apart at this instant that were not over.
    pub(crate) disturbed: bool,
    pub(crate) done: Vec<Done>,
    /// What ends a part, and when the part that goes by itself may come to it.
    pub(crate) fence: &'a [bool],
    pub(crate) fence_at: Time,
    /// That part, and, where assertions are compiled, the part of each link that it may have held back.
    pub(crate) part: usize,
    pub(crate) owners: HashMap<u32, usize>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        (tolerance, threads, worthwhile): (f64, usize, Worthwhile),
        scenario: &'a Scenario<'a>,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let links = Links::new(scenario.fabric, scenario.incidents);
        Run {
            ledger: Ledger::new(scenario, policy, observer),
            queue: EventQueue::new(),
            handled: 0,
            colours: Colours::new(worthwhile, links.len()),
            component_of: vec![NONE; links.len()],
            slots: Vec::new(),
            free_slots: Vec::new(),
            stale: Vec::new(),
            dissolving: Vec::new(),
            pool: Pool::default(),
            formed: false,
            broken: false,
            partition: Partition::new(links.len()),
            local: vec![0; links.len()],
            links,
            waiting: (Plan::default(), NONE),
            single: NONE,
            filled: Plan::default(),
            spare: Vec::new(),
            desk: Desk::new(tolerance),
            crew: Crew::new(threads, tolerance),
            jobs: Vec::new(),
            drafts: Vec::new(),
            earliest: Vec::new(),
            settling: false,
            disturbed: false,
            done: Vec::new(),
            fence: &[],
            fence_at: Time::MAX,
            part: 0,
            owners: HashMap::new(),
        }
    }

    /// The run begins, all of it.
    pub(crate) fn begin_all(&mut self) -> Result<(), EngineError> {
        self.ledger.begin();
        self.keep_up(Time::ZERO)?;
        self.settle(Time::ZERO)
    }

    /// Goes on to the end.
    pub(crate) fn complete(mut self) -> Result<Outcome, EngineError> {
        let mut now = Time::ZERO;
        while let Some((at, event)) = self.queue.pop() {
            now = at;
            self.handle(event, now)?;
            while let Some(event) = self.queue.pop_at(now) {
                self.handle(event, now)?;
            }
            self.settle(now)?;
        }
        (0..self.slots.len() as u32).for_each(|id| self.receive(id)); // plans that stand still
        self.ledger.close(now)
    }

    pub(crate) fn handle(&mut self, event: Event, now: Time) -> Result<(), EngineError> {
        if let Event::Planned { component, version } = event {
            if self.slots[component as usize].version == version {
                self.receive(component);
            }
            return Ok(()); // what threads do is no event
        }
        self.ledger.outcome.events += 1;
        self.handled += 1;
        if self.handled % CHECK_EVERY == 0 {
            self.ledger.ask(now)?;
        }
        match event {
            Event::Due(due) => {
                self.ledger.due(due);
                self.keep_up(now)
            }
            Event::Planned { .. } => Ok(()),
            Event::Drained { component, version } => {
                if self.slots[component as usize].version == version {
                    self.drain(component, now);
                }
                Ok(())
            }
        }
    }

    /// Gives something back to the ledger when it is due.
    pub(crate) fn await_due(&mut self, wake: Wake, now: Time) {
        self.heed_fence(wake);
        let (ticket, known) = (self.queue.ticket(), Known::since(now, self.settling));
        self.queue.push_as(ticket, wake.at, known, Event::Due(wake.due));
    }

    /// Does what the ledger asks for at this instant.
    pub(crate) fn keep_up(&mut self, now: Time) -> Result<(), EngineError> {
        while let Some(step) = self.ledger.step(now)? {
            match step {
                Step::Wake(wake) => self.await_due(wake, now),
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
            if cfg!(debug_assertions) && !self.fence.is_empty() {
                let owner = *self.owners.entry(link).or_insert(self.part);
                assert_eq!(owner, self.part, "the policy keeps parts apart: {link}");
            }
            let component = self.component_of[link as usize];
            mark(&mut self.slots, &mut self.dissolving, component);
        }
    }

    /// Makes a component of classes. What else is on their links is not known before the instant is
    /// over.
    fn form(&mut self, quotient: Quotient, now: Time) {
        self.ledger.outcome.classes += quotient.classes.len() as u64;
        let id = self.vacant();
        quotient.names.iter().for_each(|&link| self.component_of[link as usize] = id);
        let mut component = self.spare.pop().unwrap_or_default();
        component.fill_by_classes(quotient, now);
        let slot = &mut self.slots[id as usize];
        slot.steps = Some(Box::new(component));
        slot.stale = true;
        self.stale.push(id);
        self.formed = true;
    }

    /// The place of a new component.
    pub(crate) fn vacant(&mut self) -> u32 {
        self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        })
    }
}

/// Notes that a component is to be taken apart at the end of this instant.
pub(crate) fn mark(slots: &mut [Slot], dissolving: &mut Vec<u32>, id: u32) {
    if id != NONE && !slots[id as usize].dissolving {
        slots[id as usize].dissolving = true;
        dissolving.push(id);
    }
}
