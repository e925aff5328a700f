//! What a controller writes down before it acts, and what it knows again after a crash.
//!
//! Every change of circuits is an *intent*, written in the order in which it happens: [`Record::Planned`]
//! before any agent must hold, [`Record::Patching`] before the switch is touched,
//! [`Record::Verified`] before any agent may resume, [`Record::Confirmed`] when all have. So a
//! generation that anyone has heard of is in the journal, and after a crash the last record says where
//! the switch may differ from what was verified: nowhere, unless it is `Patching`.
//! [`Memory::replay`] folds the records; replaying a prefix of a journal twice gives the same memory.
//!
//! A journal may be older or shorter than what was once written: a [`Doubt`]. Then the switch may hold, and may yet
//! carry out, what nobody knows of.

use crate::message::PortId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a journal may lack what was once written.
///
/// Whatever it is, commands that may be late are waited for, and numbers of plans are not used that may have been used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// There is none, and nothing says that there ever was one. If the switch holds circuits of the region, or an
    /// agent has obeyed a plan, there was one, and it is lost.
    New,
    /// It comes from another machine, or this one has started anew since: what was written last may not have
    /// reached the disk.
    Moved,
    /// It is shorter than it was, and how that is known.
    Lost(String),
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// These circuits are wanted.
    Planned {
        /// The number of the plan.
        generation: u64,
        /// By tenant: the last round whose demand they are for.
        rounds: Vec<u64>,
        /// All circuits of the region, by their lower end.
        circuits: Vec<(PortId, PortId)>,
    },
    /// Agents hold what must change; switches get their orders now.
    Patching {
        /// The number of the plan.
        generation: u64,
        /// Which switches, if the region has several; none: all that it has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        switches: Vec<u16>,
    },
    /// These circuits were read back from the switch, and may be used.
    Verified {
        /// The number of the plan.
        generation: u64,
        /// By tenant: the last round whose demand they are for.
        rounds: Vec<u64>,
        /// All circuits of the region that may be used, by their lower end.
        circuits: Vec<(PortId, PortId)>,
        /// Switches that are away: what is known of these is older.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unread: Vec<u16>,
    },
    /// No circuit may be used but these, and what the switch holds, or one of several, is not known.
    Withdrawn {
        /// The number of the plan that says so.
        generation: u64,
        /// The reason, for the event and the log.
        why: String,
        /// Circuits of other switches, by their lower end.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        circuits: Vec<(PortId, PortId)>,
    },
    /// Every agent that is there uses them.
    Confirmed {
        /// The number of the plan.
        generation: u64,
    },
    /// Switch ports that did not follow orders leave the candidates; those that were unblocked
    /// are among them again.
    Stuck {
        /// All that are out of use for this reason now.
        ports: Vec<PortId>,
    },
    /// The switch has issued this term, or none counts any more: another is claimed.
    Term {
        /// The number of the switch in the region, from 0.
        switch: u16,
        /// The term that changes of this controller carry from now on.
        term: Option<u64>,
    },
    /// What comes before may not be all that was once written.
    Doubtful {
        /// Why.
        doubt: Doubt,
    },
}

/// What a controller knows from its journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The greatest generation that was ever planned.
    pub generation: u64,
    /// The circuits that were verified last and not withdrawn.
    pub verified: Vec<(PortId, PortId)>,
    /// The generation of these.
    pub verified_generation: u64,
    /// The last generation that all agents confirmed.
    pub confirmed: u64,
    /// Circuits that are wanted and not verified, if there are any.
    pub intent: Option<Vec<(PortId, PortId)>>,
    /// Whether a switch got any order since: it may hold other circuits than these.
    pub touched: bool,
    /// Which switches did; none: all.
    #[serde(default)]
    pub touched_switches: Vec<u16>,
    /// Ports out of use until an operator unblocks them.
    pub stuck: Vec<PortId>,
    /// Why more may have been written than is known, until circuits were verified anew.
    #[serde(default)]
    pub doubt: Option<Doubt>,
    /// By switch that fences: the term that it has issued to this controller.
    #[serde(default)]
    pub terms: BTreeMap<u16, u64>,
}

impl Memory {
    /// What these records say, in order.
    ///
    /// ```
    /// use lightloom_control::{Memory, Record};
    /// let circuits = vec![((0, 0), (1, 0))];
    /// let planned = Record::Planned { generation: 4, rounds: vec![9], circuits: circuits.clone() };
    /// let patching = Record::Patching { generation: 4, switches: vec![1] };
    /// let memory = Memory::replay([planned, patching]);
    /// assert_eq!((memory.generation, memory.verified.len()), (4, 0));
    /// assert!(memory.touches(1) && !memory.touches(0) && memory.intent == Some(circuits));
    /// ```
    pub fn replay(records: impl IntoIterator<Item = Record>) -> Self {
        let mut memory = Memory::default();
        records.into_iter().for_each(|record| memory.note(record));
        memory
    }

    /// Whether it is known that the journal was lost, or a part of it.
    pub fn is_lost(&self) -> bool {
        matches!(self.doubt, Some(Doubt::Lost(_)))
    }

    /// Whether a switch may hold other circuits than those that were verified, or carry out late orders.
    pub fn touches(&self, switch: usize) -> bool {
        let all = self.touched_switches.is_empty();
        self.touched && (all || self.touched_switches.iter().any(|&at| usize::from(at) == switch))
    }

    /// These switches, or all if none is named, get orders.
    fn touch(&mut self, switches: &[u16]) {
        if switches.is_empty() || self.touched && self.touched_switches.is_empty() {
            self.touched_switches.clear();
        } else {
            self.touched_switches.extend(switches);
            self.touched_switches.sort_unstable();
            self.touched_switches.dedup();
        }
        self.touched = true;
    }

    /// All switches but these were read.
    fn untouch(&mut self, unread: Vec<u16>) {
        let left: Vec<u16> =
            unread.into_iter().filter(|&switch| self.touches(usize::from(switch))).collect();
        self.touched = !left.is_empty();
        self.touched_switches = left;
    }

    /// Adds one record.
    pub fn note(&mut self, record: Record) {
        match record {
            Record::Planned { generation, circuits, .. } => {
                self.generation = self.generation.max(generation);
                self.intent = Some(circuits);
            }
            Record::Patching { switches, .. } => self.touch(&switches),
            Record::Verified { generation, circuits, unread, .. } => {
                self.generation = self.generation.max(generation);
                self.verified_generation = generation;
                self.verified = circuits;
                self.intent = None;
                self.untouch(unread);
                self.doubt = None;
            }
            Record::Withdrawn { generation, circuits, .. } => {
                self.generation = self.generation.max(generation);
                self.verified_generation = generation;
                self.verified = circuits;
                self.intent = None;
            }
            Record::Confirmed { generation } => self.confirmed = self.confirmed.max(generation),
            Record::Stuck { ports } => self.stuck = ports,
            Record::Term { switch, term: Some(term) } => drop(self.terms.insert(switch, term)),
            Record::Term { switch, term: None } => drop(self.terms.remove(&switch)),
            Record::Doubtful { doubt } => {
                // What was known to be lost still is.
                if !self.is_lost() {
                    self.doubt = Some(doubt);
                }
                self.touch(&[]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_counts_until_another_is_to_be_claimed() {
        let term = |switch, term| Record::Term { switch, term };
        let mut memory = Memory::replay([term(0, Some(3)), term(1, Some(9)), term(0, Some(4))]);
        assert_eq!(memory.terms, BTreeMap::from([(0, 4), (1, 9)]));
        memory.note(term(0, None));
        assert_eq!(memory.terms, BTreeMap::from([(1, 9)]));
    }

    #[test]
    fn what_was_withdrawn_is_not_known_again() {
        let (generation, rounds, circuits) = (1, vec![1], vec![((0, 0), (1, 0))]);
        let planned =
            Record::Planned { generation, rounds: rounds.clone(), circuits: circuits.clone() };
        let unread = Vec::new();
        let verified = Record::Verified { generation, rounds, circuits: circuits.clone(), unread };
        let patching = Record::Patching { generation, switches: Vec::new() };
        let before = [planned, patching, verified];
        let memory = Memory::replay(before.clone());
        assert_eq!((&memory.verified, memory.touched), (&circuits, false));
        let why = "no answer".into();
        let withdrawn = Record::Withdrawn { generation: 2, why, circuits: Vec::new() };
        let memory = Memory::replay(before.into_iter().chain([withdrawn]));
        assert_eq!((memory.verified, memory.intent), (vec![], None));
        assert_eq!((memory.generation, memory.verified_generation), (2, 2));
    }

    #[test]
    fn a_switch_is_touched_until_it_was_read() {
        let patching =
            |switches: &[u16]| Record::Patching { generation: 1, switches: switches.into() };
        let verified = |unread: &[u16]| Record::Verified {
            generation: 1,
            rounds: vec![],
            circuits: vec![],
            unread: unread.into(),
        };
        let touched = |records: &[Record]| {
            let memory = Memory::replay(records.iter().cloned());
            (0..3).filter(|&switch| memory.touches(switch)).collect::<Vec<_>>()
        };
        assert_eq!(touched(&[patching(&[1])]), [1]);
        assert_eq!(touched(&[patching(&[1]), patching(&[0])]), [0, 1]);
        assert_eq!(touched(&[patching(&[]), patching(&[1])]), [0, 1, 2]);
        assert_eq!(touched(&[patching(&[0, 1]), verified(&[1, 2])]), [1]);
        assert_eq!(touched(&[patching(&[]), verified(&[2])]), [2]);
        assert_eq!(touched(&[patching(&[]), verified(&[2]), verified(&[])]), [0; 0]);
        assert_eq!(touched(&[Record::Doubtful { doubt: Doubt::New }, verified(&[0])]), [0]);
        let old = r#"{"patching": {"generation": 3}}"#;
        assert_eq!(serde_json::from_str::<Record>(old).expect("old"), patching3());
    }

    fn patching3() -> Record {
        Record::Patching { generation: 3, switches: Vec::new() }
    }
}
