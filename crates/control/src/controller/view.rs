//! A controller as an operator sees it: the parts of its status.

use crate::alarm::Alarm;
use crate::message::{Mark, PortId, ServerPart};
use lightloom_units::Time;
use serde::Serialize;

/// How many of each there were since the controller started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Plans whose circuits were verified.
    pub plans: u64,
    /// Decisions that were asked for.
    pub decisions: u64,
    /// Patches that the switch was ordered to set or end.
    pub patches: u64,
    /// Changes that were tried again.
    pub retries: u64,
    /// Times the switch was read when nothing happened.
    pub audits: u64,
    /// Times every circuit was withdrawn.
    pub withdrawals: u64,
    /// Directives that were sent.
    pub directives: u64,
    /// Reports of agents that were refused.
    pub refused_reports: u64,
    /// Circuits that were decided on and for which no switch has free ports of both servers.
    pub left_out: u64,
}

/// One change of circuits. Times but the first are since then \[ps\].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reconfiguration {
    /// The number of the plan.
    pub generation: u64,
    /// By tenant: the last round it was for.
    pub rounds: Vec<u64>,
    /// When it was decided on.
    pub began: Time,
    /// How long that took; nothing for circuits that were taken over.
    pub decided: Time,
    /// Until all agents concerned had drained their ports.
    pub drained: Time,
    /// Until the switch said that it was done.
    pub patched: Time,
    /// Until that was verified.
    pub verified: Time,
    /// Until every agent used the circuits.
    pub confirmed: Option<Time>,
    /// Ports of servers whose circuits changed.
    pub changed_ports: u32,
    /// Patches that were set or ended.
    pub patches: u32,
    /// How often the switch got orders.
    pub attempts: u32,
    /// Circuits that stood afterwards.
    pub circuits: u32,
}

/// What the controller knows of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerView {
    /// Its number in the region, from 0.
    pub server: u16,
    /// The number of its tenant, from 0.
    pub tenant: u16,
    /// Its agent is there.
    pub present: bool,
    /// When its agent was heard last.
    pub heard: Option<Time>,
    /// The directive it has obeyed.
    pub obeyed: Mark,
    /// What it says has failed.
    pub faults: Vec<ServerPart>,
    /// The round of its last demand.
    pub round: Option<u64>,
    /// By optical port: the port at the other end of its circuit.
    pub circuits: Vec<Option<PortId>>,
    /// By optical port: it is out of use.
    pub blocked: Vec<bool>,
}

/// A circuit that agents may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CircuitView {
    /// The end with the lower server and port.
    pub a: PortId,
    /// The end with the higher server and port.
    pub b: PortId,
    /// The switch that makes it, from 0.
    pub switch: u16,
    /// Its ports of both ends.
    pub switch_ports: (u16, u16),
}

/// What servers asked for last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DemandView {
    /// By tenant: the last round that was answered.
    pub rounds: Vec<u64>,
    /// From each server to each other \[B\].
    pub bytes: Vec<Vec<u64>>,
}

/// An optical switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SwitchView {
    /// Its number in the region, from 0.
    pub switch: u16,
    /// It lets us in.
    pub up: bool,
    /// Its own name for itself.
    pub device: Option<String>,
    /// Duplex ports, as the region's file says.
    pub ports: u16,
    /// Its state is known.
    pub read: bool,
}

/// All there is to see. Times \[ps\] are since the controller started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// When this status was taken.
    pub now: Time,
    /// What it is at: `starting`, `idle`, `deciding`, `draining`, `patching`, `verifying`, `reading`.
    pub phase: &'static str,
    /// The greatest plan there was.
    pub generation: u64,
    /// The plan whose circuits stand.
    pub verified_generation: u64,
    /// The last plan that all agents confirmed.
    pub confirmed_generation: u64,
    /// The optical switches, by number, as their drivers say.
    pub switches: Vec<SwitchView>,
    /// Servers, by number.
    pub servers: Vec<ServerView>,
    /// Circuits, by their lower end.
    pub circuits: Vec<CircuitView>,
    /// The demand that agents reported last.
    pub demand: DemandView,
    /// What is not as it should be, and since when.
    pub alarms: Vec<(Alarm, Time)>,
    /// Counts since the controller started.
    pub counters: Counters,
}
