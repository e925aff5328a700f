//! How a scenario is run, and what happened in it.

use std::collections::BTreeMap;

/// How a scenario is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Keep what happens.
    pub trace: bool,
    #[cfg(feature = "testing")]
    pub planted: Option<lightloom_control::planted::Planted>,
}

impl Options {
    pub fn new(trace: bool) -> Self {
        Options {
            trace,
            #[cfg(feature = "testing")]
            planted: None,
        }
    }
}

/// What happened in scenarios that went well: nothing would be shown by a world in which nothing does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of scenarios.
    pub scenarios: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// Their time, in all \[s\].
    pub simulated_s: f64,
    /// By what happened: in how many scenarios, and how often in all.
    pub happened: BTreeMap<&'static str, (u64, u64)>,
}

impl Summary {
    pub(crate) fn count(&mut self, what: &'static str) {
        let entry = self.happened.entry(what).or_default();
        *entry = (1, entry.1 + 1);
    }

    /// Adds the counts of other scenarios.
    pub fn add(&mut self, other: &Summary) {
        self.scenarios += other.scenarios;
        self.steps += other.steps;
        self.simulated_s += other.simulated_s;
        for (what, (scenarios, times)) in &other.happened {
            let entry = self.happened.entry(what).or_default();
            *entry = (entry.0 + scenarios, entry.1 + times);
        }
    }
}
