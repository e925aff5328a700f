//! The schedulers that SWOT is compared with: one-shot, lockstep, ideal (SWOT, Sections 2.2 and 4.1).
//!
//! And [`earliest`], which every scheduler ends in: once it is known which plane carries how many
//! bytes of each step, starting everything as early as it can be is best.

use crate::problem::{Held, Problem, Schedule, Switch, Use};
use lightloom_units::{BitRate, Bytes, Time};

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
    let mut now = Time::ZERO;
    for (s, step) in problem.steps().iter().enumerate() {
        let mut step_ends = now;
        for &(plane, bytes) in &parts[s] {
            let j = plane as usize;
            let wanted = Held::Configuration(step.configuration);
            let mut start = now;
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
            step_ends = step_ends.max(end);
        }
        now = step_ends;
    }
    schedule.switches = switches.concat();
    schedule.completion_ps = now;
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
/// at the first step's end.
pub fn lockstep(problem: &Problem) -> Schedule {
    let k = problem.planes().planes;
    let mut schedule = Schedule {
        initial: problem.initial().iter().map(|&held| configuration(held)).collect(),
        ..Schedule::default()
    };
    let planes = problem.planes();
    let mut switches = vec![Vec::new(); k as usize];
    let mut held = problem.initial().to_vec();
    let mut now = Time::ZERO;
    for (s, step) in problem.steps().iter().enumerate() {
        let wanted = Held::Configuration(step.configuration);
        let mut starts = now;
        for (j, held) in held.iter_mut().enumerate() {
            if *held == Held::Free {
                schedule.initial[j] = Some(step.configuration);
            } else if *held != wanted {
                let ready = now + planes.reconfiguration_ps;
                switches[j].push(Switch {
                    plane: j as u32,
                    configuration: step.configuration,
                    start_ps: now,
                    ready_ps: ready,
                });
                starts = ready;
            }
            *held = wanted;
        }
        now = starts;
        for (plane, bytes) in even(step.volume_bytes, 0..k) {
            let end_ps = starts + planes.latency_ps + planes.rate_bps.time_for(bytes);
            let step = s as u32;
            schedule.uses.push(Use { step, plane, bytes, start_ps: starts, end_ps });
            now = now.max(end_ps);
        }
    }
    schedule.switches = switches.concat();
    schedule.completion_ps = now;
    schedule
}

/// No configurations at all: each step takes `latency`, and its bytes at the node's whole rate.
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
/// let step = Step { configuration: 0, volume_bytes: Bytes::new(1_000_000) };
/// let problem = Problem::new(planes, vec![Held::Dark; 4], vec![step])?;
/// assert_eq!(ideal(&problem), Time::from_us(15));
/// # Ok::<(), lightloom_swot::ProblemError>(())
/// ```
pub fn ideal(problem: &Problem) -> Time {
    let planes = problem.planes();
    let rate = u128::from(planes.rate_bps.bps()) * u128::from(planes.planes);
    let whole = BitRate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX));
    problem.steps().iter().map(|s| planes.latency_ps + whole.time_for(s.volume_bytes)).sum()
}

/// More configurations than planes: no static choice of circuits serves every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one-shot needs {needed} planes, one a configuration; there are {planes}")]
pub struct TooFewPlanes {
    /// Configurations that the steps need.
    pub needed: u32,
    /// Planes there are.
    pub planes: u32,
}

/// Every plane keeps one configuration, chosen in advance and set for free, so that the whole takes
/// the least time; a step uses the planes that hold its own. Exact: configurations share nothing but
/// the number of planes.
///
/// # Errors
/// [`TooFewPlanes`] if there are more configurations than planes.
pub fn one_shot(problem: &Problem) -> Result<Schedule, TooFewPlanes> {
    let planes = problem.planes();
    let mut distinct: Vec<u32> = problem.steps().iter().map(|s| s.configuration).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let (k, needed) = (planes.planes as usize, distinct.len());
    if needed > k {
        return Err(TooFewPlanes { needed: needed as u32, planes: planes.planes });
    }
    let place = |c: u32| distinct.binary_search(&c).expect("every configuration is listed");
    // cost[c][n - 1]: all steps of c on n planes.
    let mut cost = vec![vec![Time::ZERO; k]; needed];
    for step in problem.steps() {
        for (n, cost) in (1..).zip(&mut cost[place(step.configuration)]) {
            let most = Bytes::new(step.volume_bytes.get().div_ceil(n));
            *cost += planes.latency_ps + planes.rate_bps.time_for(most);
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
    let mut first = vec![0u32; needed + 1];
    let mut initial = Vec::with_capacity(k);
    for c in 0..needed {
        first[c + 1] = first[c] + counts[c] as u32;
        initial.extend(std::iter::repeat_n(Held::Configuration(distinct[c]), counts[c]));
    }
    let parts = problem
        .steps()
        .iter()
        .map(|step| {
            let c = place(step.configuration);
            even(step.volume_bytes, first[c]..first[c + 1])
        })
        .collect();
    let preset = Problem::new(planes, initial, problem.steps().to_vec())
        .expect("only the initial state differs from a problem that was checked");
    Ok(earliest(&preset, &parts))
}
