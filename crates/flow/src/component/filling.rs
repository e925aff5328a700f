//! Max-min fair rates by progressive filling (Bertsekas and Gallager, *Data Networks*, section
//! 6.5.2): the link with the smallest equal share freezes its flows at that share, its *level*;
//! repeat with what is left.
//!
//! When flows have gone, links with levels below theirs freeze as before: what is gone was still
//! filling then, and without it the shares of its links can only be larger. So filling resumes at
//! the lowest level of a flow that has gone. Above it, links mostly freeze in the same order with the
//! same flows. So the next link is looked for where it stood last time, and a link looks first at the
//! flows that it served, and at its other members only if some are missing.
//! Checked: against the definition (every flow crosses a full link on which no flow is faster) on
//! random instances, and resumed against begun anew as random flows leave.

use super::{Component, Flow, Link, weight};

/// Memory for one computation of rates, used again by the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// What is left of each link.
    left: Vec<f64>,
    /// How many flows still want it: none once it is frozen.
    wanted: Vec<f64>,
    /// The equal share of these, infinite where none want it.
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
        let Scratch { left, wanted, share, before } = scratch;
        let places = self.links.len().next_multiple_of(LANES);
        left.clear();
        left.extend_from_slice(&self.capacity);
        left.resize(places, f64::INFINITY);
        wanted.clear();
        wanted.extend_from_slice(&self.load);
        wanted.resize(places, 0.0);
        share.resize(places, f64::INFINITY);
        let mut filling = Filling {
            links: &mut self.links,
            flows: &mut self.flows,
            members: &mut self.members,
            left: &mut left[..places],
            wanted: &mut wanted[..places],
            share: &mut share[..places],
        };
        let right = self.serving.iter();
        let right = right.take_while(|&&at| filling.links[at as usize].level < self.right_below);
        let right = right.count();
        before.clear();
        before.extend_from_slice(&self.serving[right..]);
        self.serving.truncate(right);
        let mut todo = self.live - filling.resume(stride, width, &self.serving);
        for &at in &*before {
            filling.links[at as usize].level = f64::INFINITY;
        }
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
            todo -= filling.freeze(stride, width, at, fair);
            self.serving.push(at as u32);
        }
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
    /// Takes what the links of `right` give, which freeze as before; says how many flows they serve.
    #[inline(always)]
    fn resume(&mut self, stride: usize, width: usize, right: &[u32]) -> usize {
        let (mut frozen, mut flows) = (0.0, 0);
        for &at in right {
            let link = &self.links[at as usize];
            frozen = link.level;
            flows += link.served - link.from;
            let served = &self.members[link.from as usize * width..link.served as usize * width];
            for record in served.chunks_exact(width) {
                for hop in 1..stride {
                    let weight = f64::from(weight(record, stride, hop));
                    self.left[record[hop] as usize] -= frozen * weight;
                    self.wanted[record[hop] as usize] -= weight;
                }
            }
        }
        for &at in right {
            self.wanted[at as usize] = 0.0;
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
        self.wanted[at] = 0.0;
        self.share[at] = f64::INFINITY;
        served - from
    }

    /// Freezes a flow, if none of its other links has done so; says for how many it stands.
    #[inline(always)]
    fn claim(&mut self, stride: usize, width: usize, place: usize, fair: f64) -> f64 {
        let Filling { members, left, wanted, share, .. } = self;
        let record = &members[place * width..][..width];
        let others = &record[1..stride];
        if others.iter().any(|&other| wanted[other as usize] <= 0.0) {
            return 0.0;
        }
        for (hop, &other) in (1..).zip(others) {
            let (other, weight) = (other as usize, f64::from(weight(record, stride, hop)));
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
mod tests {
    use super::*;
    use crate::pool::{Pool, Tag};
    use lightloom_units::Time;
    use proptest::prelude::*;

    fn rates(component: &Component) -> Vec<f64> {
        let server = component.flows.iter().map(|flow| flow.server as usize);
        server.map(|at| component.links[at].level).collect()
    }

    fn solved(capacity: &[f64], flows: &[Vec<u32>]) -> Component {
        let mut pool = Pool::default();
        for links in flows {
            pool.push(links.iter().copied(), 1e6, Tag::default());
        }
        let chosen: Vec<u32> = (0..flows.len() as u32).collect();
        let mut component = Component::default();
        component.fill(
            &pool,
            &chosen,
            capacity,
            &mut vec![0; capacity.len()],
            (Time::ZERO, Time::ZERO),
        );
        component.solve(&mut Scratch::default());
        component
    }

    #[test]
    fn the_textbook_example() {
        // Two links of 1 and 2; one flow over both, one on each.
        let component = solved(&[1.0, 2.0], &[vec![0, 1], vec![0], vec![1]]);
        assert_eq!(rates(&component), [0.5, 0.5, 1.5]);
    }

    #[test]
    fn a_dark_link_carries_nothing() {
        let component = solved(&[0.0, 2.0], &[vec![0, 1], vec![1]]);
        assert_eq!(rates(&component), [0.0, 2.0]);
        assert_eq!(component.next_done(0.0), Some(Time::from_ps(500_000)));
    }

    #[test]
    fn two_that_leave_and_one_that_changes_its_server() {
        // The second link gives way first; once its own two are gone, the first serves all.
        let mut component = solved(&[4.0, 3.0], &[vec![0, 1], vec![0], vec![1], vec![1]]);
        assert_eq!(rates(&component), [1.0, 3.0, 1.0, 1.0]);
        component.remove(2);
        component.remove(3);
        component.right_below = 1.0;
        component.solve(&mut Scratch::default());
        assert_eq!(rates(&component)[..2], [2.0, 2.0]);
    }

    proptest! {
        /// As flows leave, one instant after another, the rates of the rest are those that a new
        /// component gives them; and nothing gets lost on the way.
        #[test]
        fn filling_resumed_is_filling_anew(
            capacity in prop::collection::vec(prop::sample::select(vec![0.5, 1.0, 1.3, 2.0, 4.0]), 2..9),
            picks in prop::collection::vec(
                (prop::collection::vec(0u32..8, 1..4), 1u32..40, 0u8..4), 1..40),
        ) {
            let links = capacity.len() as u32;
            let mut pool = Pool::default();
            let mut component = solved(&capacity, &[]);
            let mut scratch = Scratch::default();
            let mut now = Time::ZERO;
            let (mut done, mut gone) = (Vec::new(), 0);
            let mut waiting = picks.iter().peekable();
            while waiting.peek().is_some() || component.live() > 0 {
                // Arrivals, in batches: the component is packed and begins anew.
                for (path, size, pause) in waiting.by_ref() {
                    let mut path: Vec<u32> = path.iter().map(|l| l % links).collect();
                    path.sort_unstable();
                    path.dedup();
                    let bytes = f64::from(*size) * 64.0;
                    pool.push(path.into_iter(), bytes, Tag::default());
                    if *pause == 0 {
                        break;
                    }
                }
                component.drain_into(&mut pool);
                let chosen: Vec<u32> = (0..pool.len() as u32).collect();
                component.fill(&pool, &chosen, &capacity, &mut vec![0; capacity.len()], (now, now));
                component.solve(&mut scratch);
                pool.clear();
                for _ in 0..if waiting.peek().is_some() { 3 } else { usize::MAX } {
                    let Some(next) = component.next_done(0.0) else { break };
                    prop_assert!(next > now, "nothing ends");
                    now = next;
                    component.advance(now, &mut done);
                    prop_assert!(done.len() > gone, "an end without a flow");
                    gone = done.len();
                    component.solve(&mut scratch);
                    let mut anew = Component::default();
                    component.drain_into(&mut pool);
                    let chosen: Vec<u32> = (0..pool.len() as u32).collect();
                    anew.fill(&pool, &chosen, &capacity, &mut vec![0; capacity.len()], (now, now));
                    anew.solve(&mut scratch);
                    pool.clear();
                    let left = component.flows.iter().zip(rates(&component));
                    let left = left.filter(|(flow, _)| flow.mark < f64::INFINITY);
                    for ((_, resumed), fresh) in left.zip(rates(&anew)) {
                        prop_assert!((resumed - fresh).abs() <= 1e-9 * fresh, "{resumed} {fresh}");
                    }
                }
            }
            prop_assert_eq!(done.len(), picks.len());
        }

        /// The definition: no link is overfull, and every flow crosses a full link on which no
        /// other flow is faster.
        #[test]
        fn rates_are_max_min_fair(
            capacity in prop::collection::vec(0.5f64..8.0, 2..9),
            picks in prop::collection::vec(prop::collection::vec(0u32..8, 1..5), 1..24),
        ) {
            let links = capacity.len() as u32;
            let flows: Vec<Vec<u32>> = picks
                .iter()
                .map(|p| {
                    let mut p: Vec<u32> = p.iter().map(|l| l % links).collect();
                    p.sort_unstable();
                    p.dedup();
                    p
                })
                .collect();
            let component = solved(&capacity, &flows);
            let rates = rates(&component);
            let mut used = vec![0.0; capacity.len()];
            let mut fastest = vec![0.0f64; capacity.len()];
            for (flow, links) in flows.iter().enumerate() {
                for &l in links {
                    used[l as usize] += rates[flow];
                    fastest[l as usize] = fastest[l as usize].max(rates[flow]);
                }
            }
            for l in 0..capacity.len() {
                prop_assert!(used[l] <= capacity[l] * (1.0 + 1e-9));
            }
            for (flow, links) in flows.iter().enumerate() {
                prop_assert!(links.iter().any(|&l| {
                    let l = l as usize;
                    used[l] >= capacity[l] * (1.0 - 1e-9) && rates[flow] >= fastest[l] * (1.0 - 1e-9)
                }), "flow {flow} of {rates:?} could be faster");
            }
        }
    }
}
