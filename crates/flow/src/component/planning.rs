//! Making plans ([`plan`](super::plan)), and taking them up where they are disturbed.

use super::dense::Dense;
use super::filling::Scratch;
use super::plan::{Instant, MOST, Plan};
use super::repeats::Repeats;
use super::{Component, Done, PAD, ROUNDING_BYTES, SMALL};
use crate::pool::Tag;
use lightloom_units::Time;

/// What it takes to make plans.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub tolerance: f64,
    pub scratch: Scratch,
    pub(super) repeats: Repeats,
    dense: Box<Dense>,
    /// Where plans are made that are not dense.
    component: Component,
    instants: Vec<Instant>,
    tracks: Tracks,
}

impl Desk {
    pub fn new(tolerance: f64) -> Self {
        Desk { tolerance, ..Desk::default() }
    }

    /// What it takes to compute rates.
    pub fn solving(&mut self) -> (f64, &mut Scratch) {
        (self.tolerance, &mut self.scratch)
    }

    /// Makes a plan that has begun; says how often rates are computed on the way, whoever does that.
    pub fn plan(&mut self, plan: &mut Plan) -> u64 {
        let Desk { tolerance, instants, .. } = self;
        let solves = match self.repeats.recall(plan, *tolerance, instants) {
            Some(solves) => solves,
            None => {
                let dense = if *tolerance == 0.0 { self.dense.plan(plan, instants) } else { None };
                let solves = dense.unwrap_or_else(|| {
                    self.component.take_up(plan);
                    self.component.plan(plan, *tolerance, &mut self.scratch, instants)
                });
                self.repeats.keep(plan, instants, solves);
                solves
            }
        };
        self.tell(plan);
        solves
    }

    /// Finds out what the run is to hear of: when the last flow of a track goes, and that the plan is over.
    fn tell(&mut self, plan: &mut Plan) {
        let Desk { instants, tracks, .. } = self;
        let flows = plan.marks.len();
        tracks.clear();
        for &(flow, _) in &plan.left {
            for tag in plan.tag[flow as usize..].iter().step_by(flows) {
                tracks.add(tag.slot);
            }
        }
        // Backwards, to find the last flow of each track.
        let mut matters = plan.ends_at_all;
        for at in (0..instants.len()).rev() {
            let from = at.checked_sub(1).map_or(0, |before| instants[before].ends as usize);
            for &(flow, _) in &plan.ends[from..instants[at].ends as usize] {
                for tag in plan.tag[flow as usize..].iter().step_by(flows) {
                    matters |= tracks.add(tag.slot);
                }
            }
            if std::mem::take(&mut matters) {
                plan.tellings.push(instants[at]);
            }
        }
        plan.tellings.reverse();
    }
}

/// A set of tracks.
#[derive(Debug, Default)]
struct Tracks {
    /// By track: the last set it was in.
    of: Vec<u32>,
    current: u32,
}

impl Tracks {
    fn clear(&mut self) {
        self.current = self.current.wrapping_add(1);
        if self.current == 0 {
            (self.current, self.of) = (1, Vec::new());
        }
    }

    /// Whether a track was not in it before.
    fn add(&mut self, track: u32) -> bool {
        let at = track as usize;
        if at >= self.of.len() {
            self.of.resize(at + 1, 0);
        }
        std::mem::replace(&mut self.of[at], self.current) != self.current
    }
}

impl Plan {
    /// Whether it pays to make it: not if flows that began before have just been disturbed, for they will be
    /// again.
    pub fn pays(&self, disturbed: bool) -> bool {
        (self.born == self.began || !disturbed) && self.flows() <= MOST
    }

    /// A time before which it will have nothing to tell: no flow is faster than its narrowest link.
    pub fn quiet_until(&self, earliest: &mut Vec<f64>) -> Time {
        earliest.clear();
        earliest.extend(self.marks.iter().zip(self.path.chunks_exact(self.stride)).map(
            |(mark, path)| {
                let links = path.iter().filter(|&&link| link != PAD);
                let rates = links.map(|&link| self.capacity[link as usize - 1]);
                // Less than any rounding on the way.
                (mark * (1.0 - 1e-9) - 2.0 * ROUNDING_BYTES) / rates.fold(f64::INFINITY, f64::min)
            },
        ));
        // Before all flows of a track have gone it has nothing to tell, or before it is to be packed.
        let flows = self.flows();
        let one_track = |tags: &[Tag]| tags.iter().all(|tag| tag.slot == tags[0].slot);
        let gone = match self.tag.chunks_exact(flows).all(one_track) {
            true if flows > 8 && self.capacity.len() > SMALL => flows / 2 + 1,
            true => flows,
            false => 1,
        };
        let (_, &mut first, _) = earliest.select_nth_unstable_by(gone - 1, f64::total_cmp);
        match first < u64::MAX as f64 {
            true => self.began.saturating_add(Time::from_ps(first as u64)), // none below zero
            false => Time::MAX,
        }
    }
}

impl Component {
    /// Plans what it does from the beginning on until nothing is left, or so little that it should be
    /// packed: what ends when, what is left, and `instants`; says how often rates were computed.
    pub(super) fn plan(
        &mut self,
        plan: &mut Plan,
        tolerance: f64,
        scratch: &mut Scratch,
        instants: &mut Vec<Instant>,
    ) -> u64 {
        let mut solves = 1;
        let mut since = self.updated;
        self.solve(scratch);
        instants.clear();
        plan.ends_at_all = false;
        while let Some(at) = self.next_done(tolerance) {
            self.step(at, &mut plan.ends);
            let (count, ends) = (instants.len() as u32 + 1, plan.ends.len() as u32);
            instants.push(Instant { at, count, since, ends });
            if self.live == 0 || self.is_sparse() {
                plan.ends_at_all = true;
                break;
            }
            self.solve(scratch);
            since = at;
            solves += 1;
        }
        for (at, flow) in self.flows.iter().enumerate().filter(|(_, f)| f.mark < f64::INFINITY) {
            plan.left.push((at as u32, flow.mark - self.links[flow.server as usize].sent));
        }
        solves
    }

    /// Becomes what a plan comes to by `now`, and hands over what is done and has not been told; says with
    /// how many events it would have come to that without a plan, and how often rates were computed.
    pub fn follow(
        &mut self,
        plan: &mut Plan,
        now: Time,
        (tolerance, scratch): (f64, &mut Scratch),
        done: &mut Vec<Done>,
    ) -> (u64, u64) {
        self.take_up(plan);
        self.solve(scratch);
        let (mut solves, mut count, mut came) = (1, 0, false);
        plan.ends.clear();
        while !came && let Some(at) = self.next_done(tolerance).filter(|&at| at <= now) {
            self.step(at, &mut plan.ends);
            count += 1;
            came = at == now;
            if !came {
                self.solve(scratch);
                solves += 1;
            }
        }
        // What comes later has been awaited in vain, unless something came now.
        let vain = !came && self.next_done(tolerance).is_some();
        self.step(now, &mut plan.ends);
        plan.hand_over(plan.ends.len(), done);
        let events = u64::from(count - plan.handed.1) + u64::from(vain);
        (events - u64::from(plan.is_awaited(now)), solves)
    }
}
