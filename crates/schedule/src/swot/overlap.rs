//! The SWOT scheduler: a beam over steps, a linear program on the patterns it finds, and a hill climb.
//!
//! Exact methods stall: the model has 2^(k S) patterns, and mixed-integer solvers end above lockstep
//! on long collectives. Here a beam ([`beam`](super::beam)) proposes patterns, an interior point
//! ([`pattern`](super::pattern)) times them to the optimum, and short collectives are improved
//! by changing one use at a time. The answer is the best of all of these, of lockstep, and of what
//! is widened while the work (counted, never clocked) lasts; so one problem has one answer.
//!
//! Checked: exhaustively on small instances, against the mixed-integer program (HiGHS) on larger
//! ones, and every schedule by `replay`.

use super::beam::{Width, patterns};
use super::pattern::{Pattern, Scaled, Solver, planes_of};
use super::{Parts, Problem, Schedule, Solution, earliest, ideal, lockstep};
use std::collections::HashSet;

/// Beams, each wider than the one before.
const WIDTHS: [Width; 3] = [
    Width { states: 60, leaves: 1, halves: false },
    Width { states: 300, leaves: 2, halves: true },
    Width { states: 1500, leaves: 3, halves: true },
];
/// Beyond this many expansions a beam is narrowed.
const EXPANSIONS: usize = 2_000_000;
/// Steps up to which patterns are climbed.
const CLIMBED: usize = 40;
/// Programs solved in climbing, times steps times planes.
const CLIMBING: usize = 60_000;

/// The best schedule found, and a proven bound.
///
/// ```
/// use lightloom_schedule::swot::{Held, Planes, Problem, Step, overlap};
/// use lightloom_units::{BitRate, Bytes, Time};
/// let planes = Planes {
///     planes: 2,
///     rate_bps: BitRate::from_gbps(400),
///     reconfiguration_ps: Time::from_us(200),
///     latency_ps: Time::ZERO,
/// };
/// let steps = [(0, 20), (1, 10), (2, 5), (2, 5), (1, 10), (0, 20)]
///     .map(|(configuration, mb)| Step { configuration, volume_bytes: Bytes::new(mb * 1_000_000) });
/// let problem = Problem::new(planes, vec![Held::Configuration(0); 2], steps.to_vec())?;
/// // SWOT, Section 3.1; lockstep takes 1500 us.
/// assert_eq!(overlap(&problem).schedule.completion_ps, Time::from_us(1200));
/// # Ok::<(), lightloom_schedule::swot::ProblemError>(())
/// ```
pub fn overlap(problem: &Problem) -> Solution {
    let mut best = lockstep(problem);
    let bound_ps = ideal(problem);
    if best.completion_ps > bound_ps {
        let scaled = Scaled::new(problem);
        let mut search = Search {
            problem,
            scaled: &scaled,
            solver: Solver::default(),
            seen: HashSet::new(),
            best: Found {
                completion: best.completion_ps.ps() as f64 / scaled.unit_ps,
                parts: None,
            },
        };
        search.run();
        if let Some(parts) = search.best.parts {
            let found: Schedule = earliest(problem, &parts);
            if found.completion_ps < best.completion_ps {
                best = found;
            }
        }
    }
    Solution { schedule: best, bound_ps }
}

struct Found {
    completion: f64,
    parts: Option<Parts>,
}

struct Search<'a> {
    problem: &'a Problem,
    scaled: &'a Scaled,
    solver: Solver,
    seen: HashSet<Pattern>,
    best: Found,
}

fn lockstep_pattern(scaled: &Scaled) -> Pattern {
    vec![u64::MAX >> (64 - scaled.k); scaled.steps()]
}

impl Search<'_> {
    fn run(&mut self) {
        let n = self.scaled.steps();
        self.try_pattern(lockstep_pattern(self.scaled));
        let branches = if self.scaled.k <= 8 { 1 << self.scaled.k } else { self.scaled.k.pow(2) };
        let mut starts: Vec<(f64, Pattern)> = Vec::new();
        for width in WIDTHS {
            let vectors = ((width.leaves + 1) * (width.leaves + 2) / 2) as usize;
            let a_state = n * branches * if width.halves { vectors } else { 2 };
            let states = width.states.min((EXPANSIONS / a_state).max(12));
            let most = (4_000 / n).clamp(4, 24);
            for pattern in patterns(self.scaled, Width { states, ..width }, most) {
                if let Some(time) = self.try_pattern(pattern.clone()) {
                    starts.push((time, pattern));
                }
            }
        }
        if n <= CLIMBED {
            starts.sort_by(|a, b| a.0.total_cmp(&b.0));
            starts.truncate(3);
            let mut left = CLIMBING / (n * self.scaled.k);
            for (time, pattern) in starts {
                self.climb(time, pattern, &mut left);
            }
        }
    }

    /// Times a pattern not seen before, unless it is certainly worse than the best by a fifth.
    fn try_pattern(&mut self, pattern: Pattern) -> Option<f64> {
        if !self.seen.insert(pattern.clone()) {
            return None;
        }
        let cutoff = self.best.completion * 1.05;
        self.timed(pattern, cutoff)
    }

    fn timed(&mut self, pattern: Pattern, cutoff: f64) -> Option<f64> {
        let timing = self.solver.time(self.scaled, &pattern, cutoff)?;
        if timing.completion < self.best.completion * (1.0 - 1e-9) {
            self.best =
                Found { completion: timing.completion, parts: Some(timing.parts(self.problem)) };
        }
        Some(timing.completion)
    }

    /// Changes one use, or moves one, as long as that helps.
    fn climb(&mut self, mut time: f64, mut pattern: Pattern, left: &mut usize) {
        let k = self.scaled.k;
        loop {
            let mut better: Option<(f64, Pattern)> = None;
            let mut neighbours = Vec::new();
            for s in 0..pattern.len() {
                for j in 0..k {
                    let mut flipped = pattern.clone();
                    flipped[s] ^= 1 << j;
                    if flipped[s] != 0 {
                        neighbours.push(flipped);
                    }
                    if pattern[s] >> j & 1 == 1 {
                        for i in planes_of(!pattern[s] & (u64::MAX >> (64 - k))) {
                            let mut moved = pattern.clone();
                            moved[s] ^= 1 << j | 1 << i;
                            neighbours.push(moved);
                        }
                    }
                }
            }
            for neighbour in neighbours {
                if *left == 0 {
                    break;
                }
                if !self.seen.insert(neighbour.clone()) {
                    continue;
                }
                *left -= 1;
                let cutoff = better.as_ref().map_or(time, |b| b.0);
                if let Some(found) = self.timed(neighbour.clone(), cutoff) {
                    if found < cutoff * (1.0 - 1e-9) {
                        better = Some((found, neighbour));
                    }
                }
            }
            match better {
                Some(found) => (time, pattern) = found,
                None => return,
            }
        }
    }
}
