//! A component: flows that share links, directly or through one another.
//!
//! Modelled: rates are piecewise constant in time and given by levels of links ([`filling`]). Every
//! flow is *served* by the link that holds it back, at that link's level. Each link counts what it
//! has sent to a flow that it has served all along; a flow ends when that count reaches its mark. So
//! time passes for links, not for flows, and a flow costs something only when it comes, when another
//! link begins to serve it, and when it goes. Flows that are gone keep their place in the arrays
//! until enough of them are gone that it pays to pack the rest.
//! The slices of one all-to-all often do the same on links of their own. Such twins share everything
//! but their tags and the names of their links.
//! A component may be one of classes ([`quotient`]): each of its flows then stands for many that are
//! alike, each of its links for many, and so many flows of a class cross each link of a kind.
//! Checked: by the engine's conformance suite and, for rates, in [`filling`].

pub(crate) mod filling;
mod quotient;

use crate::pool::{Pool, Tag};
use crate::refinement::Members;
use lightloom_units::{BitRate, Bytes, Time};

/// A flow that has left a component, or so many that were alike.
pub(crate) struct Done {
    pub tag: Tag,
    pub flows: u32,
    pub drained: Time,
}

/// Below this, a flow's remainder is rounding: far less than a picosecond of any link.
const ROUNDING_BYTES: f64 = 1e-3;
/// A link of infinite capacity: what paths shorter than the longest are padded with.
const PAD: u32 = 0;

/// A flow of a component.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// It is done when the link that serves it has sent so many bytes; infinite once it is gone.
    mark: f64,
    /// The link that serves it; `PAD` before the first rates.
    server: u32,
}

/// A link of a component.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The rate of the flows it serves \[B/ps\]; infinite where it holds no flow back.
    level: f64,
    /// Bytes sent to each flow that it has served all along.
    sent: f64,
    /// The lowest mark of the flows that it serves, or that it served when rates were computed; infinite
    /// if none.
    due: f64,
    /// Its members stand at `from..to`, those it serves at `from..served`.
    from: u32,
    served: u32,
    to: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Component {
    flows: Vec<Flow>,
    /// Of each flow, twin by twin.
    tag: Vec<Tag>,
    /// Of a component of classes, which has no tags: the lanes of each, and where to find its members.
    lanes: Vec<Vec<(u32, u32)>>,
    members_of: Option<Members>,
    /// Links of the longest path.
    stride: usize,
    /// The links of each flow, `stride` a flow.
    path: Vec<u32>,
    /// Of a component of classes: how many flows of the class cross each link of its path.
    crossing: Vec<u32>,
    /// The fabric's number of each link but the first, which is the pad; twin by twin.
    names: Vec<u32>,
    links: Vec<Link>,
    /// Of each link \[B/ps\].
    capacity: Vec<f64>,
    /// How many flows the members of each link are: one each, but for classes.
    load: Vec<f64>,
    /// The links that serve flows, by level.
    serving: Vec<u32>,
    /// Link by link, a record for each flow on it: the flow, then its other links; for a class then as
    /// many fields again, how many of it cross this link, then the others.
    members: Vec<u32>,
    /// Fields of such a record.
    width: usize,
    live: usize,
    /// Levels below this are still right.
    right_below: f64,
    updated: Time,
    born: Time,
    pub version: u32,
    pub stale: bool,
    pub dissolving: bool,
}

impl Component {
    /// Takes over the flows `chosen` of `pool`, of which the first started at `born`; `local` is
    /// scratch space, one entry a link of the fabric.
    pub fn fill(
        &mut self,
        pool: &Pool,
        chosen: &[u32],
        capacity: &[f64],
        local: &mut [u32],
        (born, now): (Time, Time),
    ) {
        self.clear();
        (self.updated, self.born) = (now, born);
        let hops = chosen.iter().map(|&flow| pool.links_of(flow as usize).len());
        self.stride = hops.fold(1, usize::max);
        self.push_link(f64::INFINITY);
        for &flow in chosen {
            let flow = flow as usize;
            self.flows.push(Flow { mark: pool.remaining[flow], server: PAD });
            self.tag.push(pool.tag[flow]);
            for &name in pool.links_of(flow) {
                let mut at = local[name as usize];
                if at == PAD || self.names.get(at as usize - 1) != Some(&name) {
                    self.names.push(name);
                    at = self.push_link(capacity[name as usize]);
                    local[name as usize] = at;
                }
                self.links[at as usize].to += 1;
                self.path.push(at);
            }
            for _ in pool.links_of(flow).len()..self.stride {
                self.path.push(PAD);
            }
        }
        self.width = self.stride;
        self.index_members();
    }

    /// Takes over another component that has just been filled, if it is a twin of this one, which
    /// has been filled at the same instant.
    pub fn absorb(&mut self, other: &Component) -> bool {
        let same = self.born == other.born
            && self.path == other.path
            && self.flows.iter().zip(&other.flows).all(|(a, b)| a.mark == b.mark)
            && self.flows.len() == other.flows.len()
            && self.capacity == other.capacity;
        if same {
            self.tag.extend(&other.tag);
            self.names.extend(&other.names);
        }
        same
    }

    fn clear(&mut self) {
        self.flows.clear();
        self.tag.clear();
        self.lanes.clear();
        self.members_of = None;
        self.path.clear();
        self.crossing.clear();
        self.names.clear();
        self.links.clear();
        self.capacity.clear();
        self.load.clear();
        self.serving.clear();
        self.right_below = 0.0;
        (self.stale, self.dissolving) = (false, false);
    }

    fn push_link(&mut self, capacity: f64) -> u32 {
        let (level, due) = (f64::INFINITY, f64::INFINITY);
        self.links.push(Link { level, sent: 0.0, due, from: 0, served: 0, to: 0 });
        self.capacity.push(capacity);
        self.links.len() as u32 - 1
    }

    /// Counting sort of the flows by link. Links come with their number of members in `to`.
    fn index_members(&mut self) {
        let mut next = 0;
        for link in &mut self.links {
            let members = link.to;
            (link.from, link.served, link.to) = (next, next, next);
            next += members;
        }
        self.live = self.flows.len();
        self.load.resize(self.links.len(), 0.0);
        self.load[PAD as usize] = f64::MAX; // each path may cross it, and it never fills up
        self.members.resize(next as usize * self.width, 0);
        match (self.stride, self.width) {
            (1, 1) => self.write_members(1, 1),
            (2, 2) => self.write_members(2, 2),
            (stride, width) => self.write_members(stride, width),
        }
    }

    #[inline(always)]
    fn write_members(&mut self, stride: usize, width: usize) {
        for (flow, path) in self.path.chunks_exact(stride).enumerate() {
            for (hop, &at) in path.iter().enumerate() {
                if at == PAD {
                    continue;
                }
                let link = &mut self.links[at as usize];
                let record = &mut self.members[link.to as usize * width..][..width];
                link.to += 1;
                let (others, crossing) = record.split_at_mut(stride);
                first(hop, path, others);
                others[0] = flow as u32;
                if !crossing.is_empty() {
                    first(hop, &self.crossing[flow * stride..][..stride], crossing);
                }
                self.load[at as usize] += f64::from(weight(record, stride, 0));
            }
        }
    }

    /// The links it uses, by the fabric's numbers.
    pub fn links(&self) -> &[u32] {
        &self.names
    }
    pub fn live(&self) -> usize {
        self.live
    }
    /// Whether so many flows are gone that the rest should be packed (and split, if they fall
    /// apart). Classes stay together: there are few.
    pub fn is_sparse(&self) -> bool {
        self.live * 2 < self.flows.len() && self.flows.len() > 8 && self.members_of.is_none()
    }

    /// Brings the links up to `now` and hands over the flows that are done.
    pub fn advance(&mut self, now: Time, done: &mut Vec<Done>) {
        let elapsed = now.saturating_sub(self.updated).ps() as f64;
        for turn in 0..self.serving.len() {
            let at = self.serving[turn] as usize;
            let link = &mut self.links[at];
            let Link { level, sent, from, served, .. } = *link;
            let after = sent + level * elapsed;
            link.sent = after;
            if link.due > after + ROUNDING_BYTES {
                continue;
            }
            // Backwards, because a member that goes leaves its place to one behind it.
            for place in (from..served).rev() {
                let flow = self.members[place as usize * self.width] as usize;
                let mark = self.flows[flow].mark;
                if mark <= after + ROUNDING_BYTES {
                    let drained =
                        self.updated.saturating_add(time_for(mark - sent, level)).min(now);
                    self.tell(flow, drained, done);
                    self.remove(flow);
                    self.right_below = self.right_below.min(level);
                }
            }
        }
        self.updated = now;
    }

    /// Hands over a flow that is done, with its twins, or all members of a class.
    fn tell(&self, flow: usize, drained: Time, done: &mut Vec<Done>) {
        match &self.members_of {
            None if self.tag.len() == self.flows.len() => {
                done.push(Done { tag: self.tag[flow], flows: 1, drained });
            }
            None => {
                let twins = self.tag[flow..].iter().step_by(self.flows.len());
                done.extend(twins.map(|&tag| Done { tag, flows: 1, drained }));
            }
            Some(Members { track: slot, .. }) => {
                let tag = |lane| Tag { slot: *slot, lane };
                let lanes = self.lanes[flow].iter();
                done.extend(lanes.map(|&(lane, flows)| Done { tag: tag(lane), flows, drained }));
            }
        }
    }

    fn remove(&mut self, flow: usize) {
        self.flows[flow].mark = f64::INFINITY;
        self.live -= 1;
        for hop in flow * self.stride..(flow + 1) * self.stride {
            let at = self.path[hop] as usize;
            let Link { from, served, to, .. } = self.links[at];
            let (from, served, to) = (from as usize, served as usize, to as usize);
            let members = &self.members[from * self.width..to * self.width];
            let mut records = members.chunks_exact(self.width);
            let Some(place) = records.position(|record| record[0] == flow as u32) else {
                continue; // the pad
            };
            let record = &members[place * self.width..][..self.width];
            self.load[at] -= f64::from(weight(record, self.stride, 0));
            let link = &mut self.links[at];
            link.to -= 1;
            let mut hole = from + place;
            if hole < served {
                link.served -= 1;
                self.swap(hole, served - 1);
                hole = served - 1;
            }
            self.swap(hole, to - 1);
        }
    }

    /// Exchanges the places of two members of one link.
    fn swap(&mut self, a: usize, b: usize) {
        if a != b {
            for field in 0..self.width {
                self.members.swap(a * self.width + field, b * self.width + field);
            }
        }
    }

    /// Moves the flows that are left into `pool`.
    pub fn drain_into(&mut self, pool: &mut Pool) {
        // Twins side by side, so that what is left of them is seen to be twins again.
        let (flows, links) = (self.flows.len(), self.links.len() - 1);
        for (at, flow) in self.flows.iter().enumerate().filter(|(_, f)| f.mark < f64::INFINITY) {
            let remaining = flow.mark - self.links[flow.server as usize].sent;
            let path = &self.path[at * self.stride..][..self.stride];
            let tags = self.tag[at..].iter().step_by(flows);
            for (&tag, names) in tags.zip(self.names.chunks_exact(links)) {
                let hops = path.iter().filter(|&&link| link != PAD);
                pool.push(hops.map(|&link| names[link as usize - 1]), remaining, tag);
            }
        }
    }

    /// When the next flow, or with a tolerance the next few, will be done; `None` if nothing moves.
    ///
    /// With `tolerance` t > 0 the rates stay as they are until the flows that end within t times
    /// the component's age have ended: those flows end when they do, and what they leave free stays
    /// unused for that long. Rates so stay feasible, and nothing ends early.
    pub fn next_done(&self, tolerance: f64) -> Option<Time> {
        // Dark links divide by zero, links whose flows have all gone are due at infinity.
        let end = |link: &Link, mark: f64| (mark - link.sent) / link.level;
        let serving = || self.serving.iter().map(|&at| &self.links[at as usize]);
        let mut soonest = f64::INFINITY;
        let mut last = (0.0, 0.0);
        for link in serving() {
            let end = end(link, link.due);
            if end < soonest {
                soonest = end;
                last = (link.due - link.sent, link.level);
            }
        }
        if soonest == f64::INFINITY {
            return None;
        }
        if tolerance > 0.0 {
            let mut wait = soonest;
            let age = self.updated.saturating_sub(self.born).ps() as f64 + soonest;
            let horizon = soonest + tolerance * age;
            for link in serving().filter(|link| end(link, link.due) <= horizon) {
                let (from, served) = (link.from as usize, link.served as usize);
                let served = &self.members[from * self.width..served * self.width];
                for record in served.chunks_exact(self.width) {
                    let mark = self.flows[record[0] as usize].mark;
                    let end = end(link, mark);
                    if end <= horizon && end > wait {
                        wait = end;
                        last = (mark - link.sent, link.level);
                    }
                }
            }
        }
        Some(self.updated.saturating_add(time_for(last.0, last.1)))
    }
}

/// Writes `path` with the field at `hop` first.
#[inline(always)]
fn first(hop: usize, path: &[u32], record: &mut [u32]) {
    if let (&[one, other], [first, second]) = (path, &mut *record) {
        (*first, *second) = if hop == 0 { (one, other) } else { (other, one) };
        return;
    }
    record[0] = path[hop];
    record[1..=hop].copy_from_slice(&path[..hop]);
    record[hop + 1..].copy_from_slice(&path[hop + 1..]);
}

/// How many flows the record of a member stands for on the link at `hop` of it.
#[inline(always)]
fn weight(record: &[u32], stride: usize, hop: usize) -> u32 {
    if record.len() == stride { 1 } else { record[stride + hop] }
}

/// How long so many bytes take at a rate in bytes a picosecond, rounded up. Where bytes are whole, and
/// bits a second too, it is the exact [`BitRate::time_for`]: so it is for a flow that has its links to
/// itself.
fn time_for(bytes: f64, rate: f64) -> Time {
    let whole = bytes as u64; // none below zero
    if bytes > 0.0 && whole as f64 == bytes {
        let bps = (rate * 8e12).round();
        if bps / 8e12 == rate {
            return BitRate::from_bps(bps as u64).time_for(Bytes::new(whole));
        }
    }
    let time = bytes / rate;
    let down = time as u64;
    Time::from_ps(down.saturating_add(u64::from((down as f64) < time)))
}

#[cfg(test)]
mod tests;
