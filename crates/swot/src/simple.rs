//! The schedulers that SWOT is compared with: one-shot, lockstep, ideal (SWOT, Sections 2.2 and 4.1).
//!
//! And [`earliest`], which every scheduler ends in: once it is known which plane carries how many
//! bytes of each step, starting everything as early as it can be is best.

use crate::problem::{Barriers, Held, Line, Problem, Schedule, Step, Switch, Use};
use lightloom_units::{BitRate, Bytes, Time};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The bytes that each plane carries of each step: `parts[step]` is (plane, bytes), planes rising.
pub type Parts = Vec<Vec<(u32, Bytes)>>;

/// The schedule that carries these parts and does everything at the earliest time: a plane switches
/// as soon as its last part has arrived, to what its next part needs.
///
/// # Panics
/// If a plane is none of the problem's, or steps are missing.
pub fn earliest(problem: &Problem, parts: &Parts) -> Schedule {
    let planes = problem.planes();
    assert_eq!(parts.len(), problem.steps().len(), "one list of parts a step");
    let mut schedule = Schedule {
        initial: problem.initial().iter().map(|&held| configuration(held)).collect(),
        ..Schedule::default()
    };
    let mut held = problem.initial().to_vec();
    let mut idle_since = vec![Time::ZERO; held.len()];
    let mut switches = vec![Vec::new(); held.len()];
    let mut barriers = Barriers::default();
    for (s, step) in problem.steps().iter().enumerate() {
        let now = barriers.begin(step);
        for &(plane, bytes) in &parts[s] {
            let j = plane as usize;
            let wanted = Held::Configuration(step.configuration);
            let mut start = now.max(idle_since[j]);
            if held[j] == Held::Free {
                schedule.initial[j] = Some(step.configuration);
            } else if held[j] != wanted {
                let ready = idle_since[j] + planes.reconfiguration_ps;
                switches[j].push(Switch {
                    plane,
                    configuration: step.configuration,
                    start_ps: idle_since[j],
                    ready_ps: ready,
                });
                start = start.max(ready);
            }
            let end = start + planes.latency_ps + planes.rate_bps.time_for(bytes);
            schedule.uses.push(Use { step: s as u32, plane, bytes, start_ps: start, end_ps: end });
            held[j] = wanted;
            idle_since[j] = end;
            barriers.end(step, end);
        }
    }
    schedule.switches = switches.concat();
    schedule.completion_ps = barriers.ended();
    schedule
}

fn configuration(held: Held) -> Option<u32> {
    match held {
        Held::Configuration(c) => Some(c),
        Held::Dark | Held::Free => None,
    }
}

/// `volume` over these planes as evenly as bytes allow; no plane gets a part of nothing.
fn even(volume: Bytes, planes: impl ExactSizeIterator<Item = u32>) -> Vec<(u32, Bytes)> {
    let n = planes.len() as u64;
    let (share, more) = (volume.get() / n, volume.get() % n);
    (0..n)
        .zip(planes)
        .map(|(i, plane)| (plane, Bytes::new(share + u64::from(i < more))))
        .filter(|&(_, bytes)| bytes > Bytes::ZERO)
        .collect()
}

/// Every plane carries its share of every step, and all switch together between steps that need
/// different configurations (the paper's Strawman-ICR).
///
/// A plane that holds another configuration at the beginning switches first; the others wait for it
/// at the first step's end. Steps that may run together run one after the other. On a grid all planes of
/// a dimension switch together.
pub fn lockstep(problem: &Problem) -> Schedule {
    let mut schedule = Schedule {
        initial: problem.initial().iter().map(|&held| configuration(held)).collect(),
        ..Schedule::default()
    };
    let planes = problem.planes();
    let mut switches = vec![Vec::new(); problem.initial().len()];
    let mut held = problem.initial().to_vec();
    let mut barriers = Barriers::default();
    for (s, &step) in problem.steps().iter().enumerate() {
        let wanted = Held::Configuration(step.configuration);
        let now = barriers.begin(&Step { together: false, ..step });
        let mut starts = now;
        let own = problem.planes_of(step.dimension);
        for plane in own.clone() {
            let j = plane as usize;
            if held[j] == Held::Free {
                schedule.initial[j] = Some(step.configuration);
            } else if held[j] != wanted {
                let ready = now + planes.reconfiguration_ps;
                switches[j].push(Switch {
                    plane,
                    configuration: step.configuration,
                    start_ps: now,
                    ready_ps: ready,
                });
                starts = ready;
            }
            held[j] = wanted;
        }
        for (plane, bytes) in even(step.volume_bytes, own) {
            let end_ps = starts + planes.latency_ps + planes.rate_bps.time_for(bytes);
            schedule.uses.push(Use { step: s as u32, plane, bytes, start_ps: starts, end_ps });
            barriers.end(&step, end_ps);
        }
    }
    schedule.switches = switches.concat();
    schedule.completion_ps = barriers.ended();
    schedule
}

/// No configurations at all: each step takes `latency`, and its bytes at the node's whole rate, on a grid
/// at that of its dimension.
///
/// ```
/// # use lightloom_swot::{Held, Planes, Problem, Step, ideal};
/// # use lightloom_units::{BitRate, Bytes, Time};
/// let planes = Planes {
///     planes: 4,
///     rate_bps: BitRate::from_gbps(200),
///     reconfiguration_ps: Time::from_us(200),
///     latency_ps: Time::from_us(5),
/// };
/// let step = Step::new(0, Bytes::new(1_000_000) );
/// let problem = Problem::new(planes, vec![Held::Dark; 4], vec![step])?;
/// assert_eq!(ideal(&problem), Time::from_us(15));
/// # Ok::<(), lightloom_swot::ProblemError>(())
/// ```
pub fn ideal(problem: &Problem) -> Time {
    let rate = |planes| {
        let rate = u128::from(problem.planes().rate_bps.bps()) * u128::from(planes);
        BitRate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))
    };
    never_switching(problem, |volume, planes| rate(planes).time_for(volume))
}

/// Every step, or what begins together, on all planes of its dimension, which take so long for so many
/// bytes.
pub(crate) fn never_switching(problem: &Problem, takes: impl Fn(Bytes, u32) -> Time) -> Time {
    let mut barriers = Barriers::default();
    for group in problem.groups() {
        let planes = problem.planes_of(group[0].dimension).len() as u32;
        let volume = group.iter().map(|step| step.volume_bytes).sum();
        let start = barriers.begin(&group[0]);
        barriers.end(&group[0], start + problem.planes().latency_ps + takes(volume, planes));
    }
    barriers.ended()
}

/// More configurations than planes: no static choice of circuits serves every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one-shot needs {needed} planes, one a configuration; there are {planes}{}",
    .dimension.map_or_else(String::new, |d| format!(" in dimension {d}")))]
pub struct TooFewPlanes {
    /// Of a grid, where; the first is 0.
    pub dimension: Option<u32>,
    /// Configurations that the steps need.
    pub needed: u32,
    /// Planes there are.
    pub planes: u32,
}

/// Every plane keeps one configuration, chosen in advance and set for free, so that the whole takes
/// the least time; a step uses the planes that hold its own. Exact where steps have one
/// configuration, which then share nothing but the number of planes. Where steps run together, the
/// better of that and of planes added one by one to what they help most.
///
/// # Errors
/// [`TooFewPlanes`] if there are more configurations than planes.
pub fn one_shot(problem: &Problem) -> Result<Schedule, TooFewPlanes> {
    let lines = problem.lines();
    if lines.is_empty() {
        let (held, parts) = preset(problem)?;
        return Ok(earliest(&problem.holding(held), &parts));
    }
    let mut held = problem.initial().to_vec();
    let mut parts = Vec::with_capacity(lines.len());
    for line in &lines {
        let dimension = Some(problem.steps()[line.steps[0]].dimension);
        let few = |few| TooFewPlanes { dimension, ..few };
        let (own, of_line) = preset(&line.problem).map_err(few)?;
        held.splice(line.planes.start as usize..line.planes.end as usize, own);
        parts.push(of_line);
    }
    Ok(earliest(&problem.holding(held), &gathered(problem, &lines, parts)))
}

/// What each plane holds, and what it carries.
fn preset(problem: &Problem) -> Result<(Vec<Held>, Parts), TooFewPlanes> {
    let (distinct, counts) = standing(problem)?;
    let held = distinct.iter().zip(&counts).flat_map(|(&c, &n)| std::iter::repeat_n(c, n));
    let held: Vec<Held> = held.map(Held::Configuration).collect();
    let parts = standing_parts(problem.steps(), &held);
    Ok((held, parts))
}

/// The parts of the dimensions of a grid, each by itself, as those of the whole.
pub(crate) fn gathered(problem: &Problem, lines: &[Line], parts: Vec<Parts>) -> Parts {
    let mut all = vec![Vec::new(); problem.steps().len()];
    for (line, parts) in lines.iter().zip(parts) {
        for (&s, of_step) in line.steps.iter().zip(parts) {
            all[s] = of_step.into_iter().map(|(j, bytes)| (line.planes.start + j, bytes)).collect();
        }
    }
    all
}

/// Planes are set when a stretch of steps begins, as one-shot would set them for it, and stay so until
/// it ends. A stretch is as long as it has so many configurations at most: the best number stands. A
/// plane that holds one of them already, or may hold anything, keeps it. None if there are too few
/// planes for a step.
pub(crate) fn by_stretches(problem: &Problem) -> Option<Schedule> {
    let most = problem.planes().planes as usize;
    let tried =
        (1..=most.min(configurations(problem.steps()).len())).filter_map(|n| stretches(problem, n));
    tried.min_by_key(|schedule| schedule.completion_ps)
}

fn stretches(problem: &Problem, most: usize) -> Option<Schedule> {
    let mut stretches: Vec<Vec<Step>> = Vec::new();
    let mut needed = BTreeSet::new();
    for group in problem.groups() {
        let own = configurations(group);
        needed.extend(&own);
        match stretches.last_mut().filter(|_| needed.len() <= most) {
            Some(last) => last.extend(group),
            None => {
                stretches.push(group.to_vec());
                needed = own;
            }
        }
    }
    let mut held = problem.initial().to_vec();
    let mut parts = Parts::new();
    for steps in stretches {
        let stretch = Problem::new(problem.planes(), held.clone(), steps).expect("a part of one");
        let (distinct, mut counts) = standing(&stretch).ok()?;
        let mut kept = vec![false; held.len()];
        for (held, kept) in held.iter().zip(&mut kept) {
            let own = |&at: &usize| counts[at] > 0 && *held == Held::Configuration(distinct[at]);
            if let Some(at) = (0..counts.len()).find(own) {
                counts[at] -= 1;
                *kept = true;
            }
        }
        let set = distinct.iter().zip(&counts).flat_map(|(&c, &n)| std::iter::repeat_n(c, n));
        let others = held.iter_mut().zip(&kept).filter(|(_, kept)| !**kept);
        others.zip(set).for_each(|((held, _), c)| *held = Held::Configuration(c));
        parts.extend(standing_parts(stretch.steps(), &held));
    }
    Some(earliest(problem, &parts))
}

/// The configurations that these steps need.
fn configurations(steps: &[Step]) -> BTreeSet<u32> {
    steps.iter().map(|step| step.configuration).collect()
}

/// The parts of planes that keep what they hold.
fn standing_parts(steps: &[Step], held: &[Held]) -> Parts {
    let part = |step: &Step| {
        let wanted = Held::Configuration(step.configuration);
        let own = (0..).zip(held).filter(|(_, held)| **held == wanted);
        let own: Vec<u32> = own.map(|(plane, _)| plane).collect();
        even(step.volume_bytes, own.into_iter())
    };
    steps.iter().map(part).collect()
}

/// The configurations, and on how many planes each stands for the least time.
fn standing(problem: &Problem) -> Result<(Vec<u32>, Vec<usize>), TooFewPlanes> {
    let mut distinct: Vec<u32> = problem.steps().iter().map(|s| s.configuration).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let (k, needed) = (problem.planes().planes, distinct.len());
    if needed > k as usize {
        return Err(TooFewPlanes { dimension: None, needed: needed as u32, planes: k });
    }
    let mut counts = least_sum(problem, &distinct);
    if problem.grouped() {
        let other = one_by_one(problem, &distinct);
        if takes(problem, &distinct, &other) < takes(problem, &distinct, &counts) {
            counts = other;
        }
    }
    Ok((distinct, counts))
}

/// How long a step takes on so many planes.
fn on_planes(problem: &Problem, step: &Step, n: usize) -> Time {
    let planes = problem.planes();
    let most = Bytes::new(step.volume_bytes.get().div_ceil(n as u64));
    planes.latency_ps + planes.rate_bps.time_for(most)
}

/// How long the whole takes where each configuration has so many planes.
fn takes(problem: &Problem, distinct: &[u32], counts: &[usize]) -> Time {
    let group = |group: &[Step]| {
        let mut taken = vec![Time::ZERO; counts.len()];
        for step in group {
            let at = distinct.binary_search(&step.configuration).expect("it is listed");
            taken[at] += on_planes(problem, step, counts[at]);
        }
        taken.into_iter().max().unwrap_or(Time::ZERO)
    };
    problem.groups().map(group).sum()
}

/// Planes added one by one, each to the configuration that then saves most, of those alike to the one
/// whose planes have most to do.
fn one_by_one(problem: &Problem, distinct: &[u32]) -> Vec<usize> {
    let mut counts = vec![1; distinct.len()];
    for _ in distinct.len()..problem.planes().planes as usize {
        let with = |at: usize| {
            let own = problem.steps().iter().filter(|step| step.configuration == distinct[at]);
            let before: Time = own.map(|step| on_planes(problem, step, counts[at])).sum();
            let mut counts = counts.clone();
            counts[at] += 1;
            (takes(problem, distinct, &counts), Reverse(before))
        };
        let best = (0..distinct.len()).min_by_key(|&at| with(at)).expect("there is a step");
        counts[best] += 1;
    }
    counts
}

/// The least sum over all steps, one after the other.
fn least_sum(problem: &Problem, distinct: &[u32]) -> Vec<usize> {
    let (k, needed) = (problem.planes().planes as usize, distinct.len());
    let place = |c: u32| distinct.binary_search(&c).expect("every configuration is listed");
    // cost[c][n - 1]: all steps of c on n planes.
    let mut cost = vec![vec![Time::ZERO; k]; needed];
    for step in problem.steps() {
        for (n, cost) in (1..).zip(&mut cost[place(step.configuration)]) {
            *cost += on_planes(problem, step, n);
        }
    }
    // best[n]: the first configurations on n planes, and how many the last of them has.
    let mut best: Vec<Option<Time>> = vec![None; k + 1];
    best[0] = Some(Time::ZERO);
    let mut chosen = vec![vec![0; k + 1]; needed];
    for (c, cost) in cost.iter().enumerate() {
        let before = std::mem::replace(&mut best, vec![None; k + 1]);
        for n in 1..=k {
            for own in 1..=n {
                let Some(time) = before[n - own].map(|t| t + cost[own - 1]) else { continue };
                if best[n].is_none_or(|t| time < t) {
                    best[n] = Some(time);
                    chosen[c][n] = own;
                }
            }
        }
    }
    let mut counts = vec![0; needed];
    let mut left = k;
    for c in (0..needed).rev() {
        counts[c] = chosen[c][left];
        left -= counts[c];
    }
    counts
}
