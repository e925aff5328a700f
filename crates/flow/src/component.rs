//! A component: flows that share links, directly or through one another, and their rates.
//!
//! Modelled: max-min fairness by progressive filling (Bertsekas and Gallager, *Data Networks*,
//! section 6.5.2): the link with the smallest equal share freezes its flows at that share; repeat
//! with what is left. Rates are piecewise constant in time. Flows keep their place in the arrays
//! until enough of them are gone that it pays to pack the rest.
//! Checked: against the definition (every flow crosses a full link on which no flow is faster) on
//! random instances.

use lightloom_units::Time;

/// What the engine wants to know of a flow when it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tag {
    /// The transfer it belongs to.
    pub slot: u32,
    /// When it started.
    pub start: Time,
    /// Sum of the delays of its links.
    pub latency: Time,
    /// Its size.
    pub bytes: u64,
}

/// Flows on their way into components.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub remaining: Vec<f64>,
    pub tag: Vec<Tag>,
    /// Flow `i` crosses `links[offset[i]..offset[i + 1]]`.
    pub offset: Vec<u32>,
    pub links: Vec<u32>,
}

impl Pool {
    pub fn clear(&mut self) {
        self.remaining.clear();
        self.tag.clear();
        self.offset.clear();
        self.links.clear();
    }
    pub fn len(&self) -> usize {
        self.tag.len()
    }
    pub fn links_of(&self, flow: usize) -> &[u32] {
        let end = self.offset.get(flow + 1).map_or(self.links.len(), |&o| o as usize);
        &self.links[self.offset[flow] as usize..end]
    }
    /// Adds a flow whose links have just been appended to `links` from `from` on.
    pub fn push(&mut self, from: usize, remaining: f64, tag: Tag) {
        self.offset.push(from as u32);
        self.remaining.push(remaining);
        self.tag.push(tag);
    }
}

/// Memory for one computation of rates, used again by the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    open: Vec<Open>,
    share: Vec<f64>,
    waiting: Vec<u64>,
}

/// What is left of a link, and how many flows still want it.
#[derive(Clone, Copy, Debug)]
struct Open {
    left: f64,
    flows: f64,
}

impl Open {
    fn share(&self) -> f64 {
        if self.flows > 0.0 { self.left / self.flows } else { f64::INFINITY }
    }
}

/// A flow that has left a component.
pub(crate) struct Done {
    pub tag: Tag,
    pub drained: Time,
}

/// Below this, a flow's remainder is rounding: far less than a picosecond of any link.
const ROUNDING_BYTES: f64 = 1e-3;

/// A flow's place on one of its links.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    /// The link, by its index in the component.
    link: u32,
    /// Where the flow's bit stands in `alive`.
    word: u32,
    bit: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Component {
    // One entry a flow; a flow that is gone has an infinite remainder and no rate.
    remaining: Vec<f64>,
    rate: Vec<f64>,
    tag: Vec<Tag>,
    crossed_from: Vec<u32>,
    /// The links of each flow, flow by flow.
    crossed: Vec<Crossing>,
    // One entry a link.
    links: Vec<u32>,
    capacity: Vec<f64>,
    load: Vec<u32>,
    member_from: Vec<u32>,
    /// Flow indices, link by link.
    members: Vec<u32>,
    word_from: Vec<u32>,
    /// A bit for each member, link by link in whole words: set while the flow is there.
    alive: Vec<u64>,
    live: usize,
    updated: Time,
    born: Time,
    pub version: u32,
    pub stale: bool,
    pub dissolving: bool,
}

impl Component {
    /// Takes over the flows `chosen` of `pool`; `local` is scratch space, one entry a link of the
    /// fabric.
    pub fn fill(
        &mut self,
        pool: &Pool,
        chosen: &[u32],
        capacity: &[f64],
        local: &mut [u32],
        now: Time,
    ) {
        self.clear();
        (self.updated, self.born) = (now, now);
        for &flow in chosen {
            let flow = flow as usize;
            self.remaining.push(pool.remaining[flow]);
            self.tag.push(pool.tag[flow]);
            self.crossed_from.push(self.crossed.len() as u32);
            for &link in pool.links_of(flow) {
                let mut at = local[link as usize];
                if self.links.get(at as usize) != Some(&link) {
                    at = self.links.len() as u32;
                    local[link as usize] = at;
                    self.links.push(link);
                    self.capacity.push(capacity[link as usize]);
                    self.load.push(0);
                }
                self.load[at as usize] += 1;
                self.crossed.push(Crossing { link: at, word: 0, bit: 0 });
            }
            self.born = self.born.min(pool.tag[flow].start);
        }
        self.crossed_from.push(self.crossed.len() as u32);
        self.live = chosen.len();
        self.rate.resize(self.live, 0.0);
        self.index_members();
    }

    fn clear(&mut self) {
        self.remaining.clear();
        self.rate.clear();
        self.tag.clear();
        self.crossed_from.clear();
        self.crossed.clear();
        self.links.clear();
        self.capacity.clear();
        self.load.clear();
        self.member_from.clear();
        self.members.clear();
        self.word_from.clear();
        self.alive.clear();
        self.live = 0;
        (self.stale, self.dissolving) = (false, false);
    }

    /// Counting sort of the flows by link.
    fn index_members(&mut self) {
        let (mut next, mut words) = (0, 0);
        for &load in &self.load {
            self.member_from.push(next);
            self.word_from.push(words);
            next += load;
            words += load.div_ceil(64);
        }
        self.member_from.push(next);
        self.word_from.push(words);
        self.members.resize(next as usize, 0);
        self.alive.resize(words as usize, 0);
        // `load` counts the members placed so far, and so ends as it was.
        self.load.fill(0);
        for flow in 0..self.live {
            for at in self.range(flow) {
                let crossing = &mut self.crossed[at];
                let link = crossing.link as usize;
                let place = self.load[link];
                self.load[link] += 1;
                self.members[(self.member_from[link] + place) as usize] = flow as u32;
                crossing.word = self.word_from[link] + place / 64;
                crossing.bit = place % 64;
                self.alive[crossing.word as usize] |= 1 << crossing.bit;
            }
        }
    }

    fn range(&self, flow: usize) -> std::ops::Range<usize> {
        self.crossed_from[flow] as usize..self.crossed_from[flow + 1] as usize
    }

    pub fn links(&self) -> &[u32] {
        &self.links
    }
    pub fn live(&self) -> usize {
        self.live
    }
    /// Whether so many flows are gone that the rest should be packed (and split, if they fall
    /// apart).
    pub fn is_sparse(&self) -> bool {
        self.live * 2 < self.tag.len() && self.tag.len() > 8
    }

    /// Brings the remainders up to `now` and hands over the flows that are done.
    pub fn advance(&mut self, now: Time, done: &mut Vec<Done>) {
        let elapsed = now.saturating_sub(self.updated).ps() as f64;
        for flow in 0..self.remaining.len() {
            let before = self.remaining[flow];
            let after = before - self.rate[flow] * elapsed;
            self.remaining[flow] = after;
            if after <= ROUNDING_BYTES {
                let took = (before / self.rate[flow]).ceil().max(0.0) as u64;
                let drained = self.updated.saturating_add(Time::from_ps(took)).min(now);
                done.push(Done { tag: self.tag[flow], drained });
                self.remaining[flow] = f64::INFINITY;
                self.rate[flow] = 0.0;
                self.live -= 1;
                for at in self.range(flow) {
                    let Crossing { link, word, bit } = self.crossed[at];
                    self.load[link as usize] -= 1;
                    self.alive[word as usize] &= !(1 << bit);
                }
            }
        }
        self.updated = now;
    }

    /// Moves the flows that are left into `pool`.
    pub fn drain_into(&mut self, pool: &mut Pool) {
        for flow in 0..self.tag.len() {
            if self.remaining[flow] < f64::INFINITY {
                let from = pool.links.len();
                let links = &self.links;
                let crossed = &self.crossed[self.range(flow)];
                pool.links.extend(crossed.iter().map(|at| links[at.link as usize]));
                pool.push(from, self.remaining[flow], self.tag[flow]);
            }
        }
    }

    /// Gives every flow its max-min fair rate \[B/ps\].
    pub fn solve(&mut self, scratch: &mut Scratch) {
        let Scratch { open, share, waiting } = scratch;
        open.clear();
        open.extend(
            self.capacity
                .iter()
                .zip(&self.load)
                .map(|(&left, &load)| Open { left, flows: f64::from(load) }),
        );
        share.clear();
        share.extend(open.iter().map(Open::share));
        waiting.clone_from(&self.alive);
        let mut todo = self.live;
        while todo > 0 {
            let (at, fair) = smallest(share);
            let first = self.member_from[at] as usize;
            let words = self.word_from[at] as usize..self.word_from[at + 1] as usize;
            todo -= open[at].flows as usize;
            for block in 0..words.len() {
                let mut word = waiting[words.start + block];
                while word != 0 {
                    let place = block * 64 + word.trailing_zeros() as usize;
                    word &= word - 1;
                    let flow = self.members[first + place] as usize;
                    self.rate[flow] = fair;
                    let from = self.crossed_from[flow] as usize;
                    let to = self.crossed_from[flow + 1] as usize;
                    for crossing in &self.crossed[from..to] {
                        let other = crossing.link as usize;
                        if other == at {
                            continue;
                        }
                        waiting[crossing.word as usize] &= !(1 << crossing.bit);
                        let link = &mut open[other];
                        link.left -= fair;
                        link.flows -= 1.0;
                        // A share never sinks below one already frozen, except by rounding.
                        share[other] = link.share().max(fair);
                    }
                }
            }
            share[at] = f64::INFINITY;
        }
    }

    /// When the next flow, or with a tolerance the next few, will be done; `None` if nothing moves.
    ///
    /// With `tolerance` t > 0 the rates stay as they are until the flows that end within t times
    /// the component's age have ended: those flows end when they do, and what they leave free stays
    /// unused for that long. Rates so stay feasible, and nothing ends early.
    pub fn next_done(&self, tolerance: f64) -> Option<Time> {
        let mut soonest = f64::INFINITY;
        for (remaining, rate) in self.remaining.iter().zip(&self.rate) {
            // Gone: infinity / 0. Dark: x / 0. Both are infinite.
            let end = remaining / rate;
            soonest = if end < soonest { end } else { soonest };
        }
        if soonest == f64::INFINITY {
            return None;
        }
        let mut wait = soonest;
        if tolerance > 0.0 {
            let age = self.updated.saturating_sub(self.born).ps() as f64 + soonest;
            let horizon = soonest + tolerance * age;
            for (remaining, rate) in self.remaining.iter().zip(&self.rate) {
                let end = remaining / rate;
                if end <= horizon && end > wait {
                    wait = end;
                }
            }
        }
        Some(self.updated.saturating_add(Time::from_ps(wait.ceil().max(0.0) as u64)))
    }

    #[cfg(test)]
    pub fn rates(&self) -> &[f64] {
        &self.rate
    }
}

/// The first smallest share and its place. Eight running minima at a time, so that the search is
/// not one long chain of comparisons that wait for each other.
fn smallest(shares: &[f64]) -> (usize, f64) {
    let mut lanes = [f64::INFINITY; 8];
    let mut chunks = shares.chunks_exact(8);
    for chunk in &mut chunks {
        for (lane, &share) in lanes.iter_mut().zip(chunk) {
            *lane = if share < *lane { share } else { *lane };
        }
    }
    let mut best = f64::INFINITY;
    for &share in lanes.iter().chain(chunks.remainder()) {
        best = if share < best { share } else { best };
    }
    (shares.iter().position(|&share| share == best).unwrap_or(0), best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn solved(capacity: &[f64], flows: &[Vec<u32>]) -> Component {
        let mut pool = Pool::default();
        for links in flows {
            let from = pool.links.len();
            pool.links.extend(links);
            pool.push(from, 1e6, Tag::default());
        }
        let chosen: Vec<u32> = (0..flows.len() as u32).collect();
        let mut component = Component::default();
        component.fill(&pool, &chosen, capacity, &mut vec![0; capacity.len()], Time::ZERO);
        component.solve(&mut Scratch::default());
        component
    }

    #[test]
    fn the_textbook_example() {
        // Two links of 1 and 2; one flow over both, one on each.
        let component = solved(&[1.0, 2.0], &[vec![0, 1], vec![0], vec![1]]);
        assert_eq!(component.rates(), &[0.5, 0.5, 1.5]);
    }

    #[test]
    fn a_dark_link_carries_nothing() {
        let component = solved(&[0.0, 2.0], &[vec![0, 1], vec![1]]);
        assert_eq!(component.rates(), &[0.0, 2.0]);
        assert_eq!(component.next_done(0.0), Some(Time::from_ps(500_000)));
    }

    proptest! {
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
            let rates = component.rates();
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
