//! What a run does about components: flows that end, and once an instant is over new components and
//! new rates where anything has changed.

use crate::component::{Component, Done};
use crate::partition::Partition;
use crate::run::{Event, NONE, Run, mark};
use lightloom_engine::EngineError;
use lightloom_units::{Bytes, Time};

impl Run<'_> {
    pub(crate) fn drain(&mut self, id: u32, now: Time) {
        let component = &mut self.components[id as usize];
        component.advance(now, &mut self.done);
        component.version += 1;
        if !component.stale && !component.dissolving {
            component.stale = true;
            self.stale.push(id);
        }
        self.deliver(now);
    }

    /// Tells transfers of flows that are done.
    pub(crate) fn deliver(&mut self, now: Time) {
        for Done { tag, drained } in self.done.drain(..) {
            let arrival = drained.saturating_add(tag.latency);
            let bytes = Bytes::new(tag.bytes);
            if let Some(wake) = self.ledger.arrived(tag.slot, bytes, tag.start, arrival, now) {
                self.queue.push(wake.at, Event::Due(wake.due));
            }
        }
    }

    /// Once everything that happens at `now` has happened: new components for new flows and for
    /// those whose links they share, new rates wherever flows have gone.
    ///
    /// # Errors
    /// If a path is not whole any more and the policy knows no other.
    pub(crate) fn settle(&mut self, now: Time) -> Result<(), EngineError> {
        for at in 0..self.stale.len() {
            let id = self.stale[at];
            let component = &mut self.components[id as usize];
            if !component.stale || component.dissolving {
                continue;
            }
            component.stale = false;
            if component.live() == 0 || component.is_sparse() {
                mark(&mut self.components, &mut self.dissolving, id);
            } else {
                component.solve(&mut self.scratch);
                self.ledger.outcome.solves += 1;
                self.schedule(id);
            }
        }
        self.stale.clear();
        self.dissolve(now);
        if self.broken {
            self.divert(now)?;
            self.dissolve(now);
        }
        self.deliver(now);
        if self.pool.len() == 0 {
            return Ok(());
        }
        let pool = std::mem::take(&mut self.pool);
        let mut partition = std::mem::replace(&mut self.partition, Partition::new(0));
        let mut last = NONE; // slices of one transfer come one after the other
        partition.split(&pool, |flows| {
            let id = self.free_components.pop().unwrap_or_else(|| {
                self.components.push(Component::default());
                self.components.len() as u32 - 1
            });
            // Out of its place, because another may take it over.
            let mut filled = std::mem::take(&mut self.components[id as usize]);
            filled.fill(&pool, flows, &self.capacity, &mut self.local, now);
            let twin = last != NONE && self.components[last as usize].absorb(&filled);
            let home = if twin { last } else { id };
            for &link in filled.links() {
                self.component_of[link as usize] = home;
            }
            self.components[id as usize] = filled;
            if twin {
                self.free_components.push(id);
                return;
            }
            last = id;
            self.components[id as usize].solve(&mut self.scratch);
            self.ledger.outcome.solves += 1;
            self.schedule(id);
        });
        self.partition = partition;
        self.pool = pool;
        self.pool.clear();
        Ok(())
    }

    /// Takes components apart whose flows or links change.
    fn dissolve(&mut self, now: Time) {
        for at in 0..self.dissolving.len() {
            let id = self.dissolving[at];
            let component = &mut self.components[id as usize];
            component.advance(now, &mut self.done);
            component.drain_into(&mut self.pool);
            component.version += 1;
            for &link in component.links() {
                self.component_of[link as usize] = NONE;
            }
            self.free_components.push(id);
        }
        self.dissolving.clear();
    }

    fn schedule(&mut self, id: u32) {
        let component = &mut self.components[id as usize];
        component.version += 1;
        let version = component.version;
        if let Some(at) = component.next_done(self.tolerance) {
            self.queue.push(at, Event::Drained { component: id, version });
        }
    }
}
