//! An independent replay of a schedule: is it one of the problem, and when does it complete.
//!
//! It knows nothing of how schedules are found. Checked are the precedence of switching and sending
//! (SWOT's P1), the serial use of a plane (P2), the barrier between steps (P3), volumes, durations,
//! and what each plane held at the beginning. Times are added with care: a schedule that overflows
//! its clock is refused, never wrapped.
//!
//! Checked: by every kind of corruption of valid schedules; each is named.

use crate::problem::{Held, Problem, Schedule, Step, Switch, Use};
use lightloom_units::Time;
use std::collections::HashMap;

/// Why a schedule is none of its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The initial state is of some other number of planes.
    #[error("the schedule names {0} initial planes, the problem has {1}")]
    InitialPlanes(usize, u32),
    /// The initial state is not the problem's.
    #[error("plane {0} holds something other at the beginning than the problem says")]
    Initial(u32),
    /// A plane that there is not.
    #[error("there is no plane {0}")]
    Plane(u32),
    /// A step that there is not.
    #[error("there is no step {0}")]
    Step(u32),
    /// A part of nothing.
    #[error("step {step} sends 0 bytes on plane {plane}")]
    Empty {
        /// Index of the step, from 0.
        step: u32,
        /// Index of the plane, from 0.
        plane: u32,
    },
    /// A transmission that takes another time than latency and bytes at the plane's rate.
    #[error("step {step} on plane {plane}: starts at {start}, must end at {must}, ends at {end}")]
    Duration {
        /// Index of the step, from 0.
        step: u32,
        /// Index of the plane, from 0.
        plane: u32,
        /// When it starts, from the plan's beginning.
        start: Time,
        /// When it has to end.
        must: Time,
        /// When it is said to end.
        end: Time,
    },
    /// A switch that takes another time than a reconfiguration.
    #[error("plane {plane} switches at {start}, must be ready at {must}, not at {ready}")]
    Dark {
        /// Index of the plane, from 0.
        plane: u32,
        /// When it goes dark.
        start: Time,
        /// When it has to be ready.
        must: Time,
        /// When it is said to be ready.
        ready: Time,
    },
    /// A time beyond what the clock holds.
    #[error("plane {plane}: what starts at {start} ends beyond 2^64 ps")]
    Overflow {
        /// Index of the plane, from 0.
        plane: u32,
        /// When it starts, from the schedule's beginning.
        start: Time,
    },
    /// Two things at once on a plane (P2).
    #[error("plane {plane}: something starts at {start}, before what is there ends at {busy}")]
    Busy {
        /// Index of the plane, from 0.
        plane: u32,
        /// The second one's start.
        start: Time,
        /// The first one's end.
        busy: Time,
    },
    /// A step sends on a plane that does not hold its configuration (P1).
    #[error(
        "step {step} starts at {start} on plane {plane}, which does not hold configuration {configuration}"
    )]
    Configuration {
        /// Index of the step, from 0.
        step: u32,
        /// Index of the plane, from 0.
        plane: u32,
        /// When it starts, from the plan's beginning.
        start: Time,
        /// What the step needs.
        configuration: u32,
    },
    /// A step on a plane of another dimension.
    #[error("step {step} is in dimension {dimension}, which plane {plane} does not serve")]
    Dimension {
        /// Index of the step, from 0.
        step: u32,
        /// Index of the plane, from 0.
        plane: u32,
        /// The dimension of the step.
        dimension: u32,
    },
    /// A step starts before all before it have ended (P3).
    #[error(
        "step {step} starts at {start} on plane {plane}, before the step before ends at {barrier}"
    )]
    Barrier {
        /// Index of the step, from 0.
        step: u32,
        /// Index of the plane, from 0.
        plane: u32,
        /// When it starts, from the plan's beginning.
        start: Time,
        /// When the step before has ended.
        barrier: Time,
    },
    /// The parts of a step are not the whole.
    #[error("step {step} sends {sent} bytes of {volume}")]
    Volume {
        /// Index of the step, from 0.
        step: u32,
        /// The sum of its parts.
        sent: u128,
        /// What it must send.
        volume: u64,
    },
    /// The completion is not the end of the last transmission.
    #[error("the last transmission ends at {must}, the schedule says {completion}")]
    Completion {
        /// When the last transmission ends.
        must: Time,
        /// What is said.
        completion: Time,
    },
}

/// Replays `schedule`; when it completes.
///
/// One-shot sets its planes in advance, for free: replay it against the problem with every plane
/// [`Held::Free`].
///
/// ```
/// use lightloom_swot::{Held, Planes, Problem, Step, Violation, lockstep, replay};
/// use lightloom_units::{BitRate, Bytes, Time};
/// let planes = Planes {
///     planes: 2,
///     rate_bps: BitRate::from_gbps(400),
///     reconfiguration_ps: Time::from_us(200),
///     latency_ps: Time::ZERO,
/// };
/// let steps = [(0, 20), (1, 10)]
///     .map(|(configuration, mb)| Step::new(configuration, Bytes::new(mb * 1_000_000) ));
/// let problem = Problem::new(planes, vec![Held::Configuration(0); 2], steps.to_vec())?;
/// let mut schedule = lockstep(&problem);
/// assert_eq!(replay(&problem, &schedule), Ok(Time::from_us(500)));
/// schedule.switches.pop();
/// assert!(matches!(replay(&problem, &schedule), Err(Violation::Configuration { plane: 1, .. })));
/// # Ok::<(), lightloom_swot::ProblemError>(())
/// ```
///
/// # Errors
/// [`Violation`]: the first thing that is wrong.
pub fn replay(problem: &Problem, schedule: &Schedule) -> Result<Time, Violation> {
    let k = problem.planes().planes as usize;
    if schedule.initial.len() != k {
        return Err(Violation::InitialPlanes(schedule.initial.len(), k as u32));
    }
    for (plane, (held, said)) in problem.initial().iter().zip(&schedule.initial).enumerate() {
        let same = match held {
            Held::Configuration(c) => *said == Some(*c),
            Held::Dark => said.is_none(),
            Held::Free => true,
        };
        if !same {
            return Err(Violation::Initial(plane as u32));
        }
    }
    let mut tracks: Vec<Vec<TrackEntry<'_>>> = vec![Vec::new(); k];
    for switch in &schedule.switches {
        let track = tracks.get_mut(switch.plane as usize).ok_or(Violation::Plane(switch.plane))?;
        track.push(TrackEntry::Switch(switch));
    }
    for part in &schedule.uses {
        if part.step as usize >= problem.steps().len() {
            return Err(Violation::Step(part.step));
        }
        let track = tracks.get_mut(part.plane as usize).ok_or(Violation::Plane(part.plane))?;
        track.push(TrackEntry::Use(part));
    }
    for (track, &initial) in tracks.iter_mut().zip(&schedule.initial) {
        // Where switching takes no time, it comes before what it is for.
        track.sort_by_key(|event| (event.start(), matches!(event, TrackEntry::Use(_))));
        plane(problem, initial, track)?;
    }
    let ends = volumes(problem, schedule)?;
    let barriers = barriers(problem.steps(), &ends);
    for part in &schedule.uses {
        let barrier = barriers[part.step as usize];
        if part.start_ps < barrier {
            let &Use { step, plane, start_ps: start, .. } = part;
            return Err(Violation::Barrier { step, plane, start, barrier });
        }
    }
    let must = ends.into_iter().max().unwrap_or(Time::ZERO);
    if schedule.completion_ps != must {
        return Err(Violation::Completion { must, completion: schedule.completion_ps });
    }
    Ok(must)
}

#[derive(Clone, Copy)]
enum TrackEntry<'a> {
    Switch(&'a Switch),
    Use(&'a Use),
}

impl TrackEntry<'_> {
    fn start(&self) -> Time {
        match self {
            TrackEntry::Switch(switch) => switch.start_ps,
            TrackEntry::Use(part) => part.start_ps,
        }
    }
}

fn plus(plane: u32, start: Time, spans: [Time; 2]) -> Result<Time, Violation> {
    let sum = spans.iter().try_fold(start.ps(), |sum, span| sum.checked_add(span.ps()));
    sum.map(Time::from_ps).ok_or(Violation::Overflow { plane, start })
}

/// What one plane does, in the order of time.
fn plane(
    problem: &Problem,
    initial: Option<u32>,
    track: &[TrackEntry<'_>],
) -> Result<(), Violation> {
    let planes = problem.planes();
    let (mut held, mut busy) = (initial, Time::ZERO);
    for event in track {
        let start = event.start();
        let (plane, end) = match event {
            TrackEntry::Switch(switch) => {
                let must = plus(switch.plane, start, [planes.reconfiguration_ps, Time::ZERO])?;
                let &Switch { plane, ready_ps: ready, .. } = *switch;
                if ready != must {
                    return Err(Violation::Dark { plane, start, must, ready });
                }
                held = Some(switch.configuration);
                (plane, ready)
            }
            TrackEntry::Use(part) => {
                let &Use { step, plane, bytes, end_ps: end, .. } = *part;
                if bytes.get() == 0 {
                    return Err(Violation::Empty { step, plane });
                }
                let must =
                    plus(plane, start, [planes.latency_ps, planes.rate_bps.time_for(bytes)])?;
                if end != must {
                    return Err(Violation::Duration { step, plane, start, must, end });
                }
                let Step { configuration, dimension, .. } = problem.steps()[step as usize];
                if !problem.planes_of(dimension).contains(&plane) {
                    return Err(Violation::Dimension { step, plane, dimension });
                }
                if held != Some(configuration) {
                    return Err(Violation::Configuration { step, plane, start, configuration });
                }
                (plane, end)
            }
        };
        if start < busy {
            return Err(Violation::Busy { plane, start, busy });
        }
        busy = end;
    }
    Ok(())
}

/// When each step has ended; every step must have sent what it has to.
fn volumes(problem: &Problem, schedule: &Schedule) -> Result<Vec<Time>, Violation> {
    let steps = problem.steps();
    let (mut sent, mut ends) = (vec![0u128; steps.len()], vec![Time::ZERO; steps.len()]);
    for part in &schedule.uses {
        let s = part.step as usize;
        sent[s] += u128::from(part.bytes.get());
        ends[s] = ends[s].max(part.end_ps);
    }
    for (s, (step, &sent)) in steps.iter().zip(&sent).enumerate() {
        let volume = step.volume_bytes.get();
        if sent != u128::from(volume) {
            return Err(Violation::Volume { step: s as u32, sent, volume });
        }
    }
    Ok(ends)
}

/// What each step waits for: all before it in its dimension or of its part, but those that begin with it.
fn barriers(steps: &[Step], ends: &[Time]) -> Vec<Time> {
    let mut before: HashMap<(&str, u32), Time> = HashMap::new();
    let mut barriers: Vec<Time> = Vec::with_capacity(steps.len());
    for (step, &end) in steps.iter().zip(ends) {
        let keys = [("dimension", step.dimension), ("part", step.part)];
        let ended = |key| before.get(key).copied().unwrap_or(Time::ZERO);
        let own = keys.iter().map(ended).max().expect("there are two");
        barriers.push(if step.together { barriers.last().copied().unwrap_or(own) } else { own });
        for key in keys {
            let last = before.entry(key).or_insert(Time::ZERO);
            *last = end.max(*last);
        }
    }
    barriers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Planes;
    use crate::simple::{Parts, earliest, lockstep, one_shot};
    use lightloom_units::{BitRate, Bytes};
    use proptest::prelude::*;

    fn held(pick: u8) -> Held {
        match pick {
            0 => Held::Dark,
            1 => Held::Free,
            c => Held::Configuration(u32::from(c) - 2),
        }
    }

    prop_compose! {
        /// A small problem, and how its volumes are cut.
        fn problems()(
            k in 1usize..=4,
            steps in prop::collection::vec((0u32..4, 1u64..3_000_000, any::<bool>()), 1..8),
            initial in prop::collection::vec(0u8..6, 4),
            (dark, latency) in (0u64..300_000_000, 0u64..2_000_000),
            cuts in prop::collection::vec(prop::collection::vec(0u64..4, 4), 8),
        ) -> (Problem, Parts) {
            let planes = Planes {
                planes: k as u32,
                rate_bps: BitRate::from_bps(100_000_000_007),
                reconfiguration_ps: Time::from_ps(dark),
                latency_ps: Time::from_ps(latency),
            };
            let initial = initial[..k].iter().map(|&pick| held(pick)).collect();
            let mut steps: Vec<Step> = steps
                .iter()
                .map(|&(configuration, bytes, together)| Step {
                    together, ..Step::new(configuration, Bytes::new(bytes))
                })
                .collect();
            steps[0].together = false;
            let parts = steps
                .iter()
                .zip(&cuts)
                .map(|(step, cuts)| cut(step.volume_bytes.get(), &cuts[..k]))
                .collect();
            (Problem::new(planes, initial, steps).expect("a small problem is one"), parts)
        }
    }

    /// `volume` in about these proportions; whatever is left goes to the first plane.
    fn cut(volume: u64, weights: &[u64]) -> Vec<(u32, Bytes)> {
        let sum = weights.iter().sum::<u64>().max(1);
        let mut shares: Vec<u64> = weights.iter().map(|w| volume * w / sum).collect();
        shares[0] += volume - shares.iter().sum::<u64>();
        (0..).zip(shares).filter(|s| s.1 > 0).map(|(j, b)| (j, Bytes::new(b))).collect()
    }

    fn shifted(time: &mut Time, by: i64) {
        *time = Time::from_ps(time.ps().wrapping_add_signed(by));
    }

    proptest! {
        #[test]
        fn what_schedulers_make_is_valid((problem, parts) in problems()) {
            let schedule = earliest(&problem, &parts);
            prop_assert_eq!(replay(&problem, &schedule), Ok(schedule.completion_ps));
            let schedule = lockstep(&problem);
            prop_assert_eq!(replay(&problem, &schedule), Ok(schedule.completion_ps));
            if let Ok(schedule) = one_shot(&problem) {
                let free = vec![Held::Free; problem.initial().len()];
                let preset = Problem::new(problem.planes(), free, problem.steps().to_vec())
                    .expect("as the problem");
                prop_assert_eq!(replay(&preset, &schedule), Ok(schedule.completion_ps));
            }
        }

        /// Everything that can be wrong with a part or a switch is found, wherever it is.
        #[test]
        fn no_corruption_is_missed(
            (problem, parts) in problems(), kind in 0usize..14, at in any::<prop::sample::Index>(),
            by in prop_oneof![Just(-1i64), Just(1), Just(i64::MAX), -50_000_000i64..50_000_000],
        ) {
            prop_assume!(by != 0);
            let good = earliest(&problem, &parts);
            let mut bad = good.clone();
            let part = at.index(bad.uses.len());
            let switch = (!bad.switches.is_empty()).then(|| at.index(bad.switches.len()));
            match (kind, switch) {
                (0, _) => shifted(&mut bad.uses[part].end_ps, by),
                (1, _) => shifted(&mut bad.uses[part].start_ps, by),
                (2, _) => bad.uses[part].bytes += Bytes::new(1),
                (3, _) => bad.uses[part].bytes = Bytes::ZERO,
                (4, _) => bad.uses[part].plane = problem.planes().planes,
                (5, _) => bad.uses[part].step = problem.steps().len() as u32,
                (6, _) => drop(bad.uses.remove(part)),
                (7, _) => bad.uses.push(good.uses[part]),
                (8, _) => shifted(&mut bad.completion_ps, by),
                (9, _) => drop(bad.initial.pop()),
                (10, Some(s)) => shifted(&mut bad.switches[s].ready_ps, by),
                (11, Some(s)) => bad.switches[s].configuration += 100,
                (12, Some(s)) => drop(bad.switches.remove(s)),
                (13, Some(s)) => bad.switches[s].plane = u32::MAX,
                _ => return Ok(()),
            }
            prop_assert!(replay(&problem, &bad).is_err(), "{:?}", bad);
        }

        /// Starting both ends of a part a picosecond sooner breaks what `earliest` waited for.
        #[test]
        fn nothing_can_start_sooner((problem, parts) in problems(), at in any::<prop::sample::Index>()) {
            let mut bad = earliest(&problem, &parts);
            let part = at.index(bad.uses.len());
            let part = &mut bad.uses[part];
            prop_assume!(part.start_ps > Time::ZERO);
            shifted(&mut part.start_ps, -1);
            shifted(&mut part.end_ps, -1);
            let found = replay(&problem, &bad);
            prop_assert!(
                matches!(
                    found,
                    Err(Violation::Busy { .. } | Violation::Barrier { .. } | Violation::Completion { .. })
                        | Err(Violation::Configuration { .. })
                ),
                "{:?}", found
            );
        }
    }

    fn two_steps() -> (Problem, Schedule) {
        let planes = Planes {
            planes: 2,
            rate_bps: BitRate::from_gbps(400),
            reconfiguration_ps: Time::from_us(200),
            latency_ps: Time::ZERO,
        };
        let steps = [(0, 20), (1, 10)]
            .map(|(configuration, mb)| Step::new(configuration, Bytes::new(mb * 1_000_000)));
        let initial = vec![Held::Configuration(0); 2];
        let problem = Problem::new(planes, initial, steps.to_vec()).expect("a problem");
        let schedule = lockstep(&problem);
        (problem, schedule)
    }

    #[test]
    fn each_violation_says_what_where_and_when() {
        type Corrupt = fn(&mut Schedule);
        let cases: [(Corrupt, &str); 10] = [
            (
                |s| s.initial[1] = None,
                "plane 1 holds something other at the beginning than the problem says",
            ),
            (|s| s.uses[0].plane = 7, "there is no plane 7"),
            (|s| s.uses[0].step = 2, "there is no step 2"),
            (|s| s.uses[3].bytes = Bytes::ZERO, "step 1 sends 0 bytes on plane 1"),
            (
                |s| s.uses[0].end_ps = Time::from_us(1),
                "step 0 on plane 0: starts at 0 ps, must end at 200 us, ends at 1 us",
            ),
            (
                |s| s.switches[1].ready_ps = Time::ZERO,
                "plane 1 switches at 200 us, must be ready at 400 us, not at 0 ps",
            ),
            (
                |s| s.uses[2].start_ps = Time::MAX,
                "plane 0: what starts at 18446744073709551.615 ns ends beyond 2^64 ps",
            ),
            (
                |s| s.switches = s.switches[1..].to_vec(),
                "step 1 starts at 400 us on plane 0, which does not hold configuration 1",
            ),
            (|s| s.uses.truncate(3), "step 1 sends 5000000 bytes of 10000000"),
            (
                |s| s.completion_ps = Time::ZERO,
                "the last transmission ends at 500 us, the schedule says 0 ps",
            ),
        ];
        for (corrupt, message) in cases {
            let (problem, mut schedule) = two_steps();
            corrupt(&mut schedule);
            let found = replay(&problem, &schedule).expect_err(message);
            assert_eq!(found.to_string(), message);
        }
    }

    /// A plane that carries no part of a step must still wait for the others to end it.
    #[test]
    fn the_barrier_is_over_all_planes() {
        let (problem, _) = two_steps();
        let all = |plane, mb: u64| vec![(plane, Bytes::new(mb * 1_000_000))];
        let mut schedule = earliest(&problem, &vec![all(0, 20), all(1, 10)]);
        let last = &mut schedule.uses[1];
        assert_eq!(last.start_ps, Time::from_us(400));
        (last.start_ps, last.end_ps) = (Time::from_us(200), Time::from_us(400));
        schedule.completion_ps = Time::from_us(400);
        let found = replay(&problem, &schedule).expect_err("too soon");
        assert_eq!(
            found.to_string(),
            "step 1 starts at 200 us on plane 1, before the step before ends at 400 us"
        );
    }
}
