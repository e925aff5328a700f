//! What will happen in a scenario.

use crate::plan::Loss;
use crate::plane::Word;
use lightloom_circuits::CircuitCounts;
use lightloom_control::{Directive, Input, Output, Report, RuntimeOutput, ServerPart};
use lightloom_units::Time;
use std::collections::VecDeque;

/// What will happen.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Report(Report),
    Left {
        server: u16,
        incarnation: u64,
    },
    Directive(u16, Directive),
    ToRuntime(u16, Word),
    ToAgent {
        server: u16,
        incarnation: u64,
        said: RuntimeOutput,
    },
    Landed(u16, Vec<u16>),
    Decided {
        life: u64,
        question: u64,
        counts: CircuitCounts,
    },
    ControllerStarts,
    AgentStarts(u16),
    Connect {
        switch: usize,
        life: u64,
    },
    StreamGone {
        switch: usize,
        stream: u64,
    },
    ToSwitch(usize, u64),
    ToDriver(usize, u64),
    Late(usize, u64, Vec<u8>),
    Demand(u16),
    Strike(usize),
    Thaw(u16),
    RuntimeWell(u16),
    Joined,
    DrainsWell(u16),
    PartRepaired(u16, ServerPart),
    SwitchWell(usize),
    Unstuck(usize, u16),
    StormOver,
    /// A rogue speaks for a server until then.
    Lie(u16, Time),
    BreakStream(usize),
    Crash(Loss),
    /// An operator, or the daemon, tells the controller.
    Told(Input),
    /// An operator starts an agent anew of which the controller believes nothing.
    Restart(u16),
    /// The controller was stopped, and goes on.
    GoesOn {
        life: u64,
    },
    FaultsStop,
    LastDemand,
    /// The controller crashes once more, while the last demand is answered.
    LastCrash,
}

impl Event {
    /// Whether this happens to the controller's process.
    pub fn is_the_controllers(&self) -> bool {
        matches!(
            self,
            Event::Report(_)
                | Event::Left { .. }
                | Event::Decided { .. }
                | Event::Connect { .. }
                | Event::StreamGone { .. }
                | Event::ToDriver(..)
                | Event::Told(_)
        )
    }
}

/// A controller that is stopped.
#[derive(Default)]
pub(crate) struct Stopped {
    pub since: Time,
    /// What it was about to do.
    pub held: Option<Output>,
    /// What has come meanwhile.
    pub waiting: VecDeque<Event>,
}
