//! What a run does about components: flows that end, and once an instant is over new components and
//! new rates where anything has changed.

use crate::component::Done;
use crate::component::plan::alone;
use crate::crew::Job;
use crate::partition::Partition;
use crate::pool::{Pool, Tag};
use crate::refinement::Members;
use crate::run::{Event, Known, NONE, Pending, Run, mark};
use lightloom_engine::EngineError;
use lightloom_units::Time;
use std::sync::Arc;

/// Flows of a component that are worth another thread.
const WORTH_THREADS: usize = if cfg!(test) { 1 } else { 4 };
/// Components under way that are: with fewer, the run has nothing else to do until it needs the plan.
const MANY: usize = if cfg!(test) { 0 } else { 128 };

impl Run<'_> {
    pub(crate) fn drain(&mut self, id: u32, now: Time) {
        let slot = &mut self.slots[id as usize];
        match &mut slot.steps {
            Some(component) => component.advance(now, &mut self.done),
            None => self.ledger.outcome.events += slot.plan.tell(&mut self.done) - 1,
        }
        slot.version += 1;
        if !slot.stale && !slot.dissolving {
            slot.stale = true;
            self.stale.push(id);
        }
        self.deliver(now);
    }

    /// Tells transfers of flows that are done.
    pub(crate) fn deliver(&mut self, now: Time) {
        let mut done = std::mem::take(&mut self.done);
        for Done { tag: Tag { slot, lane }, flows, drained } in done.drain(..) {
            let orders = self.ledger.orders(slot);
            let bytes = orders.share(lane);
            let arrival = drained.saturating_add(self.links.delay(orders.lane_links(lane)));
            let times = (self.ledger.began(slot), arrival);
            if let Some(wake) = self.ledger.arrived_alike(slot, flows, bytes, times, now) {
                self.await_due(wake, now);
            }
        }
        self.done = done;
    }

    /// Once everything that happens at `now` has happened: new components for new flows and for
    /// those whose links they share, new rates wherever flows have gone.
    ///
    /// # Errors
    /// If a path is not whole any more and the policy knows no other.
    pub(crate) fn settle(&mut self, now: Time) -> Result<(), EngineError> {
        self.settling = true;
        let settled = self.settle_all(now);
        self.settling = false;
        settled
    }

    fn settle_all(&mut self, now: Time) -> Result<(), EngineError> {
        self.disturbed = false;
        if std::mem::take(&mut self.formed) {
            for &link in &self.pool.links {
                let id = self.component_of[link as usize];
                mark(&mut self.slots, &mut self.dissolving, id);
            }
        }
        for at in 0..self.stale.len() {
            let id = self.stale[at];
            let slot = &mut self.slots[id as usize];
            if !slot.stale || slot.dissolving {
                continue;
            }
            slot.stale = false;
            let over = match &mut slot.steps {
                Some(component) => component.live() == 0 || component.is_sparse(),
                None => slot.plan.is_over(),
            };
            if over {
                mark(&mut self.slots, &mut self.dissolving, id);
                continue;
            }
            if let Some(component) = &mut slot.steps {
                component.solve(&mut self.desk.scratch);
                self.ledger.outcome.solves += 1;
            }
            self.schedule(id, now);
        }
        self.stale.clear();
        self.dissolve(now);
        if self.broken {
            self.divert(now)?;
            if self.ledger.renews() {
                self.ledger.renew(now)?;
                self.keep_up(now)?;
                return self.settle_all(now);
            }
            self.dissolve(now);
        }
        self.deliver(now);
        if self.pool.len() == 0 {
            return Ok(());
        }
        let mut pool = std::mem::take(&mut self.pool);
        let mut partition = std::mem::replace(&mut self.partition, Partition::new(0));
        partition.split(&pool, |flows| self.gather(&pool, flows, now));
        self.begin(now);
        self.single = NONE;
        self.crew.give(&mut self.jobs);
        self.partition = partition;
        pool.clear();
        self.pool = pool;
        Ok(())
    }

    /// Flows of the pool are a component, or a twin of the last one.
    fn gather(&mut self, pool: &Pool, flows: &[u32], now: Time) {
        let starts = flows.iter().map(|&flow| self.ledger.began(pool.tag[flow as usize].slot));
        let born = starts.fold(now, Time::min);
        if let &[flow] = flows
            && self.gather_single(pool, flow as usize, (born, now))
        {
            return;
        }
        self.single = NONE;
        let filled = &mut self.filled;
        filled.gather(pool, flows, &self.links.capacity, &mut self.local, (born, now));
        let (last, home) = &mut self.waiting;
        if *home == NONE || !last.absorb(filled) {
            self.begin(now);
            let id = self.vacant();
            std::mem::swap(&mut self.waiting.0, &mut self.filled);
            self.waiting.1 = id;
        }
        let home = self.waiting.1;
        for &flow in flows {
            for &link in pool.links_of(flow as usize) {
                self.component_of[link as usize] = home;
            }
        }
    }

    /// A flow by itself needs no filling, where it is over in one step.
    fn gather_single(&mut self, pool: &Pool, flow: usize, (born, now): (Time, Time)) -> bool {
        let (tag, links, mark) = (pool.tag[flow], pool.links_of(flow), pool.remaining[flow]);
        let capacity = &self.links.capacity;
        let Some(takes) = alone(links, capacity, mark) else { return false };
        self.begin(now);
        let capacity = &self.links.capacity;
        let mut home = self.single;
        if home == NONE
            || !self.slots[home as usize].plan.absorb_single(tag, links, capacity, mark, born)
        {
            home = self.vacant();
            let plan = &mut self.slots[home as usize].plan;
            let times = (born, now, now.saturating_add(takes));
            plan.single(tag, links, &self.links.capacity, mark, times);
            self.single = home;
            self.ledger.outcome.solves += 1;
            self.schedule(home, now);
        }
        links.iter().for_each(|&link| self.component_of[link as usize] = home);
        true
    }

    /// The component that waits for twins gets its rates, for as long as they may last.
    fn begin(&mut self, now: Time) {
        let id = std::mem::replace(&mut self.waiting.1, NONE);
        if id == NONE {
            return;
        }
        let many = self.slots.len() - self.free_slots.len() > MANY;
        let plan = &self.waiting.0;
        let slot = &mut self.slots[id as usize];
        if plan.pays(self.disturbed) {
            slot.plan.begin_as(plan);
            // A part that goes by itself has nothing else to do meanwhile.
            if many
                && self.fence.is_empty()
                && !self.crew.is_empty()
                && plan.flows() >= WORTH_THREADS
            {
                return self.hand_out(id, now);
            }
            self.ledger.outcome.solves += self.desk.plan(&mut slot.plan);
        } else {
            let mut component = self.spare.pop().unwrap_or_default();
            component.take_up(plan);
            component.solve(&mut self.desk.scratch);
            self.ledger.outcome.solves += 1;
            slot.steps = Some(Box::new(component));
        }
        self.schedule(id, now);
    }

    /// Another thread may plan the component that has waited.
    fn hand_out(&mut self, id: u32, now: Time) {
        let mut draft = self.drafts.pop().unwrap_or_default();
        let quiet_until = self.waiting.0.quiet_until(&mut self.earliest);
        std::mem::swap(&mut draft.plan, &mut self.slots[id as usize].plan);
        let job = Arc::new(Job::new(draft));
        self.jobs.push(Arc::clone(&job));
        let ticket = self.queue.ticket();
        let slot = &mut self.slots[id as usize];
        slot.version += 1;
        slot.pending = Some(Pending { job, ticket, quiet_until });
        if quiet_until < Time::MAX {
            let event = Event::Planned { component: id, version: slot.version };
            self.queue.push_as(ticket, quiet_until, Known::since(now, true), event);
        }
    }

    /// The plan of a component is needed, if it is still to come: it is from now on as if it had been there
    /// from the beginning.
    pub(crate) fn receive(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        let Some(Pending { job, ticket, quiet_until }) = slot.pending.take() else { return };
        let mut draft = job.finish(&mut self.desk);
        std::mem::swap(&mut slot.plan, &mut draft.plan);
        self.ledger.outcome.solves += draft.solves;
        self.drafts.push(draft);
        if let Some((at, since)) = slot.plan.next() {
            assert!(at >= quiet_until, "a component has nothing to tell before");
            let event = Event::Drained { component: id, version: slot.version };
            self.queue.push_as(ticket, at, Known::since(since, true), event);
        }
    }

    /// Takes components apart whose flows or links change.
    fn dissolve(&mut self, now: Time) {
        for at in 0..self.dissolving.len() {
            let id = self.dissolving[at];
            self.receive(id);
            let slot = &mut self.slots[id as usize];
            slot.version += 1;
            (slot.stale, slot.dissolving) = (false, false);
            for &link in slot.links() {
                self.component_of[link as usize] = NONE;
            }
            if let Some(mut component) = slot.steps.take() {
                self.disturbed |= component.live() > 0 && !component.is_sparse();
                component.advance(now, &mut self.done);
                match component.give_up_classes() {
                    Some((members, left)) => self.release(&members, &left),
                    None => component.drain_into(&mut self.pool),
                }
                self.spare.push(*component);
            } else if slot.plan.is_over() {
                slot.plan.drain_into(&mut self.pool);
            } else {
                self.disturbed = true;
                let mut component = self.spare.pop().unwrap_or_default();
                let (plan, solving) = (&mut slot.plan, self.desk.solving());
                let (events, solves) = component.follow(plan, now, solving, &mut self.done);
                self.ledger.outcome.events += events;
                self.ledger.outcome.solves += solves;
                component.drain_into(&mut self.pool);
                self.spare.push(component);
            }
            self.free_slots.push(id);
        }
        self.dissolving.clear();
    }

    /// Moves the members of classes into the pool, with what is left of each.
    fn release(&mut self, members: &Members, left: &[Option<f64>]) {
        let orders = self.ledger.orders(members.track);
        for (lane, path, class) in self.colours.members(members, orders, &self.links) {
            if let Some(left) = left[class] {
                let tag = Tag { slot: members.track, lane };
                self.pool.push(self.links.binding(path), left, tag);
            }
        }
    }

    fn schedule(&mut self, id: u32, now: Time) {
        let slot = &mut self.slots[id as usize];
        slot.version += 1;
        let event = Event::Drained { component: id, version: slot.version };
        let next = match &slot.steps {
            Some(component) => component.next_done(self.desk.tolerance).map(|at| (at, now)),
            None => slot.plan.next(),
        };
        if let Some((at, since)) = next {
            let ticket = self.queue.ticket();
            self.queue.push_as(ticket, at, Known::since(since, true), event);
        }
    }
}
