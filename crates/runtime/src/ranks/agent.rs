//! What the runtime and its server's agent say to each other, and demands that wait for circuits.

use lightloom_control::{RuntimeOutput, Use};
use lightloom_decide::Ahead;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What the agent says.
#[derive(Clone, Debug)]
pub enum FromAgent {
    /// Use these circuits.
    Use(Use),
    /// Drain these ports.
    Drain {
        /// To be said when it is done.
        token: u64,
        /// The ports.
        ports: Vec<u16>,
    },
    /// Whether it reaches the controller now: while it does not, nobody decides on circuits.
    Reaches(bool),
    /// It has ended, or another one comes.
    Forsaken,
}

/// What the agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// What was done of what it said.
    Runtime(RuntimeOutput),
    /// What this server will send to each server of the job.
    Demand(lightloom_control::Demand),
}

/// Nobody waits longer for circuits: without them, bytes take packet switches.
const PATIENCE: Duration = Duration::from_secs(5);

/// The demand of a round.
#[derive(Debug)]
struct Demand {
    /// By rank: whom to answer.
    asked: BTreeMap<u32, (u64, u64)>,
    bytes: Vec<u64>,
    /// As the last rank has said it that knew.
    ahead: Option<Ahead>,
    /// Set when the agent was told.
    until: Option<Instant>,
}

/// Demands of rounds that have no circuits yet.
#[derive(Debug, Default)]
pub(super) struct Demands(BTreeMap<u64, Demand>);

impl Demands {
    /// A rank says what it will send to each server: the whole server's, once all of `ranks` have said it.
    pub fn add(
        &mut self,
        round: u64,
        rank: u32,
        who: (u64, u64),
        bytes: &[u64],
        ahead: Option<Ahead>,
        ranks: usize,
    ) -> Option<lightloom_control::Demand> {
        let empty = || Demand {
            asked: BTreeMap::new(),
            bytes: vec![0; bytes.len()],
            ahead: None,
            until: None,
        };
        let demand = self.0.entry(round).or_insert_with(empty);
        demand.ahead = ahead.or(demand.ahead);
        if demand.asked.insert(rank, who).is_none() {
            let sums = demand.bytes.iter_mut().zip(bytes);
            sums.for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        }
        if demand.asked.len() < ranks {
            return None;
        }
        demand.until = Some(Instant::now() + PATIENCE);
        let mut told = lightloom_control::Demand::new(round, demand.bytes.clone());
        told.ahead = demand.ahead;
        Some(told)
    }

    /// Who is to be answered now that everything up to a round was; all of them if `ready`, else those whose
    /// patience is over; and whoever waits if `nobody` decides on circuits now. With each whether circuits were decided.
    pub fn answered(&mut self, upto: u64, ready: bool, nobody: bool) -> Vec<((u64, u64), bool)> {
        let now = Instant::now();
        let mut over = Vec::new();
        self.0.retain(|&round, demand| {
            let decided = round <= upto;
            let late = demand.until.is_some_and(|until| until <= now);
            let answer = demand.until.is_some() && (decided && ready || late || nobody);
            if answer {
                over.extend(demand.asked.values().map(|&who| (who, decided)));
            }
            !answer
        });
        over
    }

    /// When somebody's patience is over.
    pub fn until(&self) -> Option<Instant> {
        self.0.values().filter_map(|demand| demand.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_told_once_all_ranks_have_said_theirs() {
        let mut demands = Demands::default();
        let knows = Some(Ahead { uses: 1, ..Ahead::default() });
        assert_eq!(demands.add(7, 0, (1, 10), &[0, 5], knows, 2), None);
        assert_eq!(demands.add(7, 0, (1, 10), &[0, 5], None, 2), None); // said twice
        assert!(demands.answered(9, true, true).is_empty()); // not told yet
        let told = demands.add(7, 1, (2, 11), &[0, 6], None, 2).expect("all have said it");
        assert_eq!((told.round, &told.bytes[..], told.ahead), (7, &[0, 11][..], knows));
        assert!(demands.answered(6, true, false).is_empty());
        assert!(demands.answered(7, false, false).is_empty());
        assert_eq!(demands.answered(7, true, false), [((1, 10), true), ((2, 11), true)]);
        assert_eq!(demands.until(), None);
    }

    #[test]
    fn nobody_waits_while_nobody_decides() {
        let mut demands = Demands::default();
        assert_eq!(demands.add(7, 0, (1, 10), &[0, 5], None, 1).map(|it| it.round), Some(7));
        assert!(demands.answered(6, true, false).is_empty());
        assert_eq!(demands.answered(6, true, true), [((1, 10), false)]);
        assert_eq!(demands.add(8, 0, (1, 11), &[0, 5], None, 1).map(|it| it.round), Some(8));
        // It was decided, and the circuits are not connected.
        assert_eq!(demands.answered(8, false, true), [((1, 11), true)]);
    }
}
