//! Scenarios from seeds, among faults; and bugs that are planted and must be found in them.

mod world;

use lightloom_runtime::planted::Planted;
use std::collections::BTreeMap;

const SEEDS: u64 = 2_000;

#[test]
fn thousands_of_seeds_break_nothing_and_much_happens() {
    let mut happened: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..SEEDS {
        let (world, broken) = world::run(seed, None, false);
        assert_eq!(broken, None, "seed {seed}, step {}", world.steps);
        world.happened.keys().for_each(|&what| *happened.entry(what).or_default() += 1);
    }
    for what in [
        "operations done",
        "operations failed",
        "early bytes",
        "ports drained",
        "peers lost",
        "chunks doubled",
        "chunks sent again",
        "chunks on another lane",
        "endpoint crashes",
        "lane down: closed",
        "lane down: stalled",
        "lane down: replaced",
        "lane down: lease ended",
        "lane down: half-sent chunk of a failed group",
        "packet NICs gone",
        "lane up by a relay",
        "bytes by relays",
        "lane down: needs no relay any more",
    ] {
        let seeds = happened.get(what).copied().unwrap_or(0);
        assert!(seeds >= SEEDS / 200, "{what}: {seeds} scenarios; {happened:#?}");
    }
}

#[test]
fn a_seed_is_the_same_again() {
    let steps = || world::run(3, None, false).0.steps;
    assert_eq!(steps(), steps());
}

#[test]
fn bugs_that_are_planted_are_found() {
    for &bug in Planted::ALL {
        let found = (0..SEEDS).find_map(|seed| world::run(seed, Some(bug), false).1);
        assert!(found.is_some(), "{bug:?} is not found in {SEEDS} scenarios");
    }
}
