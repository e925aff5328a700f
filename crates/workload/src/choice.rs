//! Which experts one token chooses together, as far as counts of assignments say it.
//!
//! Counts say how often each expert is chosen, and not which experts one token chooses. Modelled: of all
//! distributions over sets of k distinct experts that choose each expert as often as counted, the one of
//! greatest entropy. A set has a probability in proportion to the product of its experts' weights, which
//! is conditional Poisson sampling (Chen, Dempster and Liu, Biometrika 81, 1994, Section 2); weights are
//! found by iteration. With a *limit*, experts are in groups of consecutive ones, and only sets in at most
//! M of the groups are possible (DeepSeek-V3, arXiv 2412.19437, Section 2.1.2: M of the nodes that hold
//! experts). Sums over sets are coefficients of a polynomial: of degree k in experts and M in groups.
//! An expert that is counted once a token or more often is chosen by every token.
//! What a limit leaves of loads that were counted without ([`Choice::limited`]): DeepSeek-V3 chooses groups
//! first, by the sum of their highest k / M affinities. Of affinities that are Gumbel variables around
//! logarithms of weights (so that the highest k are a draw by weights), the mean of a group's m highest
//! scatters less than one does, so groups are chosen as by their weights to a power above 1 ([`sharpness`]),
//! and not to the power k / M that leaving out sets alone would give them.
//! Ignored: that a token's affinities go together beyond what their rows say (tokens of one kind); that
//! groups with two high affinities hold more of a token's experts than chance gives them. Powers are put on
//! groups that a token has an expert of, not on groups that it may have one of: where some groups have nearly
//! all of the load, what a limit leaves is a little too even (by 3 % of the load at ten times the popularity).
//! Checked: against all sets one by one, closed forms of even loads, and draws by DeepSeek-V3's own rule
//! and from trained gates (`tests/test_routing.py`, `docs/routing.md`).

use std::ops::Range;

/// Weights are known when no expert is chosen more often than wanted, or less often, by this share.
const CLOSE: f64 = 1e-8;
/// Rounds after which weights are taken as they are; five to fifteen do.
const ROUNDS: usize = 400;
/// Of a step that would set a group right if it were alone: the others move, too.
const TOGETHER: f64 = 0.75;
/// The least weight, and one over the greatest.
const LEAST: f64 = 1e-12;
/// Chosen so often, an expert is chosen always.
const ALWAYS: f64 = 1.0 - 1e-9;

/// What a token may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub experts: usize,
    pub top_k: usize,
    /// Groups of consecutive experts; 1: there is no limit.
    pub groups: usize,
    /// Groups that one token may choose from.
    pub most_groups: usize,
}

/// Whether an expert is chosen by chance, or by every token.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Weight {
    Always,
    /// In proportion; 0: never.
    Chance(f64),
}

/// How tokens of one rank choose.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    rules: Rules,
    weights: Vec<Weight>,
    /// Experts that a token really chooses: fewer than k if fewer are ever chosen.
    chosen: usize,
    /// Whether experts are chosen as often as wanted.
    pub fits: bool,
    /// By group: what multiplies the sets that have any of it.
    pull: Vec<f64>,
    sums: Sums,
}

/// Coefficients, from which every probability follows.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// By group: its sets, by the number of experts, of its first so many experts.
    before: Vec<Vec<f64>>,
    /// By group: what its last so many experts and all other groups add, by the experts chosen so far.
    after: Vec<Vec<f64>>,
    /// By group: the sets that leave it out.
    without: Vec<f64>,
    /// All sets.
    all: f64,
}

impl Rules {
    /// Whether groups limit anything.
    pub fn limit(&self) -> bool {
        self.most_groups < self.groups
    }

    /// The same without groups.
    pub fn free(self) -> Rules {
        Rules { groups: 1, most_groups: 1, ..self }
    }

    fn group(&self, index: usize) -> Range<usize> {
        let size = self.experts / self.groups;
        index * size..(index + 1) * size
    }
}

impl Choice {
    /// Tokens that choose each expert as often as `loads` say, in proportion. If no sets under the limit
    /// do, as nearly as rounds of fitting come to it.
    pub fn of(loads: &[u64], rules: Rules) -> Choice {
        let (wanted, chosen) = shares(loads, rules.top_k);
        let odds = |&share: &f64| match share >= ALWAYS {
            true => Weight::Always,
            false => Weight::Chance(share / (1.0 - share)),
        };
        let weights = wanted.iter().map(odds).collect();
        let pull = vec![1.0; rules.groups];
        let sums = Sums::default();
        let mut choice = Choice { rules, weights, chosen, fits: false, pull, sums };
        if !choice.sum() {
            // The loads that every token has are in too many groups: nothing is limited.
            choice.rules = rules.free();
            choice.sum();
            choice.fit(&wanted);
            choice.fits = false;
            return choice;
        }
        choice.fit(&wanted);
        choice
    }

    /// The same weights under a limit by which groups are chosen first; none if no set is possible.
    pub fn limited(&self, rules: Rules) -> Option<Choice> {
        let weight = |at: usize| match self.weights[at] {
            Weight::Always => f64::INFINITY,
            Weight::Chance(weight) => weight,
        };
        let sums: Vec<f64> =
            (0..rules.groups).map(|group| rules.group(group).map(weight).sum()).collect();
        let some = |sum: &&f64| **sum > 0.0 && sum.is_finite();
        let mean = sums.iter().filter(some).sum::<f64>() / sums.iter().filter(some).count() as f64;
        let (top_k, most) = (rules.top_k as f64, rules.most_groups as f64);
        let power = sharpness((rules.top_k / rules.most_groups).max(1)) - top_k / most;
        // A group that is always chosen, or never, needs no pull.
        let pull = sums.iter().map(|sum| if some(&sum) { (sum / mean).powf(power) } else { 1.0 });
        let mut choice = Choice { rules, pull: pull.collect(), ..self.clone() };
        choice.sum().then_some(choice)
    }

    fn fit(&mut self, wanted: &[f64]) {
        let first = self.weights.clone();
        let mut step = 1.0;
        let mut before = f64::MAX;
        for _ in 0..ROUNDS {
            let found = self.shares();
            let free = |&at: &usize| matches!(self.weights[at], Weight::Chance(w) if w > 0.0);
            let off = |at: usize| (found[at] / wanted[at] - 1.0).abs();
            let most = (0..wanted.len()).filter(free).map(off).fold(0.0, f64::max);
            if most <= CLOSE {
                self.fits = true;
                return;
            }
            // Where whole steps lead further away, shorter ones do not.
            if most > before {
                step = f64::max(step / 2.0, 0.125);
            }
            before = most;
            let groups = self.group_steps(wanted, &found);
            let size = self.rules.experts / self.rules.groups;
            for (at, weight) in self.weights.iter_mut().enumerate() {
                if let Weight::Chance(w) = weight
                    && *w > 0.0
                {
                    let odds = |share: f64| share / f64::max(1.0 - share, 1e-12);
                    let ratio = odds(wanted[at]) / odds(found[at]);
                    let ratio = ratio * groups[at / size];
                    *w *= 1.0 + step * (ratio.clamp(1e-3, 1e3) - 1.0);
                    // Loads that cannot be had would drive weights on and on.
                    *w = w.clamp(LEAST, 1.0 / LEAST);
                }
            }
            if !self.sum() {
                // Too many experts a token for such weights: as they were.
                self.weights = first;
                self.sum();
                return;
            }
        }
    }

    /// By group: what to do to its weights besides what each expert's own share asks for. Under a limit a
    /// group's experts come together, so that one step for all of them would go too far: by as much as
    /// their number scatters more than its mean.
    fn group_steps(&self, wanted: &[f64], found: &[f64]) -> Vec<f64> {
        let step = |group: usize| {
            let of = |shares: &[f64]| shares[self.rules.group(group)].iter().sum::<f64>();
            let (wanted, found) = (of(wanted), of(found));
            if wanted <= 0.0 || found <= 0.0 || !self.rules.limit() {
                return 1.0;
            }
            let (before, after) = (&self.sums.before[group], &self.sums.after[group]);
            let size = self.rules.group(group).len();
            let least = usize::from(self.kept(group) == 0);
            let squares: f64 = (least..=self.chosen)
                .map(|own| {
                    let sets = before[self.place(size, own)] * after[self.place(size, own)];
                    (own * own) as f64 * sets / self.sums.all
                })
                .sum();
            let scatter = (squares - found * found) / found;
            if scatter <= 0.0 { 1.0 } else { (wanted / found).powf(TOGETHER / scatter - 1.0) }
        };
        (0..self.rules.groups).map(step).collect()
    }

    /// How often a token chooses each expert.
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.rules.experts];
        for group in 0..self.rules.groups {
            let (before, after) = (&self.sums.before[group], &self.sums.after[group]);
            for (nth, at) in self.rules.group(group).enumerate() {
                shares[at] = match self.weights[at] {
                    Weight::Always => 1.0,
                    Weight::Chance(weight) => {
                        let with: f64 = (0..self.chosen)
                            .map(|so_far| {
                                before[self.place(nth, so_far)]
                                    * after[self.place(nth + 1, so_far + 1)]
                            })
                            .sum();
                        weight * with / self.sums.all
                    }
                };
            }
        }
        shares
    }

    /// How many tokens choose at least one of some experts, as a share of all; experts in rising order.
    pub fn meets(&self, experts: &[Range<usize>]) -> f64 {
        let always =
            |range: &Range<usize>| range.clone().any(|at| self.weights[at] == Weight::Always);
        if experts.iter().any(always) {
            return 1.0;
        }
        let size = self.rules.experts / self.rules.groups;
        let none = match experts {
            [one] if one.is_empty() => return 0.0,
            [one] if one.start / size == (one.end - 1) / size => self.avoids_one(one),
            _ => self.avoids(experts),
        };
        (1.0 - none / self.sums.all).clamp(0.0, 1.0)
    }

    /// Sets without a stretch of one group.
    fn avoids_one(&self, experts: &Range<usize>) -> f64 {
        let size = self.rules.experts / self.rules.groups;
        let group = experts.start / size;
        let (from, to) = (experts.start % size, (experts.end - 1) % size + 1);
        let (before, after) = (&self.sums.before[group], &self.sums.after[group]);
        let others: f64 = (0..=self.chosen)
            .map(|so_far| before[self.place(from, so_far)] * after[self.place(to, so_far)])
            .sum();
        // That nothing of the group is chosen is in `without`, under no limit by this group.
        let nothing = self.place(size, 0);
        let counted = if self.kept(group) == 0 { after[nothing] } else { 0.0 };
        others - counted + self.sums.without[group]
    }

    /// Sets without any of some experts.
    fn avoids(&self, experts: &[Range<usize>]) -> f64 {
        let gone = |at: usize| experts.iter().any(|range| range.contains(&at));
        let mut sets = self.empty();
        for group in 0..self.rules.groups {
            let mut own = vec![0.0; self.chosen + 1];
            own[0] = 1.0;
            for at in self.rules.group(group).filter(|&at| !gone(at)) {
                add(&mut own, self.weights[at]);
            }
            sets = self.joined(&sets, &own, self.kept(group) == 0, self.pull[group]);
        }
        self.complete(&sets)
    }

    /// Experts of a group that every token chooses.
    fn kept(&self, group: usize) -> usize {
        let always = |&at: &usize| self.weights[at] == Weight::Always;
        self.rules.group(group).filter(always).count()
    }

    fn place(&self, nth: usize, experts: usize) -> usize {
        nth * (self.chosen + 2) + experts
    }

    /// Sets of no group, by groups and experts.
    fn empty(&self) -> Vec<f64> {
        let mut sets = vec![0.0; (self.rules.most_groups + 1) * (self.chosen + 1)];
        sets[0] = 1.0;
        sets
    }

    /// Sets of some groups and one more, whose own sets are given, and their pull; `may` it be left out?
    fn joined(&self, sets: &[f64], own: &[f64], may: bool, pull: f64) -> Vec<f64> {
        let wide = self.chosen + 1;
        let mut joined = if may { sets.to_vec() } else { vec![0.0; sets.len()] };
        for groups in 0..self.rules.most_groups {
            let (from, to) = (groups * wide, (groups + 1) * wide);
            for (experts, &some) in
                sets[from..to].iter().enumerate().filter(|(_, some)| **some > 0.0)
            {
                // With nothing of it chosen, a group is left out.
                for (more, &own) in own.iter().enumerate().skip(usize::from(may)) {
                    if experts + more < wide {
                        joined[to + experts + more] += pull * some * own;
                    }
                }
            }
        }
        joined
    }

    /// Of sets by groups and experts: those that have all experts.
    fn complete(&self, sets: &[f64]) -> f64 {
        sets.chunks_exact(self.chosen + 1).map(|some| some[self.chosen]).sum()
    }

    /// Computes all sums; false if no set is possible.
    fn sum(&mut self) -> bool {
        let (groups, wide) = (self.rules.groups, self.chosen + 2);
        let mut before = Vec::with_capacity(groups);
        for group in 0..groups {
            let size = self.rules.group(group).len();
            let mut sums = vec![0.0; (size + 1) * wide];
            sums[0] = 1.0;
            for (nth, at) in self.rules.group(group).enumerate() {
                let (done, next) = sums.split_at_mut((nth + 1) * wide);
                let next = &mut next[..wide - 1];
                next.copy_from_slice(&done[nth * wide..][..wide - 1]);
                add(next, self.weights[at]);
            }
            before.push(sums);
        }
        let own = |group: usize| {
            let sums: &Vec<f64> = &before[group];
            sums[sums.len() - wide..][..wide - 1].to_vec()
        };
        let may: Vec<bool> = (0..groups).map(|group| self.kept(group) == 0).collect();
        // Sets of the groups before each, and behind it.
        let mut ahead = vec![self.empty()];
        let mut behind = vec![self.empty()];
        for group in 0..groups {
            let next = self.joined(&ahead[group], &own(group), may[group], self.pull[group]);
            ahead.push(next);
            let last = groups - 1 - group;
            let next = self.joined(&behind[group], &own(last), may[last], self.pull[last]);
            behind.push(next);
        }
        let all = self.complete(&ahead[groups]);
        let mut after = Vec::with_capacity(groups);
        let mut without = Vec::with_capacity(groups);
        for group in 0..groups {
            let (left, right) = (&ahead[group], &mut behind[groups - 1 - group]);
            // From here on: in at most so many groups.
            for at in self.chosen + 1..right.len() {
                right[at] += right[at - self.chosen - 1];
            }
            // By experts: sets of the other groups, one group fewer than allowed; and of all allowed.
            let others = self.product(left, right, self.rules.most_groups - 1);
            let free = self.product(left, right, self.rules.most_groups);
            without.push(if may[group] { free[self.chosen] } else { 0.0 });
            let size = self.rules.group(group).len();
            let mut sums = vec![0.0; (size + 1) * wide];
            for so_far in 0..wide - 1 {
                sums[size * wide + so_far] = self.pull[group] * others[self.chosen - so_far];
            }
            for (nth, at) in self.rules.group(group).enumerate().rev() {
                for so_far in 0..wide - 1 {
                    let then = |more: usize| sums[(nth + 1) * wide + so_far + more];
                    sums[nth * wide + so_far] = match self.weights[at] {
                        Weight::Always => then(1),
                        Weight::Chance(weight) => then(0) + weight * then(1),
                    };
                }
            }
            after.push(sums);
        }
        self.sums = Sums { before, after, without, all };
        all > 0.0 && all.is_finite()
    }

    /// Sets of two lots of groups together, in at most so many groups, by experts. Of the second, `right`,
    /// there are those in at most so many groups in place of those in just as many.
    fn product(&self, left: &[f64], right: &[f64], most: usize) -> Vec<f64> {
        let wide = self.chosen + 1;
        let mut sums = vec![0.0; wide];
        for groups in 0..=most {
            let right = &right[(most - groups) * wide..][..wide];
            let left = left[groups * wide..][..wide].iter().enumerate();
            for (x, &some) in left.filter(|(_, some)| **some > 0.0) {
                for (y, &others) in right[..wide - x].iter().enumerate() {
                    sums[x + y] += some * others;
                }
            }
        }
        sums
    }
}

/// How much less the mean of the m highest of many Gumbel variables scatters than one of them. The ith
/// highest is a constant less ln of a Gamma(i) variable, each the one before and an exponential more, so that
/// two of them covary as the later one varies: by the trigamma function of its number.
pub(crate) fn sharpness(highest: usize) -> f64 {
    let one = std::f64::consts::PI.powi(2) / 6.0;
    let (mut trigamma, mut sum) = (one, 0.0);
    for nth in 1..=highest {
        let nth = nth as f64;
        sum += (2.0 * nth - 1.0) * trigamma;
        trigamma -= 1.0 / (nth * nth);
    }
    (one / sum).sqrt() * highest as f64
}

/// One expert more: sets by the number of experts.
fn add(sets: &mut [f64], weight: Weight) {
    for at in (0..sets.len()).rev() {
        let fewer = if at > 0 { sets[at - 1] } else { 0.0 };
        sets[at] = match weight {
            Weight::Always => fewer,
            Weight::Chance(weight) => sets[at] + weight * fewer,
        };
    }
}

/// How often a token chooses each expert, and how many it chooses: loads in proportion, none above once a
/// token; what is above goes to the others in proportion, as in synthetic traces.
fn shares(loads: &[u64], top_k: usize) -> (Vec<f64>, usize) {
    let some = loads.iter().filter(|&&load| load > 0).count();
    let chosen = top_k.min(some);
    if some <= top_k {
        return (loads.iter().map(|&load| f64::from(u8::from(load > 0))).collect(), chosen);
    }
    let mut shares: Vec<f64> = loads.iter().map(|&load| load as f64).collect();
    let mut always = vec![false; loads.len()];
    loop {
        let held = always.iter().filter(|&&held| held).count();
        let sum: f64 = shares.iter().zip(&always).filter(|(_, held)| !**held).map(|(s, _)| s).sum();
        let scale = (chosen - held) as f64 / sum;
        let mut more = false;
        for (share, held) in shares.iter_mut().zip(&mut always).filter(|(_, held)| !**held) {
            *share *= scale;
            if *share >= ALWAYS {
                (*share, *held, more) = (1.0, true, true);
            }
        }
        if !more {
            return (shares, chosen);
        }
    }
}

#[cfg(test)]
mod tests;
