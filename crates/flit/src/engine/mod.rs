//! Tasks on the flit engine: the flows that a policy orders become packets on the paths that it chose.
//!
//! Modelled: each flow's bytes in packets of flits; a source sends its flows' packets in turn; every
//! link of the fabric is a channel as many flits wide as its rate has of the slowest's. A circuit is
//! one channel, from a NIC to a NIC.
//! Ignored: acknowledgements, loss (there is none), the rest of a rate that is no multiple of the
//! slowest link's.
//! Checked: the suite that every engine passes; RailX's collectives against their equations.

mod clock;
mod messages;
mod plant;
mod settings;

pub use settings::FlitEngine;

use lightloom_engine::{
    Due, Engine, EngineError, EventQueue, Ledger, Observer, Outcome, Patches, Policy, Scenario,
    Sending, Step,
};
use lightloom_fabric::LinkId;
use lightloom_units::{Bytes, Time};
use messages::{Arrivals, Message, Messages};
use plant::Plant;

/// Cycles between two questions whether to go on.
const CHECK_EVERY: u64 = 1 << 12;
/// Cycles without any movement that are taken for a deadlock.
const STILL: u64 = 1 << 16;

impl Engine for FlitEngine {
    fn name(&self) -> &'static str {
        "flit"
    }

    fn run(
        &self,
        scenario: &Scenario<'_>,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, EngineError> {
        let plant = Plant::new(self, scenario.fabric)
            .map_err(|reason| EngineError::Policy { task: 0, reason })?;
        let mut run = Run {
            engine: self,
            ledger: Ledger::new(scenario, policy, observer),
            queue: EventQueue::new(),
            messages: Messages::new(scenario.fabric.cluster().gpus, self.flit_size, plant.packet),
            plant,
            arrivals: Arrivals::default(),
            users: vec![0; scenario.fabric.links().len()],
            cycle: 0,
            cycles: 0,
        };
        for patch in scenario.circuits {
            run.plant.patch(patch);
        }
        run.complete()
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Something that the ledger waits for.
    Due(Due),
    /// The circuits of a message's path can carry data.
    Ready(u32),
}

struct Run<'a> {
    engine: &'a FlitEngine,
    plant: Plant,
    ledger: Ledger<'a>,
    queue: EventQueue<Event>,
    messages: Messages,
    arrivals: Arrivals,
    /// Messages on each link.
    users: Vec<u32>,
    /// The next cycle.
    cycle: u64,
    /// Cycles that were worked.
    cycles: u64,
}

impl Run<'_> {
    fn complete(mut self) -> Result<Outcome, EngineError> {
        let mut now = Time::ZERO;
        self.ledger.begin();
        self.keep_up(now)?;
        while !self.ledger.is_over() {
            if self.messages.moving() == 0 {
                let Some(at) = self.queue.peek_time() else { break };
                let next = self.plant.clock.cycle(at).max(self.cycle);
                self.plant.part.rest(self.cycle, next);
                self.cycle = next;
            }
            let begins = self.plant.clock.time(self.cycle);
            while let Some(at) = self.queue.peek_time().filter(|&at| at <= begins) {
                let Some((_, event)) = self.queue.pop() else { break };
                now = at.max(now);
                self.handle(event, now)?;
            }
            if self.messages.moving() > 0 {
                now = self.work(now)?;
            }
        }
        let moved = self.plant.part.flit_hops();
        (self.ledger.outcome.events, self.ledger.outcome.solves) = (moved, self.cycles);
        self.ledger.close(now)
    }

    /// One cycle.
    fn work(&mut self, now: Time) -> Result<Time, EngineError> {
        let guide = &self.messages.paths;
        let (part, places) = (&mut self.plant.part, &self.plant.places);
        part.step(self.cycle, guide, places, &mut self.messages.sources, &mut self.arrivals);
        self.cycle += 1;
        self.cycles += 1;
        if self.cycles % CHECK_EVERY == 0 {
            self.ledger.ask(now)?;
        }
        if self.plant.part.moved_at + STILL < self.cycle && self.messages.moved + STILL < self.cycle
        {
            let reason = "the flit engine stands still: packets wait for each other".to_string();
            return Err(EngineError::Policy { task: 0, reason });
        }
        if self.arrivals.flits.is_empty() {
            return Ok(now);
        }
        let end = self.plant.clock.time(self.cycle);
        let mut arrived = std::mem::take(&mut self.arrivals.flits);
        for (tag, flits) in arrived.drain(..) {
            let Some(message) = self.messages.arrive(tag, flits) else { continue };
            for link in &message.links {
                self.users[link.index()] -= 1;
            }
            let Message { track, bytes, start, .. } = message;
            if let Some(wake) = self.ledger.arrived(track, bytes, start, end, end) {
                self.queue.push(wake.at, Event::Due(wake.due));
            }
        }
        self.arrivals.flits = arrived;
        Ok(now)
    }

    fn handle(&mut self, event: Event, now: Time) -> Result<(), EngineError> {
        match event {
            Event::Due(due) => {
                self.ledger.due(due);
                self.keep_up(now)
            }
            Event::Ready(message) => {
                self.begin(message);
                Ok(())
            }
        }
    }

    fn begin(&mut self, message: u32) {
        self.messages.moved = self.cycle;
        let source = self.messages.begin(message);
        self.plant.part.wake(source);
    }

    /// Does what the ledger asks for at this instant.
    fn keep_up(&mut self, now: Time) -> Result<(), EngineError> {
        while let Some(step) = self.ledger.step(now)? {
            match step {
                Step::Wake(wake) => self.queue.push(wake.at, Event::Due(wake.due)),
                Step::Patch { task, patches } => self.reconfigure(task, &patches, now)?,
                // What would be sent over dark links waits at its source.
                Step::Ready(_) => {}
                Step::Send(sending) => self.launch(sending, now)?,
                Step::Incident(_) => return Err(EngineError::NoIncidents { engine: "flit" }),
            }
        }
        Ok(())
    }

    fn reconfigure(&mut self, task: u32, patches: &Patches, now: Time) -> Result<(), EngineError> {
        let mut links = Vec::with_capacity(patches.patches.len() * 2);
        for patch in &patches.patches {
            let touched = self.ledger.circuits.touched(patch);
            let used = |link: &LinkId| self.users[link.index()] > 0;
            let changes = self.ledger.circuits.leads_to(patch.tx) != patch.rx;
            if changes && touched.iter().flatten().any(used) {
                return Err(EngineError::CircuitInUse { tx: patch.tx, now });
            }
            links.extend(touched.into_iter().flatten());
            self.ledger.circuits.join(patch);
            self.plant.patch(patch);
        }
        let wake = self.ledger.darkened(Some(task), patches, links, now);
        self.queue.push(wake.at, Event::Due(wake.due));
        Ok(())
    }

    /// Starts the flows of a phase: each of a flow's lanes carries as much as another.
    fn launch(&mut self, sending: Sending, now: Time) -> Result<(), EngineError> {
        let (task, track) = (sending.task, sending.track);
        let mut ready = now;
        let mut started = 0;
        let orders = &sending.orders;
        for flow in orders.flows(sending.phase) {
            let lanes = orders.lanes(flow);
            let (n, all) = (lanes.len() as u64, flow.bytes.get());
            for (index, links) in lanes.enumerate() {
                let bytes = Bytes::new(all / n + u64::from((index as u64) < all % n));
                if bytes == Bytes::ZERO {
                    continue;
                }
                let from = self.ledger.circuits.ready_along(task, links, now)?;
                ready = ready.max(from);
                for link in links {
                    self.users[link.index()] += 1;
                    self.ledger.outcome.link_bytes[link.index()] += bytes;
                }
                let unable = |reason| EngineError::Policy { task, reason };
                let message = Message { track, bytes, start: now, links: links.to_vec() };
                let at = self.messages.add(message, &self.plant, self.engine).map_err(unable)?;
                match from > now {
                    true => self.queue.push(from, Event::Ready(at)),
                    false => self.begin(at),
                }
                started += 1;
            }
        }
        self.ledger.sent(sending, started, ready, now);
        Ok(())
    }
}

#[cfg(test)]
lightloom_engine::conformance!(
    FlitEngine { flit_size: Bytes::new(1_024), ..FlitEngine::default() },
    0.06
);
