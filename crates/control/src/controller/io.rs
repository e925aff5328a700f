//! What a controller hears and what it wants done.

use super::view::Reconfiguration;
use crate::alarm::Alarm;
use crate::driver::{Answer, Order};
use crate::journal::Record;
use crate::message::{Directive, PortId, Report};
use lightloom_circuits::CircuitCounts;
use lightloom_decide::Question;
use lightloom_units::Time;

/// What happens to a controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// An agent reports.
    Report(Report),
    /// The stream of an agent has ended, or was made to end.
    Left {
        /// Its server.
        server: u16,
        /// [`Report::incarnation`] of the reports that came over it.
        incarnation: u64,
    },
    /// Something came from a server's agent that is no report.
    Senseless {
        /// The server.
        server: u16,
        /// What is wrong with it, in words.
        why: String,
    },
    /// The switch lets us in, and has so many ports.
    SwitchUp {
        /// The switch, from 0.
        switch: usize,
        /// Its own name for itself.
        device: String,
        /// So many ingresses, and as many egresses.
        ports: u16,
    },
    /// The stream to the switch is closed.
    SwitchDown {
        /// The switch.
        switch: usize,
        /// Why, in words.
        why: String,
    },
    /// The switch answers an order.
    Answer {
        /// As in [`Output::Order`].
        id: u64,
        /// What the switch answers.
        answer: Answer,
    },
    /// The switch has issued a term to this controller.
    Term {
        /// The switch.
        switch: usize,
        /// It is greater than any before.
        term: u64,
    },
    /// Another controller has claimed the switch since.
    Fenced {
        /// The switch.
        switch: usize,
        /// Why changes are refused, in words.
        why: String,
    },
    /// A [`Question`] is answered.
    Decided {
        /// [`Question::number`].
        question: u64,
        /// Circuits by pair of servers.
        counts: CircuitCounts,
    },
    /// An operator says that ports which did not follow, or were joined elsewhere, can be used again.
    Unblock {
        /// Which; none means all.
        ports: Vec<PortId>,
    },
    /// An operator wants the switch to be read now.
    Audit,
    /// Whether the certificate that the controller listens with ends soon.
    Certificate {
        /// It does, or it has ended.
        ends: bool,
    },
    /// The process did not run for a while: it was stopped, or its machine was.
    Woken,
    /// What was wanted was done so much later, as a journal took so long: servers heard nothing of it before.
    Held {
        /// For how long.
        by: Time,
    },
}

/// What a controller wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Write this down; not before it is safe on disk may any later output be carried out.
    Journal(Record),
    /// Send a directive to an agent.
    Send {
        /// The number of the agent's server.
        server: u16,
        /// The circuits to use, and the stage of the plan.
        directive: Directive,
    },
    /// Give a switch an order.
    Order {
        /// Which switch, from 0.
        switch: usize,
        /// For [`Input::Answer`]: of all orders, whatever their switch, no two have the same.
        id: u64,
        /// What the switch is to do.
        order: Order,
    },
    /// Close the stream to a switch, if there is one, and open another.
    Reconnect {
        /// Which switch.
        switch: usize,
    },
    /// Claim a new term from a switch, if it issues any.
    Claim {
        /// Which switch.
        switch: usize,
    },
    /// Decide on circuits, and answer with [`Input::Decided`].
    Decide(Box<Question>),
    /// Something for logs and views.
    Event(ControllerEvent),
}

/// Something for logs and views.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ControllerEvent {
    /// An alarm is raised.
    Raised {
        /// The alarm, with the server or port that it is about.
        alarm: Alarm,
    },
    /// An alarm is cleared.
    Cleared {
        /// The alarm, with the server or port that it is about.
        alarm: Alarm,
    },
    /// Circuits were changed, or it was tried.
    Reconfigured(Reconfiguration),
    /// No circuit of these switches may be used.
    Withdrawn {
        /// The switches.
        switches: Vec<u16>,
        /// The plan that says so.
        generation: u64,
        /// The reason, for logs and alarms.
        why: String,
    },
    /// Something else, in words.
    Note {
        /// What happened, in a sentence.
        text: String,
    },
}
