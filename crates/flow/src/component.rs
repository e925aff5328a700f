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

mod building;
mod dense;
pub(crate) mod filling;
mod given;
pub(crate) mod plan;
pub(crate) mod planning;
mod quotient;
mod repeats;

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
/// A component of no more links is not packed: what is kept of them fits in a first-level cache.
const SMALL: usize = if cfg!(test) { 16 } else { 128 };
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
    /// \[B/ps\].
    capacity: f64,
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
    /// How many flows its members are: one each, but for classes.
    load: f64,
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
    /// The links that serve flows, by level.
    serving: Vec<u32>,
    /// Link by link, a record for each flow on it: the flow, then its other links; for a class then as
    /// many fields again, how many of it cross this link, then the others.
    members: Vec<u32>,
    /// Fields of such a record.
    width: usize,
    given: given::Given,
    live: usize,
    /// Levels below this are still right.
    right_below: f64,
    updated: Time,
    born: Time,
    /// Flows that are done, and when, until they are handed over.
    ends: Vec<(u32, Time)>,
}

impl Component {
    /// The links it uses, by the fabric's numbers.
    pub fn links(&self) -> &[u32] {
        &self.names
    }
    /// Tracks are called so much more from now on.
    pub fn rename(&mut self, tracks: u32) {
        self.tag.iter_mut().for_each(|tag| tag.slot += tracks);
        if let Some(members) = &mut self.members_of {
            members.track += tracks;
        }
    }
    pub fn live(&self) -> usize {
        self.live
    }
    /// Whether so many flows are gone that the rest should be packed (and split, if they fall
    /// apart). Classes stay together: there are few; and so do flows on few links.
    pub fn is_sparse(&self) -> bool {
        let whole = self.members_of.is_some() || self.links.len() - 1 <= SMALL;
        self.live * 2 < self.flows.len() && self.flows.len() > 8 && !whole
    }

    /// Brings the links up to `now` and hands over the flows that are done.
    pub fn advance(&mut self, now: Time, done: &mut Vec<Done>) {
        let mut ends = std::mem::take(&mut self.ends);
        self.step(now, &mut ends);
        ends.drain(..).for_each(|(flow, drained)| self.tell(flow as usize, drained, done));
        self.ends = ends;
    }

    /// Brings the links up to `now` and names the flows that are done.
    fn step(&mut self, now: Time, ends: &mut Vec<(u32, Time)>) {
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
                    ends.push((flow as u32, drained));
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
            let link = &mut self.links[at];
            let flows = f64::from(weight(record, self.stride, 0));
            link.load -= flows;
            if let Some(wanted) = self.given.wanted.get_mut(at) {
                *wanted -= flows;
            }
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
    pub fn drain_into(&self, pool: &mut Pool) {
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
