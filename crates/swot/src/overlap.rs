//! The SWOT scheduler: a beam over steps, a linear program on the patterns it finds, and a hill climb.
//!
//! Exact methods stall: the model has 2^(k S) patterns, and mixed-integer solvers end above lockstep
//! on long collectives. Here a beam ([`beam`](super::beam)) proposes patterns, an interior point
//! ([`pattern`](super::pattern)) times them to the optimum, and short collectives are improved
//! by changing one use at a time. The answer is the best of these, of lockstep, and, where all planes
//! are set for free, of one-shot. Beams widen while the work, counted and never clocked, lasts; so one
//! problem has one answer.
//!
//! Checked: exhaustively on small instances, against the mixed-integer program (HiGHS) on larger
//! ones, and every schedule by `replay`.

use super::beam::{Width, patterns};
use super::exact::{prove, windows};
use super::pattern::{Pattern, Scaled, Solver, planes_of};
use crate::problem::{Held, Line, Problem, Schedule, Solution};
use crate::simple::{Parts, by_stretches, earliest, gathered, lockstep, never_switching, one_shot};
use lightloom_units::{Bytes, Time};
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
/// Steps up to which a proof is tried; beyond, windows bound.
const PROVEN: usize = 20;
/// Steps up to which merged arcs bound.
const BOUNDED: usize = 40;
/// Programs solved in climbing, times steps times planes.
const CLIMBING: usize = 60_000;

/// How long to search, in linear programs solved: no clock is read, so the answer never depends on
/// the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Schedules only; the bound is what planes need that never switch.
    Quick,
    /// Within a second on four planes, with a proof or a good bound.
    Normal,
    /// Within a minute or so.
    Thorough,
}

impl Effort {
    fn proving(self) -> usize {
        match self {
            Effort::Quick => 0,
            Effort::Normal => 16_000,
            Effort::Thorough => 600_000,
        }
    }

    /// The same where arcs are merged.
    fn merged(self) -> usize {
        match self {
            Effort::Quick => 0,
            Effort::Normal => 32_000,
            Effort::Thorough => 300_000,
        }
    }

    fn window(self, k: usize) -> usize {
        let longest = [12, 12, 11, 9, 8, 6, 6, 5, 5][k.min(8)];
        longest + usize::from(self == Effort::Thorough)
    }

    fn scale(self) -> usize {
        if self == Effort::Thorough { 8 } else { 1 }
    }
}

/// The best schedule found, and a proven bound.
///
/// A bound equal to the completion is a proof that no schedule is shorter, to 1e-8 of it (programs
/// are solved in floating point) and to a byte a step (parts are whole bytes).
///
/// ```
/// use lightloom_swot::{Effort, Held, Planes, Problem, Step, overlap};
/// use lightloom_units::{BitRate, Bytes, Time};
/// let planes = Planes {
///     planes: 2,
///     rate_bps: BitRate::from_gbps(400),
///     reconfiguration_ps: Time::from_us(200),
///     latency_ps: Time::ZERO,
/// };
/// let steps = [(0, 20), (1, 10), (2, 5), (2, 5), (1, 10), (0, 20)]
///     .map(|(configuration, mb)| Step::new(configuration, Bytes::new(mb * 1_000_000) ));
/// let problem = Problem::new(planes, vec![Held::Configuration(0); 2], steps.to_vec())?;
/// // SWOT, Section 3.1; lockstep takes 1500 us.
/// let found = overlap(&problem, Effort::Normal);
/// assert_eq!(found.schedule.completion_ps, Time::from_us(1200));
/// assert_eq!(found.bound_ps, Time::from_us(1200));
/// # Ok::<(), lightloom_swot::ProblemError>(())
/// ```
pub fn overlap(problem: &Problem, effort: Effort) -> Solution {
    let mut best = lockstep(problem);
    // Where every plane is set for free, so are those of one-shot.
    if problem.initial().iter().all(|held| *held == Held::Free)
        && let Ok(preset) = one_shot(problem)
        && preset.completion_ps < best.completion_ps
    {
        best = preset;
    }
    let bound_ps = unswitched(problem);
    if best.completion_ps <= bound_ps {
        return Solution { schedule: best, bound_ps };
    }
    let lines = problem.lines();
    if !lines.is_empty() {
        return by_dimensions(problem, &lines, effort, best, bound_ps);
    }
    let found = if problem.grouped() {
        // One configuration after another.
        Solution { schedule: overlap(&problem.apart(), Effort::Quick).schedule, bound_ps }
    } else {
        searched(problem, effort, best.clone(), bound_ps)
    };
    // Never above a simpler schedule, which may miss what a proof leaves to floating point.
    let all = [Some(found.schedule), by_stretches(problem), Some(best)].into_iter().flatten();
    let schedule = all.min_by_key(|one| one.completion_ps).expect("lockstep is one");
    Solution { bound_ps: found.bound_ps.min(schedule.completion_ps), schedule }
}

/// Every dimension of a grid by itself, which bounds the whole, and then as early as the others allow.
fn by_dimensions(
    problem: &Problem,
    lines: &[Line],
    effort: Effort,
    best: Schedule,
    bound_ps: Time,
) -> Solution {
    let solved: Vec<Solution> = lines.iter().map(|line| overlap(&line.problem, effort)).collect();
    let bounds = solved.iter().map(|solution| solution.bound_ps);
    let bound_ps = bounds.max().expect("a grid has dimensions").max(bound_ps);
    let parts = lines.iter().zip(&solved).map(|(line, solution)| {
        let mut parts: Parts = vec![Vec::new(); line.steps.len()];
        for part in &solution.schedule.uses {
            parts[part.step as usize].push((part.plane, part.bytes));
        }
        parts
    });
    let found = earliest(problem, &gathered(problem, lines, parts.collect()));
    let schedule = if found.completion_ps < best.completion_ps { found } else { best };
    Solution { bound_ps: bound_ps.min(schedule.completion_ps), schedule }
}

/// The best of what is known and what beams, programs and climbing find, and what is proven.
fn searched(problem: &Problem, effort: Effort, mut best: Schedule, bound_ps: Time) -> Solution {
    let scaled = Scaled::new(problem);
    let mut search = Search {
        problem,
        scaled: &scaled,
        solver: Solver::default(),
        seen: HashSet::new(),
        best: Found { completion: best.completion_ps.ps() as f64 / scaled.unit_ps, parts: None },
        effort,
    };
    search.run();
    let bound = search.prove();
    if let Some(parts) = search.best.parts {
        let found: Schedule = earliest(problem, &parts);
        if found.completion_ps < best.completion_ps {
            best = found;
        }
    }
    // Floating point: a proof is one to 1e-8, and parts are rounded to bytes.
    let proven = bound * scaled.unit_ps;
    let found = best.completion_ps.ps() as f64;
    let a_byte = problem.planes().rate_bps.time_for(Bytes::new(1)).ps() as f64;
    let bound_ps = if proven >= found * (1.0 - 1e-8) - a_byte * scaled.steps() as f64 {
        best.completion_ps
    } else {
        bound_ps.max(Time::from_ps((proven * (1.0 - 1e-8)) as u64))
    };
    Solution { schedule: best, bound_ps }
}

/// Every step on all planes, none of which ever switches: some plane carries at least its share of
/// whole bytes.
fn unswitched(problem: &Problem) -> Time {
    never_switching(problem, |volume, planes| {
        let share = Bytes::new(volume.get().div_ceil(u64::from(planes)));
        problem.planes().rate_bps.time_for(share)
    })
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
    effort: Effort,
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
            let budget = EXPANSIONS * self.effort.scale();
            let states = width.states.min((budget / a_state).max(12));
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
            let mut left = CLIMBING * self.effort.scale() / (n * self.scaled.k);
            for (time, pattern) in starts {
                self.climb(time, pattern, &mut left);
            }
        }
    }

    /// A bound on every schedule, and sometimes a better one.
    fn prove(&mut self) -> f64 {
        let programs = self.effort.proving();
        if programs == 0 {
            return 0.0;
        }
        if self.scaled.k > 8 {
            return 0.0;
        }
        let mut bound = 0.0;
        if self.scaled.steps() <= BOUNDED {
            let merged = Scaled { merged: true, ..self.scaled.clone() };
            bound = prove(&merged, self.best.completion, self.effort.merged()).bound;
            if bound >= self.best.completion * (1.0 - 1e-9) {
                return bound;
            }
        }
        if self.scaled.steps() <= PROVEN {
            let proven = prove(self.scaled, self.best.completion, programs);
            if let Some(pattern) = proven.better {
                self.timed(pattern, f64::MAX);
            }
            return bound.max(proven.bound);
        }
        let windows = windows(self.scaled, self.effort.window(self.scaled.k), programs);
        bound.max(windows.unwrap_or(0.0))
    }

    /// Times a pattern not seen before, unless it is certainly worse than the best by a twentieth.
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
                if let Some(found) = self.timed(neighbour.clone(), cutoff)
                    && found < cutoff * (1.0 - 1e-9)
                {
                    better = Some((found, neighbour));
                }
            }
            match better {
                Some(found) => (time, pattern) = found,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Planes, Step};
    use crate::replay::replay;
    use crate::simple::ideal;
    use lightloom_units::BitRate;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn random(rng: &mut ChaCha8Rng, steps: usize, k: u32) -> Problem {
        let planes = Planes {
            planes: k,
            rate_bps: BitRate::from_gbps(100),
            reconfiguration_ps: Time::from_us(rng.random_range(1..400)),
            latency_ps: Time::from_us(rng.random_range(0..20)),
        };
        let kinds = rng.random_range(1..=steps as u32);
        let steps = (0..steps)
            .map(|_| {
                Step::new(
                    rng.random_range(0..kinds),
                    Bytes::new(rng.random_range(1_000..8_000_000)),
                )
            })
            .collect::<Vec<_>>();
        let initial = (0..k)
            .map(|_| match rng.random_range(0..4) {
                0 => Held::Dark,
                1 => Held::Free,
                _ => Held::Configuration(steps[0].configuration),
            })
            .collect();
        Problem::new(planes, initial, steps).expect("valid")
    }

    /// Every pattern, each timed.
    fn exhaustive(problem: &Problem) -> f64 {
        let scaled = Scaled::new(problem);
        let (n, k) = (scaled.steps(), scaled.k);
        let mut solver = Solver::default();
        let mut best = f64::MAX;
        let mut pattern = vec![1u64; n];
        loop {
            if let Some(timing) = solver.time(&scaled, &pattern, best) {
                best = best.min(timing.completion);
            }
            let Some(s) = (0..n).find(|&s| pattern[s] + 1 < 1 << k) else { break };
            pattern[s] += 1;
            pattern[..s].fill(1);
        }
        best * scaled.unit_ps
    }

    #[test]
    fn proofs_agree_with_every_pattern() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..40 {
            let (steps, k) = [(2, 3), (3, 3), (5, 2), (4, 2)][rng.random_range(0..4)];
            let problem = random(&mut rng, steps, k);
            let scaled = Scaled::new(&problem);
            let proven = prove(&scaled, f64::MAX, usize::MAX).bound * scaled.unit_ps;
            let all = exhaustive(&problem);
            assert!((proven - all).abs() < 1e-7 * all, "{proven} {all} {problem:?}");
            // A relaxation, however little it may search.
            let merged = Scaled { merged: true, ..scaled };
            for programs in [50, usize::MAX] {
                let bound = prove(&merged, f64::MAX, programs).bound * merged.unit_ps;
                assert!(bound <= all * (1.0 + 1e-7), "{bound} {all} {problem:?}");
                assert!(programs == 50 || bound > 0.9 * all, "{bound} {all} {problem:?}");
            }
        }
    }

    /// All-reduce of 64 MB on 256 nodes; planes switch in 200 us.
    #[test]
    fn eight_planes_have_a_bound() {
        let planes = Planes {
            planes: 8,
            rate_bps: BitRate::from_gbps(100),
            reconfiguration_ps: Time::from_us(200),
            latency_ps: Time::from_us(5),
        };
        let steps = (0..8)
            .chain((0..8).rev())
            .map(|configuration| Step::new(configuration, Bytes::new(32_000_000 >> configuration)));
        let initial = vec![Held::Configuration(0); 8];
        let problem = Problem::new(planes, initial, steps.collect()).expect("valid");
        let found = overlap(&problem, Effort::Normal);
        assert!(found.schedule.completion_ps < Time::from_us(2493), "{:?}", found.schedule);
        assert!(found.bound_ps > Time::from_us(2400), "{}", found.bound_ps);
    }

    /// 200 small instances against their proven optimum.
    #[test]
    fn small_instances_are_solved() {
        let mut rng = ChaCha8Rng::seed_from_u64(2026);
        let (mut optimal, mut worst) = (0, 1.0f64);
        for _ in 0..200 {
            let (steps, k) = (rng.random_range(1..=7), rng.random_range(1..=3));
            let problem = random(&mut rng, steps, k);
            let scaled = Scaled::new(&problem);
            let optimum = prove(&scaled, f64::MAX, usize::MAX).bound * scaled.unit_ps;
            // Without the search that proves, which would find the optimum.
            let found = overlap(&problem, Effort::Quick).schedule.completion_ps.ps() as f64;
            assert!(found > optimum * (1.0 - 1e-7), "{found} below {optimum}: {problem:?}");
            worst = worst.max(found / optimum);
            optimal += usize::from(found < optimum * (1.0 + 1e-6));
        }
        assert!(optimal >= 190 && worst < 1.02, "{optimal} of 200 optimal, the worst {worst}");
    }

    #[test]
    fn windows_bound_what_can_be_proven() {
        for (k, volume, initial) in [
            (2, 3_000_000, Held::Dark),
            (2, 600_000, Held::Configuration(0)),
            (3, 2_000_000, Held::Configuration(0)),
            (3, 900_000, Held::Free),
        ] {
            let planes = Planes {
                planes: k,
                rate_bps: BitRate::from_gbps(100),
                reconfiguration_ps: Time::from_us(200),
                latency_ps: Time::from_us(5),
            };
            let steps =
                (0..9).map(|configuration| Step::new(configuration, Bytes::new(volume))).collect();
            let problem = Problem::new(planes, vec![initial; k as usize], steps).expect("valid");
            let scaled = Scaled::new(&problem);
            let optimum = prove(&scaled, f64::MAX, usize::MAX).bound;
            let mut bounds = Vec::new();
            for length in [1, 3, 5] {
                let bound = windows(&scaled, length, 100_000).expect("of its kind");
                assert!(bound <= optimum * (1.0 + 1e-9), "{bound} above {optimum}");
                bounds.push(bound);
            }
            assert!(bounds[2] > 0.9 * optimum, "{bounds:?} of {optimum}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn never_above_lockstep_nor_below_the_bound(seed in any::<u64>(), steps in 1usize..14, k in 1u32..5) {
            let problem = random(&mut ChaCha8Rng::seed_from_u64(seed), steps, k);
            let found = overlap(&problem, Effort::Normal);
            let completion = found.schedule.completion_ps;
            prop_assert!(completion <= lockstep(&problem).completion_ps);
            prop_assert!(by_stretches(&problem).is_none_or(|other| completion <= other.completion_ps));
            prop_assert!(completion >= found.bound_ps);
            prop_assert!(found.bound_ps >= ideal(&problem));
            if let (Ok(preset), true) = (one_shot(&problem), problem.initial().iter().all(|h| *h == Held::Free)) {
                prop_assert!(completion <= preset.completion_ps);
            }
            prop_assert_eq!(found, overlap(&problem, Effort::Normal));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Steps of several configurations: no schedule is below the bound or above what planes do one
        /// configuration after another.
        #[test]
        fn steps_that_begin_together(seed in any::<u64>(), steps in 2usize..9, k in 1u32..6, flags in any::<u16>()) {
            let apart = random(&mut ChaCha8Rng::seed_from_u64(seed), steps, k);
            let flagged = apart.steps().iter().enumerate();
            let flagged = flagged.map(|(s, step)| Step { together: s > 0 && flags >> s & 1 == 1, ..*step });
            let (planes, initial) = (apart.planes(), apart.initial().to_vec());
            let problem = Problem::new(planes, initial, flagged.collect()).expect("valid");
            let found = overlap(&problem, Effort::Normal);
            let completion = found.schedule.completion_ps;
            prop_assert_eq!(replay(&problem, &found.schedule), Ok(completion));
            prop_assert!(completion <= overlap(&problem.apart(), Effort::Quick).schedule.completion_ps);
            prop_assert!(completion >= found.bound_ps && found.bound_ps >= ideal(&problem));
            if let Ok(preset) = one_shot(&problem) {
                let longest = planes.reconfiguration_ps + preset.completion_ps;
                prop_assert!(completion <= longest);
                prop_assert!(preset.completion_ps <= one_shot(&problem.apart()).expect("as many").completion_ps);
            }
        }
    }

    /// Parts that take the dimensions in turn, so many steps in each.
    fn on_grid(rng: &mut ChaCha8Rng, turned: usize) -> Problem {
        let m = rng.random_range(2..4usize);
        let flat = random(rng, 1, 1);
        // Of each dimension its planes, what they hold, and what each part does there.
        type Own = (u32, Vec<Held>, Vec<Vec<(u32, u64)>>);
        let dimension = |rng: &mut ChaCha8Rng| -> Own {
            let (k, kinds) = (rng.random_range(1..4u32), rng.random_range(1..4u32));
            let held = |rng: &mut ChaCha8Rng| match rng.random_range(0..4) {
                0 => Held::Dark,
                1 => Held::Free,
                _ => Held::Configuration(0),
            };
            let step = |rng: &mut ChaCha8Rng| {
                (rng.random_range(0..kinds), rng.random_range(1_000..8_000_000))
            };
            let steps = (0..m).map(|_| (0..rng.random_range(1..4)).map(|_| step(rng)).collect());
            let steps = steps.collect();
            (k, (0..k).map(|_| held(rng)).collect(), steps)
        };
        let mut own: Vec<Own> = (0..m).map(|_| dimension(rng)).collect();
        own.rotate_left(turned % m);
        let mut steps = Vec::new();
        for (turn, part) in (0..m).flat_map(|turn| (0..m).map(move |part| (turn, part))) {
            let d = (part + turn) % m;
            steps.extend(own[d].2[turn].iter().map(|&(c, bytes)| Step {
                dimension: d as u32,
                part: part as u32,
                ..Step::new(10 * ((d + turned) % m) as u32 + c, Bytes::new(bytes))
            }));
        }
        let held = |(d, one): (usize, &Own)| -> Vec<Held> {
            let named = |&held: &Held| match held {
                Held::Configuration(c) => Held::Configuration(10 * ((d + turned) % m) as u32 + c),
                held => held,
            };
            one.1.iter().map(named).collect()
        };
        let initial: Vec<Held> = own.iter().enumerate().flat_map(held).collect();
        let planes = Planes { planes: initial.len() as u32, ..flat.planes() };
        let dimensions = own.iter().map(|one| one.0).collect();
        Problem::on_grid(planes, dimensions, initial, steps).expect("valid")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Over a grid: every schedule is one, none is below the bound, and dimensions in another turn
        /// take as long.
        #[test]
        fn dimensions_have_planes_of_their_own(seed in any::<u64>(), turned in 1usize..3) {
            let problem = on_grid(&mut ChaCha8Rng::seed_from_u64(seed), 0);
            let found = overlap(&problem, Effort::Normal);
            let completion = found.schedule.completion_ps;
            prop_assert_eq!(replay(&problem, &found.schedule), Ok(completion));
            prop_assert!(completion >= found.bound_ps && found.bound_ps >= ideal(&problem));
            let together = lockstep(&problem);
            prop_assert_eq!(replay(&problem, &together), Ok(together.completion_ps));
            prop_assert!(completion <= together.completion_ps);
            let alone: Vec<_> = problem.lines().iter().map(|line| overlap(&line.problem, Effort::Normal)).collect();
            prop_assert!(alone.iter().all(|one| one.bound_ps <= completion));
            if let Ok(preset) = one_shot(&problem) {
                let free = problem.holding(vec![Held::Free; problem.initial().len()]);
                prop_assert_eq!(replay(&free, &preset), Ok(preset.completion_ps));
            }
            let again = on_grid(&mut ChaCha8Rng::seed_from_u64(seed), turned);
            let turned = overlap(&again, Effort::Normal);
            prop_assert_eq!((turned.schedule.completion_ps, turned.bound_ps), (completion, found.bound_ps));
            prop_assert_eq!(lockstep(&again).completion_ps, together.completion_ps);
        }
    }

    #[test]
    fn another_dimensions_planes_are_refused() {
        let problem = on_grid(&mut ChaCha8Rng::seed_from_u64(1), 0);
        let mut schedule = lockstep(&problem);
        let other = problem.planes_of(1).start;
        schedule.uses[0].plane = other;
        let found = replay(&problem, &schedule).expect_err("of another dimension");
        let said = format!("step 0 is in dimension 0, which plane {other} does not serve");
        assert!(found.to_string() == said || found.to_string().contains("starts at"), "{found}");
        let few = Problem::on_grid(
            problem.planes(),
            vec![64],
            problem.initial().to_vec(),
            problem.steps().to_vec(),
        );
        assert!(
            few.expect_err("planes").to_string().starts_with("the dimensions have [64] planes")
        );
    }

    #[test]
    fn extremes() {
        let planes = |k, dark, latency| Planes {
            planes: k,
            rate_bps: BitRate::from_gbps(100),
            reconfiguration_ps: Time::from_ps(dark),
            latency_ps: Time::from_ps(latency),
        };
        let step = |configuration, bytes| Step::new(configuration, Bytes::new(bytes));
        // One byte, many planes; free switching; switching that takes days; latency above all.
        for (k, dark, latency) in [
            (64, 1_000, 0),
            (64, 0, 5),
            (2, 100_000_000_000_000_000, 1),
            (3, 1_000_000, 1_000_000_000_000),
        ] {
            let steps = vec![step(0, 1), step(1, 1), step(0, 1_000_000_000), step(2, 7)];
            let problem =
                Problem::new(planes(k, dark, latency), vec![Held::Dark; k as usize], steps)
                    .expect("valid");
            let found = overlap(&problem, Effort::Normal);
            assert!(found.schedule.completion_ps <= lockstep(&problem).completion_ps);
            assert!(found.schedule.completion_ps >= found.bound_ps, "{found:?}");
        }
    }
}
