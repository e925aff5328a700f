//! What a controller knows of one agent.

use crate::message::{Demand, Mark, ServerPart};
use lightloom_decide::Traffic;
use lightloom_units::Time;

/// An agent, as the controller knows it.
#[derive(Clone, Debug)]
pub(super) struct AgentRecord {
    pub incarnation: u64,
    pub beat: u64,
    pub heard: Option<Time>,
    pub obeyed: Mark,
    pub faults: Vec<ServerPart>,
    pub demand: Option<Demand>,
    pub traffic: Vec<Traffic>,
    /// By then the agent uses no circuit, if nothing more is said to it.
    pub lease_end: Time,
    /// Before `lease_end`: it may use circuits.
    pub present: bool,
    /// It does not let go of its circuits and is not spoken to until then.
    pub excluded_until: Option<Time>,
}

impl AgentRecord {
    pub fn new(lease_end: Time) -> Self {
        AgentRecord {
            incarnation: 0,
            beat: 0,
            heard: None,
            obeyed: Mark::default(),
            faults: Vec::new(),
            demand: None,
            traffic: Vec::new(),
            lease_end,
            present: true,
            excluded_until: None,
        }
    }
}
