//! Bugs are planted in controller, agents and data planes: an invariant must find each.

use crate::run::{Failure, play};
use crate::summary::Options;
use lightloom_control::planted::Planted;
use std::collections::BTreeMap;
use std::fmt;

/// What became of a bug in so many scenarios.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The bug that was planted in each of them.
    pub planted: Planted,
    /// So many scenarios were run.
    pub seeds: u64,
    /// The first that found it.
    pub first: Option<Box<Failure>>,
    /// By invariant: in how many scenarios it was broken first.
    pub broken: BTreeMap<&'static str, u64>,
}

impl Hunt {
    /// The number of scenarios that found the bug.
    pub fn found(&self) -> u64 {
        self.broken.values().sum()
    }
}

/// Runs `count` scenarios with a bug, from seed `first` on; and then up to `most`, until one finds it.
///
/// ```
/// use lightloom_soak::hunt;
/// use lightloom_control::planted::Planted;
/// let hunt = hunt(Planted::SkipsDraining, 0, 5, 100);
/// assert_eq!(hunt.first.unwrap().invariant.name, "held");
/// ```
pub fn hunt(planted: Planted, first: u64, count: u64, most: u64) -> Hunt {
    let mut hunt = Hunt { planted, seeds: 0, first: None, broken: BTreeMap::new() };
    while hunt.seeds < count || hunt.first.is_none() && hunt.seeds < most {
        let options = Options { planted: Some(planted), trace: false };
        if let Err(failure) = play(first + hunt.seeds, options).1 {
            *hunt.broken.entry(failure.invariant.name).or_default() += 1;
            hunt.first.get_or_insert(failure);
        }
        hunt.seeds += 1;
    }
    hunt
}

/// As a row of the table in docs/soak.md.
impl fmt::Display for Hunt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut broken: Vec<_> = self.broken.iter().collect();
        broken.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let names: Vec<_> = broken.iter().map(|(name, _)| format!("`{name}`")).collect();
        let first = self.first.as_ref().map_or("-".into(), |failure| failure.seed.to_string());
        let (found, seeds) = (self.found(), self.seeds);
        let (name, does) = (format!("{:?}", self.planted), self.planted.does());
        write!(out, "| {name} | {does} | {} | {first} | {found} of {seeds} |", names.join(", "))
    }
}
