//! What a controller knows of one agent.

use crate::message::{Demand, Directive, Mark, ServerPart};
use lightloom_decide::Traffic;
use lightloom_units::Time;

/// An agent, as the controller knows it.
#[derive(Clone, Debug)]
pub(super) struct AgentRecord {
    pub incarnation: u64,
    /// The stream of this life has ended.
    pub gone: bool,
    pub beat: u64,
    pub heard: Option<Time>,
    pub obeyed: Mark,
    /// What it was told last, and when it had been heard then.
    pub told: Option<(Time, Directive)>,
    pub faults: Vec<ServerPart>,
    /// What it asked for last.
    pub demand: Option<Demand>,
    /// Whether a decision has counted that,
    pub counted: bool,
    /// and what it asked for before, which decisions count until they count the last.
    pub before: Option<Demand>,
    pub traffic: Vec<Traffic>,
    /// The last round that was answered for this server.
    pub answered: u64,
    /// When a report was refused last,
    pub refused: Option<Time>,
    /// when one said that a plan was obeyed which was never issued,
    pub leapt: Option<Time>,
    /// the plan of one that was refused for it, since one was believed last; 0 if none was,
    pub claimed: u64,
    /// and how often parts have begun to work since then.
    pub repairs: (Time, u32),
    /// By then the agent uses no circuit, if nothing more is said to it.
    pub lease_end: Time,
    /// Before `lease_end`: it may use circuits.
    pub present: bool,
    /// It does not let go of its circuits and is not spoken to until then.
    pub excluded_until: Option<Time>,
    /// A plan was given up then because this agent had not let go.
    pub awaited: Option<Time>,
    /// So many were, since it let go last.
    pub late: u32,
}

impl AgentRecord {
    pub fn new(lease_end: Time) -> Self {
        AgentRecord {
            incarnation: 0,
            gone: true,
            beat: 0,
            heard: None,
            obeyed: Mark::default(),
            told: None,
            faults: Vec::new(),
            demand: None,
            counted: false,
            before: None,
            traffic: Vec::new(),
            answered: 0,
            refused: None,
            leapt: None,
            claimed: 0,
            repairs: (Time::ZERO, 0),
            lease_end,
            present: true,
            excluded_until: None,
            awaited: None,
            late: 0,
        }
    }

    /// Its agent says what it asks for. `waits`: what it asked for last is not counted yet.
    pub fn ask(&mut self, demand: Demand, waits: bool) {
        let again = self.demand.as_ref().is_some_and(|last| last.round == demand.round);
        let last = self.demand.replace(demand);
        if again {
            return;
        }
        if !waits {
            self.before = last;
        }
        self.counted = false;
    }

    /// Another life speaks, of which nothing is known. What the last one was to send is asked for no more:
    /// `answered` is the last round of its tenant.
    pub fn new_life(&mut self, incarnation: u64, answered: u64) {
        (self.incarnation, self.beat, self.answered, self.told) = (incarnation, 0, 0, None);
        (self.obeyed, self.awaited, self.late) = (Mark::default(), None, 0);
        // What the last one did not let go of is free at the end of its lease.
        self.excluded_until = self.excluded_until.map(|until| until.min(self.lease_end));
        if let Some(demand) = &mut self.demand {
            demand.round = demand.round.min(answered);
        }
    }
}
