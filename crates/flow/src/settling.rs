//! What a run does about components: flows that end, and once an instant is over new components and
//! new rates where anything has changed.

use crate::component::Done;
use crate::partition::Partition;
use crate::pool::Tag;
use crate::refinement::Members;
use crate::run::{Event, NONE, Run, mark};
use lightloom_engine::EngineError;
use lightloom_units::Time;

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
        for Done { tag: Tag { slot, lane }, flows, drained } in self.done.drain(..) {
            let orders = self.ledger.orders(slot);
            let bytes = orders.share(lane);
            let arrival = drained.saturating_add(self.links.delay(orders.lane_links(lane)));
            let times = (self.ledger.began(slot), arrival);
            if let Some(wake) = self.ledger.arrived_alike(slot, flows, bytes, times, now) {
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
        if std::mem::take(&mut self.formed) {
            for &link in &self.pool.links {
                let id = self.component_of[link as usize];
                mark(&mut self.components, &mut self.dissolving, id);
            }
        }
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
            if self.ledger.renews() {
                self.ledger.renew(now)?;
                self.keep_up(now)?;
                return self.settle(now);
            }
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
            let id = self.vacant();
            // Out of its place, because another may take it over.
            let mut filled = std::mem::take(&mut self.components[id as usize]);
            let starts = flows.iter().map(|&flow| self.ledger.began(pool.tag[flow as usize].slot));
            let born = starts.fold(now, Time::min);
            filled.fill(&pool, flows, &self.links.capacity, &mut self.local, (born, now));
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
            component.version += 1;
            for &link in component.links() {
                self.component_of[link as usize] = NONE;
            }
            match component.give_up_classes() {
                Some((members, left)) => self.release(&members, &left),
                None => component.drain_into(&mut self.pool),
            }
            self.free_components.push(id);
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

    fn schedule(&mut self, id: u32) {
        let component = &mut self.components[id as usize];
        component.version += 1;
        let version = component.version;
        if let Some(at) = component.next_done(self.tolerance) {
            self.queue.push(at, Event::Drained { component: id, version });
        }
    }
}
