//! One region's control plane, rehearsed for a list of demands: what `lightloom simulate` does to a
//! region's circuits, and what the daemon does, without a job around it.
//!
//! Modelled: the machines that the simulator drives, with its decisions. Demands come one at a time,
//! each once the circuits for the one before stand. Ignored: demands still to come, which in a
//! simulation are known. Checked: in `tests/test_controlled.py`, a simulation and the daemon on the
//! same demands; a golden trace.

use lightloom_circuits::{Decision, Prospect, Rates, ServerDemand};
use lightloom_control::ocs::{Activation, Device};
use lightloom_control::{PortId, Question, Record, Region, Rehearsal, Step};
use lightloom_fabric::{CircuitDecision, ReconfigurationDelay};
use lightloom_units::Time;
use serde::{Deserialize, Serialize};

/// A region, as JSON.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionSpec {
    /// Its servers, on the first ports of the switch, one after the other.
    pub servers: u16,
    /// The NUMA node of each optical port of a server.
    pub numa_of_port: Vec<u8>,
    /// Ports of the switch.
    pub switch_ports: u16,
    /// From command to light, always.
    pub delay_ps: Time,
    /// Seconds between two demands; only the trace shows it.
    pub pause_ps: Time,
    /// How circuits are chosen.
    pub decision: CircuitDecision,
    /// Whether they change only where that pays for the dark time.
    pub hysteresis: bool,
    /// Whether Algorithm 1 goes on past the first pair without a free port.
    pub keep_going: bool,
    /// Of an optical NIC \[bit/s\].
    pub optical_bps: u64,
    /// What experts are counted on to have of a packet NIC \[bit/s\].
    pub packet_bps: u64,
    /// Packet NICs of a server.
    pub packet_nics: u32,
    /// Whether a pair with circuits also fills packet NICs.
    pub share_eps: bool,
    /// All-to-alls of one demand.
    pub uses: u32,
}

/// What one demand was answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// Its number, from 1.
    pub round: u64,
    /// The plan whose circuits stand.
    pub generation: u64,
    /// All circuits, by their lower end.
    pub circuits: Vec<(PortId, PortId)>,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rehearsed {
    /// A row a demand.
    pub rounds: Vec<Answered>,
    /// What the controller wrote down.
    pub journal: Vec<Record>,
    /// All steps, a line each.
    pub trace: String,
}

/// Rehearses a region for demands, each a matrix of bytes from each server to each other, row-major.
///
/// # Errors
/// Says what is wrong with the region or a demand.
///
/// ```
/// use lightloom_sim::{RegionSpec, rehearse};
/// let region: RegionSpec = serde_json::from_str(r#"{"servers": 3, "numa_of_port": [0],
///     "switch_ports": 4, "delay_ps": 25000000000, "pause_ps": 1000000, "decision": "algorithm-1",
///     "hysteresis": false, "keep_going": true, "optical_bps": 400000000000,
///     "packet_bps": 300000000000, "packet_nics": 1, "share_eps": false, "uses": 2}"#).unwrap();
/// let heard = rehearse(&region, &[vec![0, 0, 9, 0, 0, 0, 0, 0, 0]]).unwrap();
/// assert_eq!(heard.rounds[0].circuits, [((0, 0), (2, 0))]);
/// ```
pub fn rehearse(spec: &RegionSpec, demands: &[Vec<u64>]) -> Result<Rehearsed, String> {
    let (n, degree) = (usize::from(spec.servers), spec.numa_of_port.len());
    if n * degree > usize::from(spec.switch_ports) {
        let ports = spec.switch_ports;
        return Err(format!("switch_ports = {ports}: {n} servers of {degree} need {}", n * degree));
    }
    if let Some(round) = demands.iter().position(|demand| demand.len() != n * n) {
        return Err(format!("demand {round}: must be a matrix of {n} by {n} numbers"));
    }
    let wiring = (1..=(n * degree) as u16).collect();
    let region = Region::new(spec.switch_ports, wiring, vec![0; n], spec.numa_of_port.clone())
        .map_err(|error| error.to_string())?;
    let delay = ReconfigurationDelay::Fixed { ps: spec.delay_ps };
    let device = Device { name: "rehearsed".into(), ports: spec.switch_ports, delay };
    let rates = Rates {
        optical_bps: spec.optical_bps,
        packet_bps: spec.packet_bps,
        packet_nics: spec.packet_nics,
        share_eps: spec.share_eps,
    };
    let decision = Decision { kind: spec.decision, keep_going: spec.keep_going, rates };
    let mut decide = |question: &Question| {
        let Question { demand, standing, .. } = question;
        if !spec.hysteresis {
            return decision.fitting(demand, standing);
        }
        let prospect = Prospect { uses: spec.uses, hidden: Time::ZERO, later: 0, usual: &[] };
        decision.worthwhile(demand, standing, |_| spec.delay_ps, prospect)
    };
    let none = Activation::Loopback { lock: Time::ZERO };
    let unhurried = Rehearsal::unhurried();
    let mut rehearsal = Rehearsal::traced(region, unhurried, device, none, 1, &mut decide)
        .map_err(|error| error.to_string())?;
    let mut now = Time::ZERO;
    let mut rounds = Vec::with_capacity(demands.len());
    for (round, bytes) in (1..).zip(demands) {
        let demand = ServerDemand { n, bytes: bytes.clone() };
        let woven = rehearsal.round(now, &demand, &mut decide);
        let circuits = rehearsal.standing().circuits().collect();
        rounds.push(Answered { round, generation: woven.generation, circuits });
        now = now.saturating_add(woven.dark).saturating_add(spec.pause_ps);
    }
    let (mut journal, mut trace) = (Vec::new(), String::new());
    for traced in rehearsal.trace() {
        trace += &format!("{traced}\n");
        if let Step::Journal(record) = traced.step {
            journal.push(record);
        }
    }
    Ok(Rehearsed { rounds, journal, trace })
}
