//! What a run does about circuits and links: ports that change go dark at once and carry light again
//! later, links break and heal, and flows whose path is gone go on over another.

use crate::pool::Pool;
use crate::run::{NONE, Run, mark};
use lightloom_engine::{EngineError, LinkChanges, Patches};
use lightloom_fabric::LinkId;
use lightloom_units::{Bytes, Time};

impl Run<'_> {
    pub(crate) fn reconfigure(&mut self, task: Option<u32>, patches: &Patches, now: Time) {
        let mut links = Vec::with_capacity(patches.patches.len() * 2);
        for patch in &patches.patches {
            for link in self.ledger.circuits.touched(patch).into_iter().flatten() {
                self.unsettle(link);
                links.push(link);
            }
            self.ledger.circuits.join(patch);
        }
        for link in &links {
            self.links.capacity[link.0 as usize] = 0.0;
        }
        let wake = self.ledger.darkened(task, patches, links, now);
        self.await_due(wake, now);
    }

    pub(crate) fn incident(&mut self, changes: &LinkChanges, now: Time) {
        for &link in &changes.down {
            self.unsettle(link);
            self.links.capacity[link.0 as usize] = 0.0;
            self.broken = true;
        }
        self.broken |= self.ledger.renews();
        if !changes.patches.patches.is_empty() {
            self.reconfigure(None, &changes.patches, now);
        }
        self.set_ready(&changes.up);
        for &(link, rate) in &changes.rates {
            self.unsettle(link);
            self.links.capacity[link.index()] = rate.bytes_per_ps();
        }
    }

    pub(crate) fn set_ready(&mut self, links: &[LinkId]) {
        for &link in links {
            let at = link.0 as usize;
            if self.links.capacity[at] > 0.0 {
                continue; // named twice
            }
            self.links.capacity[at] = self.ledger.scenario.fabric.link(link).rate.bytes_per_ps();
            mark(&mut self.slots, &mut self.dissolving, self.component_of[at]);
        }
    }

    /// A link changes: what is on it is taken apart, and may have to go elsewhere.
    fn unsettle(&mut self, link: LinkId) {
        let id = self.component_of[link.0 as usize];
        mark(&mut self.slots, &mut self.dissolving, id);
        self.broken |= id != NONE;
    }

    /// Moves flows of the pool whose paths are not whole to where the policy says, or cuts them.
    pub(crate) fn divert(&mut self, now: Time) -> Result<(), EngineError> {
        self.broken = false;
        let pool = std::mem::take(&mut self.pool);
        let mut path = Vec::new();
        for (flow, &tag) in pool.tag.iter().enumerate() {
            let remaining = pool.remaining[flow];
            let lane = self.ledger.lane(tag.slot, tag.lane);
            if self.ledger.circuits.is_whole(lane) {
                keep(&pool, flow, &mut self.pool);
                continue;
            }
            let left = self.ledger.orders(tag.slot).share(tag.lane);
            let left = left.min(Bytes::new(remaining.round() as u64));
            path.clear();
            path.extend_from_slice(lane);
            for link in &path {
                let carried = &mut self.ledger.outcome.link_bytes[link.0 as usize];
                *carried = Bytes::new(carried.get().saturating_sub(left.get()));
            }
            if self.ledger.renews() {
                let wake = self.ledger.cut(tag.slot, tag.lane, left, now);
                wake.into_iter().for_each(|wake| self.await_due(wake, now));
                continue;
            }
            self.ledger.divert(tag.slot, tag.lane, now)?;
            path.clear();
            path.extend_from_slice(self.ledger.lane(tag.slot, tag.lane));
            for link in &path {
                self.ledger.outcome.link_bytes[link.0 as usize] += left;
            }
            self.enter(&path, remaining, tag);
        }
        Ok(())
    }
}

fn keep(pool: &Pool, flow: usize, kept: &mut Pool) {
    kept.push(pool.links_of(flow).iter().copied(), pool.remaining[flow], pool.tag[flow]);
}
