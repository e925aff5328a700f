//! What a component does if nothing disturbs it, computed as soon as it begins.
//!
//! Most components are never disturbed: no flow comes to their links, and no link of theirs changes,
//! before half of their flows have gone. So all of that is computed at once, with the component in cache,
//! and the run hears of it only when a track has no flow left in the component, for nothing that
//! happens before can matter to anything else. A component that is disturbed goes back to its beginning, and
//! on to the instant of the disturbance: the same steps give the same bits.
//! Checked: by the conformance suite, which runs with plans, and against runs without them.

use super::filling::Scratch;
use super::{Component, Done, Flow, PAD};
use crate::ends::{Instant, Plan};
use lightloom_units::Time;

/// Of more flows a component is not planned: events are little beside its rates, and plans are memory.
const MOST: usize = 4096;

impl Component {
    /// Whether a plan pays for a component that begins now: not if it has just been `disturbed`, for it will
    /// be again.
    pub fn may_be_planned(&self, now: Time, disturbed: bool) -> bool {
        (self.born == now || !disturbed) && self.flows.len() <= MOST
    }

    /// Whether there is nothing left of it, or too little.
    pub fn is_over(&self) -> bool {
        !self.is_planned() && (self.live == 0 || self.is_sparse())
    }

    /// Whether it has a plan that is not over.
    pub fn is_planned(&self) -> bool {
        self.plan.told < self.plan.instants.len()
    }

    /// Rates from now until there is nothing left, or so little that it should be packed.
    pub fn plan(&mut self, tolerance: f64, scratch: &mut Scratch) {
        let mut plan = std::mem::take(&mut self.plan);
        plan.clear();
        plan.began = self.updated;
        plan.begin.extend(self.flows.iter().map(|flow| flow.mark));
        self.solve(scratch);
        while let Some(at) = self.next_done(tolerance) {
            self.step(at, &mut plan.ends);
            let ends = plan.ends.len() as u32;
            plan.instants.push(Instant { at, ends, matters: false });
            if self.live == 0 || self.is_sparse() {
                break;
            }
            self.solve(scratch);
        }
        let mut to = plan.ends.len();
        scratch.begin_tracks();
        for at in (0..plan.instants.len()).rev() {
            let from = at.checked_sub(1).map_or(0, |before| plan.instants[before].ends as usize);
            for &(flow, _) in &plan.ends[from..to] {
                let twins = self.tag[flow as usize..].iter().step_by(self.flows.len());
                for tag in twins {
                    plan.instants[at].matters |= scratch.is_first(tag.slot);
                }
            }
            to = from;
        }
        self.plan = plan;
    }

    /// When next something happens that matters, and the instant before.
    pub fn next_planned(&self) -> Option<(Time, Time)> {
        let Plan { instants, told, began, .. } = &self.plan;
        let next = (*told..).zip(&instants[*told..]).find(|(_, instant)| instant.matters);
        let before = |at: usize| at.checked_sub(1).map_or(*began, |before| instants[before].at);
        next.map(|(at, instant)| (instant.at, before(at)))
    }

    /// Hands over what is done by `now`; says how many instants that were, and how many were before.
    pub fn tell_planned(&mut self, now: Time, done: &mut Vec<Done>) -> (u64, u64) {
        let Plan { instants, told, .. } = &self.plan;
        let ahead = &instants[*told..];
        let count = ahead.iter().take_while(|instant| instant.at <= now).count();
        let before = ahead.iter().take_while(|instant| instant.at < now).count();
        let ends_at = |told: usize| told.checked_sub(1).map_or(0, |at| instants[at].ends as usize);
        let range = ends_at(*told)..ends_at(*told + count);
        for &(flow, drained) in &self.plan.ends[range] {
            self.tell(flow as usize, drained, done);
        }
        self.plan.told += count;
        (count as u64, before as u64)
    }

    /// Goes back from its plan to what it is by now, as if there had been none.
    pub fn disturb(&mut self, now: Time, scratch: &mut Scratch) {
        let plan = std::mem::take(&mut self.plan);
        self.serving.clear();
        self.right_below = 0.0;
        self.updated = plan.began;
        self.flows.clear();
        self.flows.extend(plan.begin.iter().map(|&mark| Flow { mark, server: PAD }));
        for link in &mut self.links {
            (link.level, link.sent, link.due) = (f64::INFINITY, 0.0, f64::INFINITY);
            link.to = 0;
        }
        self.load.fill(0.0);
        for &at in self.path.iter().filter(|&&at| at != PAD) {
            self.links[at as usize].to += 1;
        }
        self.index_members();
        self.solve(scratch);
        let mut ends = Vec::new();
        for instant in plan.instants.iter().take_while(|instant| instant.at <= now) {
            self.step(instant.at, &mut ends);
            if instant.at < now {
                self.solve(scratch);
            }
        }
        self.plan = plan;
        self.plan.clear();
    }
}
