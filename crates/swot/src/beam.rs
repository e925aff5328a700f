//! Patterns by a beam over the steps.
//!
//! A state is the time at a barrier and, for each plane, the configuration it holds (if that is ever
//! needed again) and how long from now it would take to be ready with another one. Switching is
//! lazy: a plane that did nothing for long enough is ready at once, whatever is asked of it, so
//! overlap and bypassing need no decision of their own. What is decided at each step is which planes
//! serve it, and how many of them leave half a reconfiguration or a whole one before the others; the
//! linear program of [`pattern`](super::pattern) has the last word on times.

use super::pattern::{Pattern, Scaled, planes_of};
use crate::problem::Held;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// How wide to search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width {
    /// States kept a step.
    pub states: usize,
    /// Planes that may leave a step early.
    pub leaves: u32,
    /// Whether they may also leave half a reconfiguration early.
    pub halves: bool,
}

/// Trade-offs between being early and having planes that are ready; each keeps its share of states.
const TRADE_OFFS: [f64; 3] = [0.3, 0.6, 0.9];
/// Readiness is told apart in this many parts of a reconfiguration.
const PARTS: f64 = 64.0;
/// With more planes than this, only planes that are ready first are considered together.
const ALL_SUBSETS: usize = 8;

const NOTHING: u32 = u32::MAX;

/// States after a step; planes' side by side.
#[derive(Default)]
struct States {
    time: Vec<f64>,
    held: Vec<u32>,
    lag: Vec<f32>,
    parent: Vec<u32>,
    served: Vec<u64>,
}

impl States {
    /// The one before the first step. A configuration that is not `used` counts as none.
    fn root(p: &Scaled, used: &HashSet<u32>) -> Self {
        let mut root =
            States { time: vec![0.0], parent: vec![0], served: vec![0], ..States::default() };
        for &held in &p.initial {
            let (held, lag) = match held {
                Held::Configuration(c) if used.contains(&c) => (c, p.dark),
                Held::Configuration(_) | Held::Dark => (NOTHING, p.dark),
                Held::Free => (NOTHING, 0.0),
            };
            root.held.push(held);
            root.lag.push(lag as f32);
        }
        root
    }

    /// What each plane of a state holds, and how late it is.
    fn planes(&self, state: usize, k: usize) -> (&[u32], &[f32]) {
        let planes = state * k..(state + 1) * k;
        (&self.held[planes.clone()], &self.lag[planes])
    }
}

struct Candidate {
    time: f64,
    lag: f64,
    parent: u32,
    served: u64,
    whole: u8,
    half: u8,
    key: u64,
}

/// States to choose from, of those alike the soonest.
#[derive(Default)]
struct Candidates {
    all: Vec<Candidate>,
    by_key: HashMap<u64, u32>,
}

impl Candidates {
    fn clear(&mut self) {
        self.all.clear();
        self.by_key.clear();
    }

    fn offer(&mut self, new: Candidate) {
        match self.by_key.entry(new.key) {
            Entry::Occupied(at) => {
                let old = &mut self.all[*at.get() as usize];
                if new.time < old.time {
                    *old = new;
                }
            }
            Entry::Vacant(at) => {
                at.insert(self.all.len() as u32);
                self.all.push(new);
            }
        }
    }
}

/// The patterns of the best leaves, best first by their estimate, none twice.
pub(super) fn patterns(p: &Scaled, width: Width, most: usize) -> Vec<Pattern> {
    let (n, k) = (p.steps(), p.k);
    // Whether the configuration of each step is needed after it.
    let mut needed_later = vec![false; n];
    let mut used: HashSet<u32> = HashSet::new();
    for (later, &c) in needed_later.iter_mut().zip(&p.configuration).rev() {
        *later = !used.insert(c);
    }
    let mut layers: Vec<States> = Vec::with_capacity(n + 1);
    layers.push(States::root(p, &used));
    let mut candidates = Candidates::default();
    let mut subsets: Vec<u64> = Vec::new();
    for (s, &c) in p.configuration.iter().enumerate() {
        let from = layers.last().expect("there is a root");
        candidates.clear();
        for state in 0..from.time.len() {
            let (held, lag) = from.planes(state, k);
            subsets_of(held, lag, c, &mut subsets);
            for &set in &subsets {
                expand(p, s, from.time[state], held, lag, set, width, needed_later[s], |new| {
                    candidates.offer(Candidate { parent: state as u32, ..new })
                });
            }
        }
        let kept = keep(&mut candidates.all, width.states);
        let mut next = States::default();
        for &i in &kept {
            let new = &candidates.all[i as usize];
            let state = new.parent as usize;
            let (before, lags) = from.planes(state, k);
            next.time.push(new.time);
            next.parent.push(new.parent);
            next.served.push(new.served);
            let (mut held, mut lag) = ([NOTHING; 64], [0f32; 64]);
            after(
                p,
                c,
                needed_later[s],
                before,
                lags,
                new,
                new.time - from.time[state],
                &mut held[..k],
                &mut lag[..k],
            );
            next.held.extend_from_slice(&held[..k]);
            next.lag.extend_from_slice(&lag[..k]);
        }
        layers.push(next);
    }
    leaves(&layers, most)
}

/// The patterns that lead to the best of the last layer.
fn leaves(layers: &[States], most: usize) -> Vec<Pattern> {
    let n = layers.len() - 1;
    let last = layers.last().expect("there is a leaf");
    let mut order: Vec<usize> = (0..last.time.len()).collect();
    order.sort_by(|&a, &b| last.time[a].total_cmp(&last.time[b]).then(a.cmp(&b)));
    let mut patterns: Vec<Pattern> = Vec::new();
    for leaf in order {
        let mut pattern = vec![0; n];
        let mut at = leaf;
        for s in (0..n).rev() {
            pattern[s] = layers[s + 1].served[at];
            at = layers[s + 1].parent[at] as usize;
        }
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
            if patterns.len() == most {
                break;
            }
        }
    }
    patterns
}

/// Sets of planes worth trying: of planes in one state the first ones only.
fn subsets_of(held: &[u32], lag: &[f32], c: u32, out: &mut Vec<u64>) {
    let k = held.len();
    out.clear();
    if k <= ALL_SUBSETS {
        // twin[j]: the plane before j in the same state.
        let mut twin = [usize::MAX; ALL_SUBSETS];
        for j in 0..k {
            for i in (0..j).rev() {
                if held[i] == held[j] && lag[i] == lag[j] {
                    twin[j] = i;
                    break;
                }
            }
        }
        out.extend((1u64..1 << k).filter(|set| {
            planes_of(*set).all(|j| twin[j] == usize::MAX || set >> twin[j] & 1 == 1)
        }));
        return;
    }
    let mut holding: Vec<usize> = (0..k).filter(|&j| held[j] == c).collect();
    let mut others: Vec<usize> = (0..k).filter(|&j| held[j] != c).collect();
    holding.sort_by(|&a, &b| lag[b].total_cmp(&lag[a]).then(a.cmp(&b)));
    others.sort_by(|&a, &b| {
        lag[a]
            .total_cmp(&lag[b])
            .then((held[a] != NOTHING).cmp(&(held[b] != NOTHING)))
            .then(a.cmp(&b))
    });
    for h in 0..=holding.len() {
        for o in 0..=others.len() {
            if h + o > 0 {
                let of = |planes: &[usize]| planes.iter().fold(0u64, |set, &j| set | 1 << j);
                out.push(of(&holding[..h]) | of(&others[..o]));
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn expand(
    p: &Scaled,
    s: usize,
    now: f64,
    held: &[u32],
    lag: &[f32],
    set: u64,
    width: Width,
    keep_configuration: bool,
    mut found: impl FnMut(Candidate),
) {
    let c = p.configuration[s];
    let q = set.count_ones();
    let start = |j: usize| if held[j] == c { 0.0 } else { f64::from(lag[j]) };
    let mut sum = p.work[s] + f64::from(q) * p.alpha;
    // Starts, the soonest first: who starts soonest may leave first.
    let mut starts = [0.0f64; 64];
    for (i, j) in planes_of(set).enumerate() {
        starts[i] = start(j);
        sum += starts[i];
    }
    let starts = &mut starts[..q as usize];
    starts.sort_by(f64::total_cmp);
    let latest = starts[q as usize - 1] + p.alpha;
    for whole in 0..=width.leaves.min(q - 1) {
        let halves = if width.halves { (width.leaves - whole).min(q - 1 - whole) } else { 0 };
        for half in 0..=halves {
            let lost = (f64::from(whole) + 0.5 * f64::from(half)) * p.dark;
            if lost == 0.0 && whole + half > 0 {
                continue;
            }
            let took = (sum + lost) / f64::from(q);
            if q > 1 && took <= latest {
                continue;
            }
            // Every plane that leaves early must have time to send something.
            let fits = |i: usize, early: f64| took - early > starts[i] + p.alpha;
            let whole_fit = (0..whole as usize).all(|i| fits(i, p.dark));
            let half_fit = (whole as usize..(whole + half) as usize).all(|i| fits(i, 0.5 * p.dark));
            if !(whole_fit && half_fit) {
                continue;
            }
            let mut new = Candidate {
                time: now + took,
                lag: 0.0,
                parent: 0,
                served: set,
                whole: whole as u8,
                half: half as u8,
                key: 0,
            };
            let (mut to_held, mut to_lag) = ([NOTHING; 64], [0f32; 64]);
            let k = held.len();
            after(
                p,
                c,
                keep_configuration,
                held,
                lag,
                &new,
                took,
                &mut to_held[..k],
                &mut to_lag[..k],
            );
            let mut keys = [0u64; 64];
            let scale = if p.dark > 0.0 { PARTS / p.dark } else { 0.0 };
            for j in 0..k {
                new.lag += f64::from(to_lag[j]);
                keys[j] =
                    u64::from(to_held[j]) << 32 | (f64::from(to_lag[j]) * scale).round() as u64;
            }
            new.lag /= k as f64;
            keys[..k].sort_unstable();
            new.key = keys[..k].iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &key| {
                (hash ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
            });
            found(new);
        }
    }
}

/// The planes after a step that took so long.
#[allow(clippy::too_many_arguments)]
fn after(
    p: &Scaled,
    c: u32,
    keep_configuration: bool,
    held: &[u32],
    lag: &[f32],
    new: &Candidate,
    took: f64,
    to_held: &mut [u32],
    to_lag: &mut [f32],
) {
    let kept = if keep_configuration { c } else { NOTHING };
    for j in 0..held.len() {
        let (h, l) = if new.served >> j & 1 == 1 {
            (kept, p.dark)
        } else {
            let h = if held[j] == c { kept } else { held[j] };
            (h, (f64::from(lag[j]) - took).max(0.0))
        };
        to_held[j] = h;
        to_lag[j] = l as f32;
    }
    // Who could start soonest leaves first.
    let mut left = [(new.whole, 0.0), (new.half, 0.5 * p.dark)];
    let mut done = 0u64;
    for (count, lag_left) in &mut left {
        while *count > 0 {
            let start = |j: usize| if held[j] == c { 0.0 } else { lag[j] };
            let first = planes_of(new.served & !done)
                .min_by(|&a, &b| start(a).total_cmp(&start(b)))
                .expect("fewer leave than serve");
            done |= 1 << first;
            to_lag[first] = *lag_left as f32;
            *count -= 1;
        }
    }
}

/// The best of each trade-off, none twice.
fn keep(candidates: &mut [Candidate], states: usize) -> Vec<u32> {
    let mut chosen = vec![false; candidates.len()];
    let mut order: Vec<u32> = (0..candidates.len() as u32).collect();
    let share = states.div_ceil(TRADE_OFFS.len());
    let mut kept = Vec::with_capacity(states);
    for weight in TRADE_OFFS {
        let score = |i: u32| {
            let c = &candidates[i as usize];
            c.time + weight * c.lag
        };
        let compare = |a: &u32, b: &u32| score(*a).total_cmp(&score(*b)).then(a.cmp(b));
        // Some may have been kept for another trade-off already.
        let most = (share * TRADE_OFFS.len()).min(order.len());
        if most < order.len() {
            order.select_nth_unstable_by(most, compare);
        }
        order[..most].sort_unstable_by(compare);
        let mut more = share;
        for &i in &order[..most] {
            if more > 0 && !chosen[i as usize] {
                chosen[i as usize] = true;
                kept.push(i);
                more -= 1;
            }
        }
    }
    kept
}
