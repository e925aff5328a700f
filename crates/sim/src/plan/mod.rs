//! Plans for whoever asks: a collective's or an all-to-all's, by each scheduler, as a plan file has
//! them.
//!
//! Every schedule is replayed, and every plan checked port by port, before it is returned; one that
//! fails is an error, for a scheduler is wrong then. Nothing is decided here.

mod alltoall;
mod collective;
mod tracks;

pub use alltoall::{AllToAllPlans, AllToAllSpec, Circuits, SwitchingRow, plan_alltoall};
pub use collective::{
    CollectivePlans, CollectiveSpec, Given, Initial, Row, Scheduler, algorithms, plan_collective,
};
pub use tracks::{Task, Tracks, check_plan};

use lightloom_units::Time;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanningError {
    /// What was asked for, or a plan that was given, cannot be used.
    #[error("{0}")]
    Input(String),
    /// A scheduler's answer failed its replay.
    #[error("the {scheduler} scheduler is wrong: {violation}; please report it")]
    Invalid {
        /// Which one.
        scheduler: &'static str,
        /// What the replay found.
        violation: String,
    },
}

pub(crate) fn input(error: impl std::fmt::Display) -> PlanningError {
    PlanningError::Input(error.to_string())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("numbers, text and lists are JSON")
}

/// Joins spans that touch, in the order of time.
fn merge(spans: &mut Vec<(Time, Time)>) {
    spans.sort_unstable();
    spans.dedup_by(|next, one| {
        let joined = next.0 <= one.1;
        if joined {
            one.1 = one.1.max(next.1);
        }
        joined
    });
}

/// How long of a span none of the others covers; these are merged.
fn uncovered((from, to): (Time, Time), spans: &[(Time, Time)]) -> Time {
    let first = spans.partition_point(|span| span.1 <= from);
    let covered: Time = spans[first..]
        .iter()
        .take_while(|span| span.0 < to)
        .map(|span| span.1.min(to).saturating_sub(span.0.max(from)))
        .sum();
    to.saturating_sub(from).saturating_sub(covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_covers() {
        let time = |(a, b): (u64, u64)| (Time::from_ps(a), Time::from_ps(b));
        let mut spans: Vec<_> = [(30, 40), (0, 10), (5, 12), (12, 15)].map(time).to_vec();
        merge(&mut spans);
        assert_eq!(spans, [(0, 15), (30, 40)].map(time));
        for (span, left) in [((0, 15), 0), ((10, 35), 15), ((50, 60), 10), ((15, 30), 15)] {
            assert_eq!(uncovered(time(span), &spans), Time::from_ps(left), "{span:?}");
        }
    }
}
