//! What a component does if nothing disturbs it, computed as soon as it begins.
//!
//! Few components are disturbed: no flow comes to their links, and no link of theirs changes, before half
//! of their flows have gone. So all of that is computed at once, in memory that the next component is
//! computed in too, and of it only when flows end is kept, and what it began with. The run hears of it when a
//! track has no flow left in the component, for nothing that happens before can matter to anything
//! else. A component that is disturbed is computed again from its beginning, up to the disturbance: the same
//! steps give the same bits.
//! Checked: by the conformance suite, which runs with plans, and against components that are not planned.

use super::{Done, PAD, ROUNDING_BYTES, time_for};
use crate::pool::{Pool, Tag};
use lightloom_units::Time;

/// Of more flows a component is not planned: events are little beside its rates, and plans are memory.
pub(crate) const MOST: usize = 4096;

/// A component's future.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(super) born: Time,
    pub(super) began: Time,
    pub(super) stride: usize,
    /// As the component had them when it began: see there.
    pub(super) tag: Vec<Tag>,
    pub(super) names: Vec<u32>,
    pub(super) path: Vec<u32>,
    pub(super) marks: Vec<f64>,
    pub(super) capacity: Vec<f64>,
    /// Flows that end, and when.
    pub(super) ends: Vec<(u32, Time)>,
    pub(super) tellings: Vec<Instant>,
    /// How many of them are over.
    pub(super) told: usize,
    /// Ends that have been handed over, and instants at which they came.
    pub(super) handed: (usize, u32),
    /// Flows that are left then, and what is left of each.
    pub(super) left: Vec<(u32, f64)>,
    /// Whether it ends.
    pub(super) ends_at_all: bool,
}

/// When flows end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instant {
    pub(super) at: Time,
    /// How many there are up to here.
    pub(super) count: u32,
    /// When rates were computed last before.
    pub(super) since: Time,
    /// So many of the ends are up to here.
    pub(super) ends: u32,
}

impl Plan {
    /// Begins with the flows `chosen` of `pool`, of which the first started at `born`; `local` is scratch
    /// space, one entry a link of the fabric.
    pub fn gather(
        &mut self,
        pool: &Pool,
        chosen: &[u32],
        capacity: &[f64],
        local: &mut [u32],
        (born, now): (Time, Time),
    ) {
        self.clear();
        self.tag.clear();
        self.names.clear();
        self.path.clear();
        self.marks.clear();
        self.capacity.clear();
        let hops = chosen.iter().map(|&flow| pool.links_of(flow as usize).len());
        (self.born, self.began, self.stride) = (born, now, hops.fold(1, usize::max));
        for &flow in chosen {
            let flow = flow as usize;
            self.marks.push(pool.remaining[flow]);
            self.tag.push(pool.tag[flow]);
            let links = pool.links_of(flow);
            for &name in links {
                let mut at = local[name as usize];
                if at == PAD || self.names.get(at as usize - 1) != Some(&name) {
                    self.names.push(name);
                    self.capacity.push(capacity[name as usize]);
                    at = self.names.len() as u32;
                    local[name as usize] = at;
                }
                self.path.push(at);
            }
            self.path.extend((links.len()..self.stride).map(|_| PAD));
        }
    }

    /// Takes over another one that has just begun, if it is a twin of this one, which has begun at the same
    /// instant.
    pub fn absorb(&mut self, other: &Plan) -> bool {
        let same = self.born == other.born
            && self.path == other.path
            && self.marks == other.marks
            && self.capacity == other.capacity;
        if same {
            self.tag.extend(&other.tag);
            self.names.extend(&other.names);
        }
        same
    }

    /// Begins as another does.
    pub fn begin_as(&mut self, other: &Plan) {
        self.clear();
        (self.born, self.began, self.stride) = (other.born, other.began, other.stride);
        self.tag.clone_from(&other.tag);
        self.names.clone_from(&other.names);
        self.path.clone_from(&other.path);
        self.marks.clone_from(&other.marks);
        self.capacity.clone_from(&other.capacity);
    }

    /// Tracks are called so much more from now on.
    pub fn rename(&mut self, tracks: u32) {
        self.tag.iter_mut().for_each(|tag| tag.slot += tracks);
    }

    /// How many flows it begins with, of twins those of one.
    pub fn flows(&self) -> usize {
        self.marks.len()
    }

    pub fn links(&self) -> &[u32] {
        &self.names
    }

    /// Whether all of it has been told, and nothing or too little is left.
    pub fn is_over(&self) -> bool {
        self.ends_at_all && self.told == self.tellings.len()
    }

    /// When the run is to hear of it next, and when rates were computed before.
    pub fn next(&self) -> Option<(Time, Time)> {
        self.tellings.get(self.told).map(|next| (next.at, next.since))
    }

    /// Whether the run awaits something of it after `now`.
    pub(super) fn is_awaited(&self, now: Time) -> bool {
        let told = self.tellings[..self.told].last();
        self.next().is_some() && told.is_none_or(|last| last.at < now)
    }

    /// Hands over what is done when the run is to hear of it next; says at how many instants that was.
    pub fn tell(&mut self, done: &mut Vec<Done>) -> u64 {
        let Instant { ends, count, .. } = self.tellings[self.told];
        self.told += 1;
        self.hand_over(ends as usize, done);
        u64::from(count - std::mem::replace(&mut self.handed.1, count))
    }

    pub(super) fn hand_over(&mut self, to: usize, done: &mut Vec<Done>) {
        for &(flow, drained) in &self.ends[self.handed.0..to] {
            let twins = self.tag[flow as usize..].iter().step_by(self.marks.len());
            done.extend(twins.map(|&tag| Done { tag, flows: 1, drained }));
        }
        self.handed.0 = to;
    }

    /// Moves what is left of a plan that is over into `pool`.
    pub fn drain_into(&self, pool: &mut Pool) {
        let links = self.capacity.len();
        for &(flow, remaining) in &self.left {
            // Twins side by side, so that what is left of them is seen to be twins again.
            let path = &self.path[flow as usize * self.stride..][..self.stride];
            let tags = self.tag[flow as usize..].iter().step_by(self.marks.len());
            for (&tag, names) in tags.zip(self.names.chunks_exact(links)) {
                let hops = path.iter().filter(|&&link| link != PAD);
                pool.push(hops.map(|&link| names[link as usize - 1]), remaining, tag);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.ends.clear();
        self.tellings.clear();
        self.left.clear();
        (self.told, self.handed) = (0, (0, 0));
    }

    /// The plan of a flow that has its links to itself and is over at `at`.
    pub fn single(
        &mut self,
        tag: Tag,
        links: &[u32],
        capacity: &[f64],
        mark: f64,
        (born, now, at): (Time, Time, Time),
    ) {
        self.clear();
        (self.born, self.began, self.stride) = (born, now, links.len());
        self.tag.clear();
        self.tag.push(tag);
        self.names.clear();
        self.names.extend_from_slice(links);
        self.path.clear();
        self.path.extend(1..=links.len() as u32);
        self.marks.clear();
        self.marks.push(mark);
        self.capacity.clear();
        self.capacity.extend(links.iter().map(|&link| capacity[link as usize]));
        self.ends.push((0, at));
        self.tellings.push(Instant { at, count: 1, since: now, ends: 1 });
        self.ends_at_all = true;
    }

    /// Takes over a flow by itself, if it is a twin of that of this plan, which has just been made.
    pub fn absorb_single(
        &mut self,
        tag: Tag,
        links: &[u32],
        capacity: &[f64],
        mark: f64,
        born: Time,
    ) -> bool {
        let mut rates = self.capacity.iter().zip(links);
        let same = self.born == born
            && self.marks == [mark]
            && self.capacity.len() == links.len()
            && rates.all(|(&rate, &link)| rate == capacity[link as usize]);
        if same {
            self.tag.push(tag);
            self.names.extend_from_slice(links);
        }
        same
    }
}

/// How long a flow takes that has its links to itself; none if it takes more than one step, or for ever.
pub(crate) fn alone(links: &[u32], capacity: &[f64], mark: f64) -> Option<Time> {
    if (1..links.len()).any(|at| links[..at].contains(&links[at])) {
        return None; // it shares a link with itself
    }
    let level = links.iter().map(|&link| capacity[link as usize]).fold(f64::INFINITY, f64::min);
    let takes = time_for(mark, level);
    (level > 0.0 && mark <= level * takes.ps() as f64 + ROUNDING_BYTES).then_some(takes)
}
