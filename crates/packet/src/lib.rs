//! The packet engine: every packet over every link, with queues, marks, pauses, losses, reordering.
//!
//! Modelled: store-and-forward switches with output queues in bytes, ECN, priority flow control with
//! headroom, trimming and drops; control packets before data; links with rate and delay; hosts whose
//! links serve their flows in turn; the scale-up network, losslessly; circuits that hold or lose what
//! is sent while they are dark; five transports, and load balancers over equal ways. A packet's way
//! is fixed when it is sent. Links break and heal: what waits for a broken one is lost.
//! Ignored: see `switch.rs`, `host.rs` and each transport.
//! Cost: one event a packet and link, two where it had to wait; no allocation per packet, nothing
//! that grows with the number of flows.
//! Checked: the shared conformance suite; one flow by hand calculation, to the picosecond; fairness,
//! incast, losslessness by properties; a flow that arrives sooner than its path allows fails the run.

mod balancer;
mod circuits;
mod conn;
mod host;
mod launch;
mod link;
mod net;
mod packet;
mod run;
mod spec;
mod switch;
#[cfg(test)]
mod tests;
mod transport;
mod wheel;

pub use spec::{
    BalancerSpec, Dark, DcqcnSpec, Overflow, PacketSpec, SpraySpec, SwitchSpec, TransportSpec,
};

use lightloom_engine::{Engine, EngineError, Observer, Outcome, Policy, Scenario};

/// The packet engine.
#[derive(Clone, Debug)]
pub struct PacketEngine {
    /// Its settings.
    pub spec: PacketSpec,
    /// Seeds hashes, marks and ties.
    pub seed: u64,
}

impl Engine for PacketEngine {
    fn name(&self) -> &'static str {
        "packet"
    }

    fn run(
        &self,
        scenario: &Scenario<'_>,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, EngineError> {
        run::Run::new(self, scenario, policy, observer).complete()
    }
}

/// Settings for tests: a transport by name with the switches that suit it, and a balancer by name.
#[cfg(test)]
pub(crate) fn settings(transport: &str, balancer: &str) -> PacketSpec {
    let rto = r#""retransmit_after": 4000000000"#;
    let pfc = r#"{"kind": "pfc", "xoff": 300000, "xon": 200000, "headroom": 300000}"#;
    let (transport, overflow, ecn, probability) = match transport {
        "dcqcn" => (
            format!(
                r#"{{"kind": "dcqcn", "window": null, "gain": 0.00390625,
                "notification_interval": 50000000, "alpha_timer": 55000000,
                "rate_timer": 55000000, "byte_counter": 10000000, "fast_recovery": 5,
                "additive_increase": 400000000, "hyper_increase": 4000000000,
                "minimum_rate": 100000000, {rto}}}"#
            ),
            pfc,
            (40_000, 400_000),
            0.01,
        ),
        "roce" => (
            format!(r#"{{"kind": "roce", "window": null, {rto}}}"#),
            pfc,
            (1u64 << 40, 1u64 << 40),
            1.0,
        ),
        "ndp" => (
            format!(r#"{{"kind": "ndp", "window": null, {rto}}}"#),
            r#"{"kind": "trim"}"#,
            (1u64 << 40, 1u64 << 40),
            1.0,
        ),
        "dctcp" => (
            format!(r#"{{"kind": "dctcp", "window": null, "gain": 0.0625, {rto}}}"#),
            r#"{"kind": "drop"}"#,
            (80_000, 80_000),
            1.0,
        ),
        _ => (
            format!(
                r#"{{"kind": "spray", "window": null, "target_delay": null, "increase": 4.0,
                "decrease": 0.5, "least_window": 0.25, {rto}}}"#
            ),
            r#"{"kind": "trim"}"#,
            (25_000, 100_000),
            1.0,
        ),
    };
    let balancer = match balancer {
        "plb" => r#"{"kind": "plb", "marked_share": 0.5, "rounds": 3, "rounds_busy": 12}"#,
        "reps" => r#"{"kind": "reps", "paths": 64}"#,
        "min-rtt" => r#"{"kind": "min-rtt"}"#,
        "round-robin" => r#"{"kind": "round-robin"}"#,
        _ => r#"{"kind": "ecmp"}"#,
    };
    let (low, high) = ecn;
    let queue = if transport.contains("ndp") { 8 * 4160 } else { 1 << 18 };
    let json = format!(
        r#"{{"mtu": 4096, "header": 64, "scale_up_mtu": 32768, "ack_every": 1,
        "transport": {transport}, "balancer": {balancer},
        "switch": {{"queue": {queue}, "ecn_low": {low}, "ecn_high": {high},
        "ecn_probability": {probability}, "overflow": {overflow}}},
        "dark": "hold", "sample_period": 0}}"#
    );
    serde_json::from_str(&json).expect("settings of the right shape")
}

#[cfg(test)]
fn engine(transport: &str, balancer: &str) -> PacketEngine {
    PacketEngine { spec: settings(transport, balancer), seed: 1 }
}

#[cfg(test)]
mod spray {
    use super::*;
    lightloom_engine::conformance!(engine("spray", "reps"), 0.06);
    lightloom_engine::breakable!(engine("spray", "reps"), 0.06);
}
#[cfg(test)]
mod ndp {
    use super::*;
    lightloom_engine::conformance!(engine("ndp", "round-robin"), 0.06);
    lightloom_engine::breakable!(engine("ndp", "round-robin"), 0.06);
}
#[cfg(test)]
mod roce {
    use super::*;
    lightloom_engine::conformance!(engine("roce", "ecmp"), 0.06);
    lightloom_engine::breakable!(engine("roce", "ecmp"), 0.06);
}
#[cfg(test)]
mod dcqcn {
    use super::*;
    // Flows of some milliseconds end before DCQCN has climbed back from its first cut.
    lightloom_engine::conformance!(engine("dcqcn", "ecmp"), 1.0);
    lightloom_engine::breakable!(engine("dcqcn", "ecmp"), 1.0);
}
#[cfg(test)]
mod dctcp {
    use super::*;
    lightloom_engine::conformance!(engine("dctcp", "ecmp"), 0.06);
    lightloom_engine::breakable!(engine("dctcp", "ecmp"), 0.06);
}
