//! What happens in an emulated region, step by step, and as text.

use crate::driver::{Answer, Order};
use crate::journal::Record;
use crate::message::{Mark, PortId, Stage};
use lightloom_units::Time;
use std::fmt;

/// A line of an [`EmulatedRegion`](super::EmulatedRegion)'s trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// When, on the machines' clock: 0 is the controller's start.
    pub at: Time,
    /// What happened then.
    pub step: Step,
}

/// What is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The controller writes this down.
    Journal(Record),
    /// It gives the switch an order.
    Order(Order),
    /// The switch answers.
    Answer(Answer),
    /// A server has stopped using ports.
    Drained {
        /// Index of the server, from 0.
        server: u16,
        /// Its optical ports, from 0.
        ports: Vec<u16>,
    },
    /// A server uses circuits.
    Uses {
        /// Index of the server, from 0.
        server: u16,
        /// The plan they are of.
        mark: Mark,
        /// By optical port: the port at the other end.
        circuits: Vec<Option<PortId>>,
    },
}

impl fmt::Display for Traced {
    /// One line, without the line's end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12} ", format!("{}", self.at))?;
        match &self.step {
            Step::Journal(record) => write!(f, "journal {}", Line(record)),
            Step::Order(Order::Read) => write!(f, "order read"),
            Step::Order(Order::Apply { end, set }) => {
                write!(f, "order end")?;
                end.iter()
                    .try_for_each(|patch| write!(f, " {},{}", patch.ingress, patch.egress))?;
                write!(f, " set")?;
                set.iter().try_for_each(|patch| write!(f, " {},{}", patch.ingress, patch.egress))
            }
            Step::Answer(Answer::Done) => write!(f, "answer done"),
            Step::Answer(Answer::Refused(why)) => write!(f, "answer refused: {why}"),
            Step::Answer(Answer::Fenced(why)) => write!(f, "answer fenced: {why}"),
            Step::Answer(Answer::State(patches)) => {
                write!(f, "answer {} patches", patches.len())
            }
            Step::Drained { server, ports } => write!(f, "server {server} drains {ports:?}"),
            Step::Uses { server, mark, circuits } => {
                let stage = match mark.stage {
                    Stage::Hold => "holds for",
                    Stage::Resume => "goes on with",
                };
                write!(f, "server {server} {stage} plan {}:", mark.generation)?;
                circuits.iter().try_for_each(|peer| match peer {
                    Some((server, port)) => write!(f, " {server}.{port}"),
                    None => write!(f, " -"),
                })
            }
        }
    }
}

/// A record in a line.
struct Line<'a>(&'a Record);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |f: &mut fmt::Formatter<'_>, circuits: &[(PortId, PortId)]| {
            circuits.iter().try_for_each(|(a, b)| write!(f, " {}.{}-{}.{}", a.0, a.1, b.0, b.1))
        };
        match self.0 {
            Record::Planned { generation, rounds, circuits } => {
                write!(f, "planned {generation} for {rounds:?}")?;
                all(f, circuits)
            }
            Record::Patching { generation, .. } => write!(f, "patching {generation}"),
            Record::Verified { generation, rounds, circuits, .. } => {
                write!(f, "verified {generation} for {rounds:?}")?;
                all(f, circuits)
            }
            Record::Withdrawn { generation, why, .. } => write!(f, "withdrawn {generation}: {why}"),
            Record::Confirmed { generation } => write!(f, "confirmed {generation}"),
            Record::Stuck { ports } => write!(f, "stuck {ports:?}"),
            Record::Term { switch, term } => write!(f, "term {term:?} of switch {switch}"),
            Record::Doubtful { doubt } => write!(f, "doubtful {doubt:?}"),
        }
    }
}
