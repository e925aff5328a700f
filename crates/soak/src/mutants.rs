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
/// let first = hunt.first.unwrap();
/// assert!(["held", "connected"].contains(&first.invariant.name), "{first}");
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

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: u64 = 1_000;
    /// Bugs that seldom do harm: the example `mutants` looks for them in more scenarios, as `make soak` does.
    const RARE: [Planted; 1] = [Planted::NotesInQuarantine];

    #[test]
    fn planted_bugs_are_found() {
        for &planted in Planted::ALL.iter().filter(|planted| !RARE.contains(planted)) {
            let first = hunt(planted, 0, 1, SEEDS).first;
            let failure = first.unwrap_or_else(|| panic!("{planted:?} was not found"));
            println!("{planted:?}: {failure}");
            let expected = expected(planted);
            assert!(expected.contains(&failure.invariant.name), "{planted:?}: {failure}");
        }
    }

    /// The invariants that a bug breaks first.
    fn expected(planted: Planted) -> &'static [&'static str] {
        match planted {
            Planted::SkipsVerification
            | Planted::TrustsItsMemory
            | Planted::TakesHalfForWhole
            | Planted::SpeaksBeforeItReads => &["read-back"],
            Planted::ForgetsGenerations => &["stale", "onward"],
            Planted::SpeaksForItsRuntime => &["followed"],
            Planted::IgnoresRivals | Planted::ForgetsWhatItMade => &["alone"],
            Planted::OrdersLives
            | Planted::RetriesOneByOne
            | Planted::DefersForEver
            | Planted::ExcludesForEver
            | Planted::AnswersOnlyNews
            | Planted::KeepsAlarms
            | Planted::SaysDemandOnce => &["progress"],
            Planted::BelievesOneRound | Planted::MixesRounds => &["rounds"],
            Planted::OrdersBeforeItsRecord | Planted::ResumesBeforeItsRecord => &["recorded"],
            Planted::AdoptsAcrossTenants | Planted::AllowsIllegalCircuits => &["legal"],
            Planted::BelievesOldBeats | Planted::IgnoresNewFaults => &["sound"],
            Planted::EndsForeignPatches => &["slice"],
            Planted::NeverDefers => &["share"],
            Planted::CountsHalfRounds => &["gathered"],
            Planted::GoesOnWhenWoken => &["awake"],
            Planted::ReusesGenerations => &["rising"],
            Planted::SkipsQuarantine | Planted::ForgetsTouched | Planted::NotesInQuarantine => {
                &["settled", "connected"]
            }
            Planted::GoesOnAfterABreak => &["settled", "connected", "read-back"],
            Planted::OpensWhileItDrains => &["connected", "filtered"],
            _ => &["held", "connected", "filtered", "read-back"],
        }
    }

    #[test]
    fn a_seed_breaks_the_same_again() {
        let first = hunt(Planted::SkipsDraining, 0, 1, SEEDS).first.expect("it is found");
        let options = Options { planted: Some(Planted::SkipsDraining), trace: true };
        let (lines, again) = play(first.seed, options);
        assert_eq!(again, Err(first));
        assert!(lines.iter().any(|line| line.contains("order 1:")), "{lines:?}");
    }
}
