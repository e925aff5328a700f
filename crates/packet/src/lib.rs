//! The packet engine: every packet over every link, with queues, marks, pauses, losses, reordering.
//!
//! Modelled: store-and-forward switches with output queues in bytes, ECN, priority flow control with
//! headroom, trimming and drops; control packets before data; links with rate and delay; hosts whose
//! links serve their flows in turn; the scale-up network, losslessly; circuits that hold or lose what
//! is sent while they are dark; transports, and load balancers over equal paths. A packet's path
//! is fixed when it is sent. Links break and heal: what waits for a broken one is lost.
//! Ignored: see `switch.rs`, `sender.rs`, `receiver.rs` and each transport.
//! Cost: one event a packet and link, its arrival; two where a host's link was busy. No allocation per packet,
//! nothing that grows with the number of flows. Servers and ports are worked off one by one, a window of a
//! link's delay at a time: see `layout.rs`.
//! Checked: the shared conformance suite; one flow by hand calculation, to the picosecond; fairness,
//! incast, losslessness by properties; a flow that arrives sooner than its path allows fails the run.

mod agenda;
mod ahead;
mod balancer;
mod begin;
mod circuits;
mod coming;
mod common;
mod conn;
mod crew;
#[cfg(test)]
mod cuts;
mod ends;
mod halves;
mod launch;
mod layout;
mod link;
mod mail;
mod make;
mod net;
mod overflow;
mod packet;
mod pauses;
mod places;
mod port;
mod receiver;
mod report;
mod rings;
mod rounds;
mod route;
mod run;
mod schedule;
mod sender;
mod settings;
mod shard;
mod silence;
mod soon;
mod spec;
mod steering;
mod switch;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod tests;
mod things;
#[cfg(test)]
mod threads;
mod tracks;
#[cfg(test)]
mod trains;
mod transit;
mod transport;
mod windows;

pub use balancer::alone::LoneBalancer;
pub use balancer::outside::{Choice, PathChooser};
pub use balancer::plug::{
    Balancer, Capabilities as BalancerCapabilities, Chunks, Heard, Next, Nics, Paths, pick,
};
pub use balancer::{BALANCERS, BalancerSpec};
pub use overflow::plug::{Buffer, Capabilities as OverflowCapabilities, Pause};
pub use overflow::{OVERFLOWS, OverflowSpec};
pub use spec::{Dark, PacketSpec, SwitchSpec};
pub use transport::plug::Capabilities as TransportCapabilities;
pub use transport::{TRANSPORTS, TransportSpec};

use lightloom_engine::{Engine, EngineError, Observer, Outcome, Policy, Scenario};
#[cfg(test)]
use lightloom_units::Time;
use std::sync::Arc;

/// The packet engine.
#[derive(Clone, Debug)]
pub struct PacketEngine {
    /// Transport, balancer, switches and sizes.
    pub spec: PacketSpec,
    /// Seeds hashes, marks and ties.
    pub seed: u64,
    /// What chooses paths in place of the balancer of the settings.
    pub chooser: Option<Arc<dyn PathChooser>>,
    /// CPU threads, at least one. The outcome is the same for any number, bit by bit. A chooser takes one.
    pub threads: usize,
}

impl PacketEngine {
    /// With the balancer of the settings, on one thread.
    pub fn new(spec: PacketSpec, seed: u64) -> Self {
        PacketEngine { spec, seed, chooser: None, threads: 1 }
    }
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
        let PacketEngine { spec, seed, chooser, threads } = self;
        let beside = (chooser.as_deref(), *threads);
        run::Run::new(spec, *seed, beside, scenario, policy, observer).complete()
    }
}

/// Some settings that a kind allows, as JSON.
#[cfg(test)]
fn any_settings<C>(family: &lightloom_units::kind::Family<C>, name: &str) -> String {
    use lightloom_units::kind::Form;
    let kind = family.kinds.iter().find(|kind| kind.name == name).expect("a kind of the family");
    let value = |form: &Form| match *form {
        Form::Count { min, max } => 64.clamp(min, max).to_string(),
        Form::Size { min, max } => (64u64 << 10).clamp(min, max).to_string(),
        Form::Time { min, max } => Time::from_us(50).ps().clamp(min, max).to_string(),
        Form::Rate { min, max } => 400_000_000u64.clamp(min, max).to_string(),
        Form::Number { above, max } => ((above + max.min(1.0)) / 2.0).to_string(),
        Form::Ratio { min, .. } => min.to_string(),
        Form::Even { min, .. } => (min + min % 2).to_string(),
        Form::Numbers(numbers) => numbers[0].to_string(),
        Form::Bool => "false".into(),
        Form::Choice(words) => format!("{:?}", words[0]),
        Form::Counts { min, .. } => format!("[{min}]"),
        Form::Text => "\"text\"".into(),
    };
    let set = |key: &lightloom_units::kind::Key| {
        let value = if key.optional { "null".into() } else { value(&key.form) };
        format!(", {:?}: {value}", key.name)
    };
    let keys: String = kind.keys.iter().map(set).collect();
    format!(r#"{{"kind": {name:?}{keys}}}"#)
}

/// A transport's settings for tests, as JSON.
#[cfg(test)]
pub(crate) fn transport_settings(transport: &str) -> String {
    let own = match transport {
        "dcqcn" => {
            r#", "gain": 0.00390625, "notification_interval": 50000000, "alpha_timer": 55000000,
            "rate_timer": 55000000, "byte_counter": 10000000, "fast_recovery": 5,
            "additive_increase": 400000000, "hyper_increase": 4000000000,
            "minimum_rate": 100000000"#
        }
        "dctcp" => r#", "gain": 0.0625"#,
        "spray" => {
            r#", "target_delay": null, "increase": 4.0, "decrease": 0.5, "least_window": 0.25"#
        }
        "roce" | "ndp" | "credit" => "",
        other => return any_settings(&TRANSPORTS, other),
    };
    format!(r#"{{"kind": {transport:?}, "window": null{own}, "retransmit_after": 4000000000}}"#)
}

/// Settings for tests: a transport by name with the switches that suit it, and a balancer by name.
#[cfg(test)]
pub(crate) fn settings(transport: &str, balancer: &str) -> PacketSpec {
    let pfc = r#"{"kind": "pfc", "xoff": 300000, "xon": 200000, "headroom": 300000}"#;
    let trim = r#"{"kind": "trim"}"#;
    let never = (1u64 << 40, 1u64 << 40);
    let (overflow, (low, high), probability) = match transport {
        "dcqcn" => (pfc, (40_000, 400_000), 0.01),
        "roce" => (pfc, never, 1.0),
        "ndp" => (trim, never, 1.0),
        "dctcp" => (r#"{"kind": "drop"}"#, (80_000, 80_000), 1.0),
        _ => (trim, (25_000, 100_000), 1.0),
    };
    let (transport, balancer) = (transport_settings(transport), any_settings(&BALANCERS, balancer));
    let queue = if transport.contains("ndp") { 8 * 4160 } else { 1 << 18 };
    let json = format!(
        r#"{{"mtu": 4096, "header": 64, "scale_up_mtu": 32768, "ack_every": 1, "train": 1,
        "transport": {transport}, "balancer": {balancer},
        "switch": {{"queue": {queue}, "ecn_low": {low}, "ecn_high": {high},
        "ecn_probability": {probability}, "overflow": {overflow}}},
        "dark": "hold", "sample_period": 0}}"#
    );
    serde_json::from_str(&json).expect("settings of the right shape")
}

/// Switches whose queues share a buffer.
#[cfg(test)]
pub(crate) fn shared_buffer(buffer: u64, alpha: f64) -> OverflowSpec {
    let json = format!(r#"{{"kind": "shared", "buffer": {buffer}, "alpha": {alpha}}}"#);
    serde_json::from_str(&json).expect("settings of the right shape")
}

#[cfg(test)]
fn engine(transport: &str, balancer: &str) -> PacketEngine {
    PacketEngine::new(settings(transport, balancer), 1)
}

#[cfg(test)]
mod spray {
    use super::*;
    lightloom_engine::conformance!(engine("spray", "reps"), 0.06);
    lightloom_engine::breakable!(engine("spray", "reps"), 0.06);
    lightloom_engine::claimable!(engine("spray", "reps"), 0.06);
}
#[cfg(test)]
mod ndp {
    use super::*;
    lightloom_engine::conformance!(engine("ndp", "round-robin"), 0.06);
    lightloom_engine::breakable!(engine("ndp", "round-robin"), 0.06);
    lightloom_engine::claimable!(engine("ndp", "round-robin"), 0.06);
}
#[cfg(test)]
mod roce {
    use super::*;
    lightloom_engine::conformance!(engine("roce", "ecmp"), 0.06);
    lightloom_engine::breakable!(engine("roce", "ecmp"), 0.06);
    lightloom_engine::claimable!(engine("roce", "ecmp"), 0.06);
}
#[cfg(test)]
mod dcqcn {
    use super::*;
    // Flows of some milliseconds end before DCQCN has climbed back from its first cut.
    lightloom_engine::conformance!(engine("dcqcn", "ecmp"), 1.0);
    lightloom_engine::breakable!(engine("dcqcn", "ecmp"), 1.0);
    lightloom_engine::claimable!(engine("dcqcn", "ecmp"), 1.0);
}
#[cfg(test)]
mod credit {
    use super::*;
    // A flow waits for a round trip before more than a packet of it may be sent.
    lightloom_engine::conformance!(engine("credit", "round-robin"), 0.12);
    lightloom_engine::breakable!(engine("credit", "round-robin"), 0.12);
    lightloom_engine::claimable!(engine("credit", "round-robin"), 0.12);
}
#[cfg(test)]
mod adaptive {
    use super::*;
    lightloom_engine::conformance!(engine("spray", "adaptive"), 0.06);
    lightloom_engine::breakable!(engine("spray", "adaptive"), 0.06);
    lightloom_engine::claimable!(engine("spray", "adaptive"), 0.06);
}
#[cfg(test)]
mod shared {
    use super::*;
    /// Much of a switch is free, so that it trims nothing and drops little.
    fn engine() -> PacketEngine {
        let mut engine = super::engine("spray", "reps");
        engine.spec.switch.overflow = super::shared_buffer(1 << 22, 1.0);
        engine
    }
    lightloom_engine::conformance!(engine(), 0.06);
    lightloom_engine::breakable!(engine(), 0.06);
    lightloom_engine::claimable!(engine(), 0.06);
}
#[cfg(test)]
mod rivals;
#[cfg(test)]
mod dctcp {
    use super::*;
    lightloom_engine::conformance!(engine("dctcp", "ecmp"), 0.06);
    lightloom_engine::breakable!(engine("dctcp", "ecmp"), 0.06);
    lightloom_engine::claimable!(engine("dctcp", "ecmp"), 0.06);
}
