//! One region's control plane, emulated for a list of demands: what `lightloom simulate` does to a
//! region's circuits, and what the daemon does, without a job around it.
//!
//! Modelled: the machines that the simulator drives, with its decisions. Demands come one at a time,
//! each once the circuits for the one before stand. Ignored: demands still to come, which in a
//! simulation are known. Checked: in `tests/test_controlled.py`, a simulation and the daemon on the
//! same demands; a golden trace.

use lightloom_circuits::{Rates, ServerDemand};
use lightloom_control::ocs::{Activation, Device};
use lightloom_control::{self as control, EmulatedRegion, PortId, Record, Region, Round, Step};
use lightloom_decide::{Ahead, Dark, Decider, Question, Settings, Traffic, rule};
use lightloom_fabric::{ReconfigurationDelay, Start};
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
    pub decision: String,
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
    /// The circuits that stand before the first demand.
    #[serde(default)]
    pub start: Start,
}

/// What the servers of a region report in one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundReports {
    /// From each server to each other, row-major \[B\].
    pub bytes: Vec<u64>,
    /// What lies ahead of them.
    #[serde(default)]
    pub ahead: Option<Ahead>,
    /// Whether the demand is only expected.
    #[serde(default)]
    pub predicted: bool,
    /// By server: what other traffic takes of its packet NICs.
    #[serde(default)]
    pub traffic: Vec<Vec<Traffic>>,
}

/// What one demand was answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoundResult {
    /// Its number, from 1.
    pub round: u64,
    /// The plan whose circuits stand.
    pub generation: u64,
    /// All circuits, by their lower end.
    pub circuits: Vec<(PortId, PortId)>,
}

/// What has happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EmulatedRun {
    /// A row a demand.
    pub rounds: Vec<RoundResult>,
    /// What the controller wrote down.
    pub journal: Vec<Record>,
    /// All steps, a line each.
    pub trace: String,
}

/// Emulates a region for what its servers report, round by round.
///
/// # Errors
/// Says what is wrong with the region or a demand.
///
/// ```
/// use lightloom_sim::{RegionSpec, emulate_region};
/// let region: RegionSpec = serde_json::from_str(r#"{"servers": 3, "numa_of_port": [0],
///     "switch_ports": 4, "delay_ps": 25000000000, "pause_ps": 1000000, "decision": "algorithm-1",
///     "hysteresis": false, "keep_going": true, "optical_bps": 400000000000,
///     "packet_bps": 300000000000, "packet_nics": 1, "share_eps": false}"#).unwrap();
/// let heard = emulate_region(&region, &[serde_json::from_str(r#"{"bytes": [0, 0, 9, 0, 0, 0, 0, 0, 0]}"#).unwrap()]).unwrap();
/// assert_eq!(heard.rounds[0].circuits, [((0, 0), (2, 0))]);
/// ```
pub fn emulate_region(spec: &RegionSpec, rounds: &[RoundReports]) -> Result<EmulatedRun, String> {
    let (n, degree) = (usize::from(spec.servers), spec.numa_of_port.len());
    if n * degree > usize::from(spec.switch_ports) {
        let ports = spec.switch_ports;
        return Err(format!("switch_ports = {ports}: {n} servers of {degree} need {}", n * degree));
    }
    if let Some(round) = rounds.iter().position(|round| round.bytes.len() != n * n) {
        return Err(format!("demand {round}: must be a matrix of {n} by {n} numbers"));
    }
    let wiring = (1..=(n * degree) as u16).collect();
    let region = Region::new(spec.switch_ports, wiring, vec![0; n], spec.numa_of_port.clone())
        .map_err(|error| error.to_string())?;
    let delay = ReconfigurationDelay::Fixed { ps: spec.delay_ps };
    let device = Device { name: "emulated".into(), ports: spec.switch_ports, delay };
    let rates = Rates {
        optical_bps: spec.optical_bps,
        packet_bps: spec.packet_bps,
        packet_nics: spec.packet_nics,
        share_eps: spec.share_eps,
    };
    let settings = Settings {
        rule: rule(&spec.decision).map_err(|why| format!("decision: {why}"))?,
        hysteresis: spec.hysteresis,
        keep_going: spec.keep_going,
        rates,
        dark: Dark { switch: device.delay.clone(), activation: Time::ZERO },
        ahead: Ahead::default(),
    };
    let mut decider = Decider::new(settings, &vec![0; n]);
    let mut decide = |question: &Question| {
        decider.decide(question).unwrap_or_else(|_| question.standing.counts())
    };
    let none = Activation::Loopback { lock: Time::ZERO };
    let start_even = spec.start == Start::Even;
    let settings = control::Settings { start_even, ..EmulatedRegion::settings() };
    let mut emulated = EmulatedRegion::traced(region, settings, device, none, 1, &mut decide)
        .map_err(|error| error.to_string())?;
    let mut now = Time::ZERO;
    let mut answers = Vec::with_capacity(rounds.len());
    for (round, asked) in (1..).zip(rounds) {
        let demand = ServerDemand { n, bytes: asked.bytes.clone() };
        let said = Round {
            demand: &demand,
            ahead: asked.ahead,
            predicted: asked.predicted,
            traffic: &asked.traffic,
        };
        let change = emulated.round(now, said, &mut decide);
        let circuits = emulated.standing().circuits().collect();
        answers.push(RoundResult { round, generation: change.generation, circuits });
        now = now.saturating_add(change.dark).saturating_add(spec.pause_ps);
    }
    let (journal, trace) = written(&mut emulated);
    Ok(EmulatedRun { rounds: answers, journal, trace })
}

/// What a traced region's controller wrote down, and all steps, a line each.
pub(crate) fn written(region: &mut EmulatedRegion) -> (Vec<Record>, String) {
    let (mut journal, mut trace) = (Vec::new(), String::new());
    for traced in region.trace() {
        trace += &format!("{traced}\n");
        if let Step::Journal(record) = traced.step {
            journal.push(record);
        }
    }
    (journal, trace)
}
