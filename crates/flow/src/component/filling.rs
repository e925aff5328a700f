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

use super::{Component, Link, PAD, STALE, weight};

/// Memory for one computation of rates, used again by the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    open: Vec<Open>,
    share: Vec<f64>,
    /// The links that froze last time, in that order, from where filling resumes.
    before: Vec<u32>,
}

/// What is left of a link, and how many flows still want it: none once it is frozen.
#[derive(Clone, Copy, Debug)]
struct Open {
    left: f64,
    flows: f64,
}

impl Open {
    fn take(&mut self, rate: f64, flows: u32) {
        let flows = f64::from(flows);
        self.left -= rate * flows;
        self.flows -= flows;
    }
    /// Shares never sink below a level already frozen, except by rounding.
    fn share(&self, frozen: f64) -> f64 {
        let share = if self.flows > 0.0 { self.left / self.flows } else { f64::INFINITY };
        if share > frozen { share } else { frozen }
    }
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
    fn fill_up(
        &mut self,
        stride: usize,
        width: usize,
        Scratch { open, share, before }: &mut Scratch,
    ) {
        let whole = |link: &Link| Open { left: link.capacity, flows: link.load as f64 };
        open.clear();
        open.extend(self.links.iter().map(whole));
        open[PAD as usize].flows = f64::MAX; // each path may cross it, and it never fills up
        let mut todo = self.live;
        let right =
            self.serving.partition_point(|&at| self.links[at as usize].level < self.right_below);
        for &at in &self.serving[..right] {
            let link = &self.links[at as usize];
            todo -= link.served - link.from;
            let served = &self.members[link.from * width..link.served * width];
            for record in served.chunks_exact(width) {
                for hop in 1..stride {
                    open[record[hop] as usize].take(link.level, weight(record, stride, hop));
                }
            }
        }
        self.serving[..right].iter().for_each(|&at| open[at as usize].flows = 0.0);
        share.clear();
        let frozen = self.serving[..right].last().map_or(0.0, |&at| self.links[at as usize].level);
        share.extend(open.iter().map(|open| open.share(frozen)));

        before.clear();
        before.extend(self.serving.drain(right..));
        before.iter().for_each(|&at| self.links[at as usize].level = f64::INFINITY);
        let mut guesses = before.iter().map(|&at| at as usize);
        while todo > 0 {
            let fair = smallest(share);
            // The order seldom changes much, so the link is mostly the next of last time's.
            while guesses.clone().next().is_some_and(|at| open[at].flows == 0.0) {
                guesses.next();
            }
            let guess = guesses.clone().find(|&at| share[at] == fair);
            let at = guess.or_else(|| share.iter().position(|&share| share == fair)).unwrap_or(0);
            todo -= self.freeze((stride, width), at, fair, open, share);
            self.serving.push(at as u32);
            open[at].flows = 0.0;
            share[at] = f64::INFINITY;
        }
        for &at in &*before {
            let link = &mut self.links[at as usize];
            if link.level == f64::INFINITY {
                link.served = link.from; // others serve its flows by now
                link.due = f64::INFINITY;
            }
        }
    }

    /// Has link `at` serve those of its members, at rate `fair`, that no other link serves yet; says
    /// how many these are.
    #[inline(always)]
    fn freeze(
        &mut self,
        (stride, width): (usize, usize),
        at: usize,
        fair: f64,
        open: &mut [Open],
        share: &mut [f64],
    ) -> usize {
        let share = &mut share[..open.len()]; // one check of bounds for both
        let wanted = open[at].flows as usize;
        let Link { from, served, to, due, .. } = self.links[at];
        let (mut claimed, mut flows) = (0, 0);
        for record in self.members[from * width..served * width].chunks_exact(width) {
            let claims = usize::from(claim(record, stride, fair, open, share));
            claimed += claims;
            flows += claims * weight(record, stride, 0) as usize;
        }
        if from + claimed < served || due == STALE {
            self.part(at);
        }
        let link = &mut self.links[at];
        link.level = fair;
        if flows == wanted {
            return claimed;
        }
        let Link { sent, mut served, mut due, .. } = *link;
        let mut place = served;
        while flows < wanted && place < to {
            let record = &self.members[place * width..][..width];
            if claim(record, stride, fair, open, share) {
                claimed += 1;
                flows += weight(record, stride, 0) as usize;
                let flow = &mut self.flows[record[0] as usize];
                flow.mark += sent - self.links[flow.server as usize].sent;
                flow.server = at as u32;
                due = if flow.mark < due { flow.mark } else { due };
                self.swap(place, served);
                served += 1;
            }
            place += 1;
        }
        (self.links[at].served, self.links[at].due) = (served, due);
        claimed
    }

    /// Parts those that link `at` still serves from those that another link serves by now.
    fn part(&mut self, at: usize) {
        let Link { from, mut served, .. } = self.links[at];
        let (mut place, mut due) = (from, f64::INFINITY);
        while place < served {
            let flow = self.flows[self.members[place * self.width] as usize];
            if flow.server == at as u32 {
                due = if flow.mark < due { flow.mark } else { due };
                place += 1;
            } else {
                served -= 1;
                self.swap(place, served);
            }
        }
        (self.links[at].served, self.links[at].due) = (served, due);
    }
}

/// Freezes a flow, if none of its other links has done so.
#[inline(always)]
fn claim(record: &[u32], stride: usize, fair: f64, open: &mut [Open], share: &mut [f64]) -> bool {
    let others = &record[1..stride];
    if others.iter().any(|&other| open[other as usize].flows <= 0.0) {
        return false;
    }
    for (hop, &other) in (1..).zip(others) {
        let other = other as usize;
        open[other].take(fair, weight(record, stride, hop));
        share[other] = open[other].share(fair);
    }
    true
}

/// The smallest share. Eight running minima at a time, so that the search is not one long chain of
/// comparisons that wait for each other.
fn smallest(shares: &[f64]) -> f64 {
    let mut lanes = [f64::INFINITY; 8];
    let mut chunks = shares.chunks_exact(8);
    for chunk in &mut chunks {
        for (lane, &share) in lanes.iter_mut().zip(chunk) {
            *lane = if share < *lane { share } else { *lane };
        }
    }
    let rest = lanes.iter().chain(chunks.remainder());
    rest.fold(f64::INFINITY, |best, &share| if share < best { share } else { best })
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
