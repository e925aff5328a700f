//! Scenarios, one or many.

use crate::invariants::{Broken, Invariant};
use crate::summary::{Options, Summary};
use crate::world::World;
use lightloom_units::Time;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// An invariant that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the scenario: the same seed breaks it again.
    pub seed: u64,
    /// The number of the step.
    pub step: u64,
    /// The time in the scenario.
    pub time: Time,
    /// The invariant that does not hold.
    pub invariant: Invariant,
    /// What was found instead.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, step, time, invariant, what, .. } = self;
        write!(out, "seed {seed}, step {step}, {time}: {}: {what}", invariant.name)
    }
}

/// Runs one scenario.
///
/// # Errors
/// The first invariant that is broken.
///
/// ```
/// use lightloom_soak::run;
/// let summary = run(1).unwrap();
/// assert!(summary.steps > 100);
/// assert_eq!(Ok(summary), run(1));
/// ```
pub fn run(seed: u64) -> Result<Summary, Box<Failure>> {
    play(seed, Options::new(false)).1
}

/// Runs one scenario and says what happens, a line each: the last 100,000 of them.
///
/// ```
/// use lightloom_soak::{run, trace};
/// let (lines, result) = trace(1);
/// assert!(lines.iter().any(|line| line.contains("journal: Verified")));
/// assert_eq!(result, run(1));
/// ```
pub fn trace(seed: u64) -> (Vec<String>, Result<Summary, Box<Failure>>) {
    play(seed, Options::new(true))
}

pub(crate) fn play(seed: u64, options: Options) -> (Vec<String>, Result<Summary, Box<Failure>>) {
    let mut world = World::new(seed, options);
    let result = loop {
        match world.step() {
            Ok(false) => {}
            Ok(true) => {
                let mut summary = std::mem::take(&mut world.summary);
                (summary.scenarios, summary.steps) = (1, world.steps);
                summary.simulated_s = world.now.as_secs_f64();
                break Ok(summary);
            }
            Err(Broken { invariant, what }) => {
                let (step, time) = (world.steps, world.now);
                break Err(Box::new(Failure { seed, step, time, invariant, what }));
            }
        }
    };
    (world.trace.unwrap_or_default().into(), result)
}

/// Runs `count` scenarios from seed `first` on, on so many threads. `progress` gets how many are
/// done, some ten times a second, and stops the run with `false`.
///
/// Returns what happened in those that went well, and of the failures that of the least seed. Which
/// seeds were run before a failure stopped the others depends on the threads; the failure does not.
///
/// ```
/// use lightloom_soak::run_many;
/// let (summary, failure) = run_many(100, 8, 2, |_| true);
/// assert_eq!((summary.scenarios, failure), (8, None));
/// ```
pub fn run_many(
    first: u64,
    count: u64,
    threads: usize,
    mut progress: impl FnMut(u64) -> bool,
) -> (Summary, Option<Box<Failure>>) {
    // Seeds are given out in rising order, and one that is given out is run: so the least that fails is
    // found, whatever the threads do.
    let (given, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let work = || {
        let (mut summary, mut failure) = (Summary::default(), None);
        while !stop.load(Relaxed) {
            let at = given.fetch_add(1, Relaxed);
            if at >= count {
                break;
            }
            match run(first + at) {
                Ok(one) => summary.add(&one),
                Err(broken) => {
                    stop.store(true, Relaxed);
                    failure = Some(broken);
                }
            }
            done.fetch_add(1, Relaxed);
        }
        (summary, failure)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(if count < 100 { 5 } else { 100 }));
            if !progress(done.load(Relaxed).min(count)) {
                stop.store(true, Relaxed);
            }
        }
        let mut all = (Summary::default(), None::<Box<Failure>>);
        for worker in workers {
            let (summary, failure) = worker.join().expect("scenarios do not panic");
            all.0.add(&summary);
            all.1 = [all.1, failure].into_iter().flatten().min_by_key(|failure| failure.seed);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: u64 = 1_000;

    #[test]
    fn a_thousand_seeds_break_nothing_and_much_happens() {
        let mut all = Summary::default();
        for seed in 0..SEEDS {
            let summary = run(seed).unwrap_or_else(|failure| panic!("{failure}"));
            all.add(&summary);
        }
        let in_scenarios = |what: &str| all.happened.get(what).map_or(0, |happened| happened.0);
        for what in [
            "controller crashed",
            "recovered from a change under way",
            "journal lost",
            "journal cut",
            "old backup restored",
            "journal-lost",
            "agent crashed",
            "agent frozen",
            "server frozen",
            "runtime frozen",
            "runtime does not read",
            "runtime crashed",
            "agent's lines late",
            "server-silent",
            "servers cut off",
            "stream broken",
            "commands arrived after their stream broke",
            "switch silent",
            "circuits withdrawn",
            "circuits-changed",
            "ports stuck",
            "foreign-patch",
            "second-controller",
            "controller stopped in the middle",
            "tenants joined by another hand",
            "switch speaks TL1",
            "switch speaks NETCONF",
            "switch speaks NETCONF, by candidate",
            "switch speaks the line protocol",
            "drain-stuck",
            "decision-refused",
            "server's agent lied",
            "report-refused",
        ] {
            assert!(in_scenarios(what) >= SEEDS / 100, "{what}: {} scenarios", in_scenarios(what));
        }
        assert!(in_scenarios("plan confirmed") >= SEEDS * 95 / 100);
    }
}
