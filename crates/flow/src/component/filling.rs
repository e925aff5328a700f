//! Max-min fair rates by progressive filling (Bertsekas and Gallager, *Data Networks*, section
//! 6.5.2): the link with the smallest equal share freezes its flows at that share, its *level*;
//! repeat with what is left.
//!
//! When flows have gone, links with levels below theirs freeze as before: what is gone was still
//! filling then, and without it the shares of its links can only be larger. So filling resumes at
//! the lowest level of a flow that has gone: what has been taken from links above it is given back. There,
//! links mostly freeze in the same order with the same flows. So the next link is looked for where it stood last time, and a link looks first at the
//! flows that it served, and at its other members only if some are missing.
//! Checked: against the definition (every flow crosses a full link on which no flow is faster) on
//! random instances, and resumed against begun anew as random flows leave.

use super::given::{Given, Taken};
use super::{Component, Flow, Link, PAD, weight};

/// Of more flows what is taken from links is not noted, but computed again: notes are memory.
const MOST: usize = if cfg!(test) { 12 } else { 4096 };

/// Memory for one computation of rates, used again by the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The equal share of those that want a link, infinite where none do.
    share: Vec<f64>,
    /// The links that froze last time, in that order, from where filling resumes.
    before: Vec<u32>,
}

/// A component's arrays, and what is left of its links, up to whole [`LANES`].
struct Filling<'a> {
    links: &'a mut [Link],
    flows: &'a mut [Flow],
    members: &'a mut [u32],
    left: &'a mut [f64],
    wanted: &'a mut [f64],
    share: &'a mut [f64],
    /// What was taken, as much as is noted; no places if none is.
    taken: &'a mut [Taken],
    notes: usize,
}

impl Component {
    /// Gives every flow its max-min fair rate.
    pub fn solve(&mut self, scratch: &mut Scratch) {
        // Most paths cross two links that can bind: worth a loop of its own.
        match (self.stride, self.width) {
            (2, 2) => self.fill_up(2, 2, scratch),
            (stride, width) if stride == width => self.fill_up(stride, stride, scratch),
            (stride, width) => self.fill_up(stride, width, scratch),
        }
        self.right_below = f64::INFINITY;
    }

    /// Progressive filling, from the level on from which rates are no longer right.
    #[inline(always)]
    fn fill_up(&mut self, stride: usize, width: usize, scratch: &mut Scratch) {
        let Scratch { share, before } = scratch;
        let Given { left, wanted, taken, notes, from, off } = &mut self.given;
        let places = self.links.len().next_multiple_of(LANES);
        let noted = self.flows.len() <= MOST && !*off;
        let right = self.serving.iter();
        let right = right.take_while(|&&at| self.links[at as usize].level < self.right_below);
        let right = right.count();
        before.clear();
        before.extend_from_slice(&self.serving[right..]);
        self.serving.truncate(right);
        let goes_on = noted && !from.is_empty();
        if goes_on {
            let since = from.get(right).copied().unwrap_or(*notes);
            for &Taken { link, flows, left: before } in taken[since..*notes].iter().rev() {
                left[link as usize] = before;
                wanted[link as usize] += f64::from(flows);
            }
            *notes = since;
            from.truncate(right);
        } else {
            left.clear();
            left.extend(self.links.iter().map(|link| link.capacity));
            left.resize(places, f64::INFINITY);
            wanted.clear();
            wanted.extend(self.links.iter().map(|link| link.load));
            wanted.resize(places, 0.0);
            *notes = 0;
            from.clear();
            if noted {
                // Each flow is taken from each of its links, but perhaps its own.
                taken.resize(self.path.len() + self.links.len(), Taken::default());
            }
        }
        share.resize(places, f64::INFINITY);
        let mut filling = Filling {
            links: &mut self.links,
            flows: &mut self.flows,
            members: &mut self.members,
            left: &mut left[..places],
            wanted: &mut wanted[..places],
            share: &mut share[..places],
            taken: if noted { taken } else { &mut [] },
            notes: *notes,
        };
        let mut todo = self.live - filling.resume(stride, width, &self.serving, goes_on);
        for &at in &*before {
            filling.links[at as usize].level = f64::INFINITY;
        }
        *off |= goes_on && 2 * todo > self.live;
        let mut next = 0;
        while todo > 0 {
            let fair = smallest(filling.share);
            // The order seldom changes much, so the link is mostly the next of last time's.
            while next < before.len() && filling.wanted[before[next] as usize] == 0.0 {
                next += 1;
            }
            let fits = |at: &usize| filling.share[*at] == fair;
            let guess = before[next..].iter().map(|&at| at as usize).find(fits);
            let at = guess.or_else(|| (0..places).find(fits)).unwrap_or(0);
            if noted {
                from.push(filling.notes);
            }
            todo -= filling.freeze(stride, width, at, fair);
            self.serving.push(at as u32);
        }
        *notes = filling.notes;
        for &at in &*before {
            let link = &mut filling.links[at as usize];
            if link.level == f64::INFINITY {
                link.served = link.from; // others serve its flows by now
                link.due = f64::INFINITY;
            }
        }
    }
}

impl Filling<'_> {
    /// Takes what the links of `right` give, which freeze as before, unless it `is_taken`; says how many flows
    /// they serve.
    #[inline(always)]
    fn resume(&mut self, stride: usize, width: usize, right: &[u32], is_taken: bool) -> usize {
        let (mut frozen, mut flows) = (0.0, 0);
        for &at in right {
            let link = &self.links[at as usize];
            frozen = link.level;
            flows += link.served - link.from;
            if is_taken {
                continue;
            }
            let served = &self.members[link.from as usize * width..link.served as usize * width];
            for record in served.chunks_exact(width) {
                for hop in 1..stride {
                    let other = record[hop] as usize;
                    if other == PAD as usize {
                        break; // all behind it are, too
                    }
                    let weight = f64::from(weight(record, stride, hop));
                    self.left[other] -= frozen * weight;
                    self.wanted[other] -= weight;
                }
            }
        }
        if !is_taken {
            for &at in right {
                self.wanted[at as usize] = 0.0;
            }
        }
        for ((&left, &wanted), share) in self.left.iter().zip(&*self.wanted).zip(&mut *self.share) {
            *share = share_of(left, wanted, frozen);
        }
        flows as usize
    }

    /// Has link `at` serve those of its members, at rate `fair`, that no other link serves yet; says
    /// how many these are.
    #[inline(always)]
    fn freeze(&mut self, stride: usize, width: usize, at: usize, fair: f64) -> usize {
        let Link { from, served, to, sent, .. } = self.links[at];
        let (from, to) = (from as usize, to as usize);
        let mut wanted = self.wanted[at];
        let (mut place, mut served) = (from, served as usize);
        let mut due = f64::INFINITY;
        while place < served {
            let flow = self.members[place * width] as usize;
            let weight = self.claim(stride, width, place, fair);
            if weight > 0.0 {
                wanted -= weight;
                let mark = self.flows[flow].mark;
                due = if mark < due { mark } else { due };
                place += 1;
            } else {
                served -= 1;
                swap(self.members, width, place, served);
            }
        }
        while wanted > 0.0 && place < to {
            let weight = self.claim(stride, width, place, fair);
            if weight > 0.0 {
                wanted -= weight;
                let flow = &mut self.flows[self.members[place * width] as usize];
                flow.mark += sent - self.links[flow.server as usize].sent;
                flow.server = at as u32;
                due = if flow.mark < due { flow.mark } else { due };
                swap(self.members, width, place, served);
                served += 1;
            }
            place += 1;
        }
        let link = &mut self.links[at];
        (link.level, link.served, link.due) = (fair, served as u32, due);
        self.note(at, self.wanted[at] as u32);
        self.wanted[at] = 0.0;
        self.share[at] = f64::INFINITY;
        served - from
    }

    /// Notes that a link gives so many flows what they want.
    #[inline(always)]
    fn note(&mut self, at: usize, flows: u32) {
        if let Some(note) = self.taken.get_mut(self.notes) {
            *note = Taken { link: at as u32, flows, left: self.left[at] };
            self.notes += 1;
        }
    }

    /// Freezes a flow, if none of its other links has done so; says for how many it stands.
    #[inline(always)]
    fn claim(&mut self, stride: usize, width: usize, place: usize, fair: f64) -> f64 {
        let Filling { members, left, wanted, share, taken, notes, .. } = self;
        let record = &members[place * width..][..width];
        let others = &record[1..stride];
        if others.iter().any(|&other| wanted[other as usize] <= 0.0) {
            return 0.0;
        }
        for (hop, &other) in (1..).zip(others) {
            if other == PAD {
                break;
            }
            let (other, flows) = (other as usize, weight(record, stride, hop));
            if let Some(note) = taken.get_mut(*notes) {
                *note = Taken { link: other as u32, flows, left: left[other] };
                *notes += 1;
            }
            let weight = f64::from(flows);
            left[other] -= fair * weight;
            wanted[other] -= weight;
            share[other] = share_of(left[other], wanted[other], fair);
        }
        f64::from(weight(record, stride, 0))
    }
}

/// Shares never sink below a level already frozen, except by rounding.
#[inline(always)]
fn share_of(left: f64, wanted: f64, frozen: f64) -> f64 {
    let share = if wanted > 0.0 { left / wanted } else { f64::INFINITY };
    if share > frozen { share } else { frozen }
}

/// Exchanges two records.
#[inline(always)]
fn swap(members: &mut [u32], width: usize, a: usize, b: usize) {
    if a != b {
        for field in 0..width {
            members.swap(a * width + field, b * width + field);
        }
    }
}

/// Shares that are compared at a time, so that the search is not one long chain of comparisons that
/// wait for each other.
const LANES: usize = 4;

/// The smallest of shares, of whole [`LANES`].
#[inline(always)]
fn smallest(mut shares: &[f64]) -> f64 {
    let least = |a: f64, b: f64| if b < a { b } else { a };
    let mut lanes = [f64::INFINITY; LANES];
    while let Some((chunk, rest)) = shares.split_first_chunk::<LANES>() {
        for (lane, &share) in lanes.iter_mut().zip(chunk) {
            *lane = least(*lane, share);
        }
        shares = rest;
    }
    least(least(lanes[0], lanes[2]), least(lanes[1], lanes[3]))
}

#[cfg(test)]
mod tests;
