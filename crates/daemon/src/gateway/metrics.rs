//! What Prometheus reads: the last snapshot, and how long reconfigurations took.
//!
//! Gauges and counters are read off the [`Snapshot`](crate::hub::Snapshot) when Prometheus asks.
//! Histograms are fed from the events as they come; an event counts once, whoever notices it first.

use super::view::unix_ms;
use crate::border::{Refusal, Refused};
use crate::hub::{Hub, Names, Snapshot};
use lightloom_control::{Alarm, ControllerEvent, Reconfiguration, SwitchView};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

/// Upper ends of buckets \[s\]: a decision takes less than a millisecond, a switch from milliseconds to seconds.
const BUCKETS: [f64; 17] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5,
    1.0, 3.0, 10.0,
];

/// A gauge of each switch: its name, its help, and what it says.
type SwitchGauge = (&'static str, &'static str, fn(&SwitchView) -> bool);

/// What is said of each switch.
const SWITCHES: [SwitchGauge; 2] = [
    ("switch_up", "The switch lets us in", |switch| switch.up),
    ("switch_read", "The state of the switch is known", |switch| switch.read),
];

/// Every phase, as in [`lightloom_control::Status::phase`].
pub const PHASES: [&str; 7] =
    ["starting", "idle", "deciding", "draining", "patching", "verifying", "reading"];

type Stages = Family<[(&'static str, &'static str); 1], Histogram, fn() -> Histogram>;

/// All metrics of a controller.
pub struct Metrics {
    registry: Registry,
    stages: Stages,
    counted: Mutex<u64>,
}

impl Metrics {
    /// Metrics of the controller behind `hub`. Call it within a Tokio runtime: it watches for events.
    pub fn watch(hub: &Hub) -> Arc<Self> {
        let mut registry = Registry::with_prefix("lightloom");
        let stages: Stages = Family::new_with_constructor(|| Histogram::new(BUCKETS));
        for stage in ["decide", "drain", "patch", "verify", "confirm", "total"] {
            drop(stages.get_or_create(&[("stage", stage)])); // shown though it is empty
        }
        registry.register(
            "reconfiguration_seconds",
            "Time of a reconfiguration, by stage",
            stages.clone(),
        );
        registry.register_collector(Box::new(Picture(hub.snapshot.clone(), hub.names.clone())));
        registry.register_collector(Box::new(Border(hub.refused.clone())));
        registry.register_collector(Box::new(Certificate(hub.expiry.clone())));
        let metrics = Arc::new(Metrics { registry, stages, counted: Mutex::new(0) });
        let (weak, mut news) = (Arc::downgrade(&metrics), hub.news.subscribe());
        let hub = hub.clone();
        tokio::spawn(async move {
            while !matches!(news.recv().await, Err(RecvError::Closed)) {
                let Some(metrics) = weak.upgrade() else { return };
                metrics.count(&hub);
            }
        });
        metrics
    }

    /// The metrics in OpenMetrics text.
    ///
    /// # Errors
    /// None in practice: writing to a string does not fail.
    pub fn text(&self, hub: &Hub) -> Result<String, fmt::Error> {
        self.count(hub);
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }

    /// Counts the events that were not counted yet.
    fn count(&self, hub: &Hub) {
        let mut counted = self.counted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for logged in hub.since(*counted) {
            *counted = logged.number;
            if let ControllerEvent::Reconfigured(log) = &logged.event {
                self.observe(log);
            }
        }
    }

    fn observe(&self, log: &Reconfiguration) {
        for (stage, seconds) in stages(log) {
            self.stages.get_or_create(&[("stage", stage)]).observe(seconds);
        }
    }
}

/// How long each stage took \[s\]. A plan that was overtaken was never confirmed.
fn stages(log: &Reconfiguration) -> Vec<(&'static str, f64)> {
    let patched = log.patched.max(log.drained); // nothing to patch: no time
    let mut stages = vec![
        ("decide", log.decided),
        ("drain", log.drained),
        ("patch", patched.saturating_sub(log.drained)),
        ("verify", log.verified.saturating_sub(patched)),
    ];
    if let Some(confirmed) = log.confirmed {
        stages.push(("confirm", confirmed.saturating_sub(log.verified)));
        stages.push(("total", confirmed));
    }
    stages.into_iter().map(|(stage, time)| (stage, time.as_secs_f64())).collect()
}

/// Reads the snapshot when it is asked.
#[derive(Debug)]
struct Picture(watch::Receiver<Arc<Snapshot>>, Arc<Names>);

impl Collector for Picture {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let snapshot = self.0.borrow().clone();
        let names = &self.1;
        let status = &snapshot.status;
        let servers = &status.servers;
        let blocked = servers.iter().flat_map(|server| &server.blocked).filter(|&&b| b).count();
        let demand: f64 = status.demand.bytes.iter().flatten().map(|&bytes| bytes as f64).sum();
        let gauges = [
            ("generation", "The greatest plan there was", status.generation as f64),
            (
                "verified_generation",
                "The plan whose circuits stand",
                status.verified_generation as f64,
            ),
            (
                "confirmed_generation",
                "The last plan that all agents confirmed",
                status.confirmed_generation as f64,
            ),
            ("servers", "Servers of the region", servers.len() as f64),
            (
                "servers_present",
                "Servers whose agent is there",
                servers.iter().filter(|server| server.present).count() as f64,
            ),
            ("circuits", "Circuits that agents may use", status.circuits.len() as f64),
            (
                "ports",
                "Optical ports of servers",
                servers.iter().map(|server| server.blocked.len()).sum::<usize>() as f64,
            ),
            ("ports_blocked", "Optical ports out of use", blocked as f64),
            ("demand_bytes", "Bytes that servers asked for last", demand),
            (
                "start_time_seconds",
                "When the controller started, since 1970",
                unix_ms(snapshot.started) as f64 / 1e3,
            ),
        ];
        for (name, help, value) in gauges {
            let to = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(to)?;
        }
        for (name, help, is) in SWITCHES {
            let mut to = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for switch in &status.switches {
                let one = ConstGauge::new(u64::from(is(switch)));
                let name = names.switch(switch.switch);
                one.encode(to.encode_family(&[("switch", name)])?)?;
            }
        }
        let counts = &status.counters;
        let counters = [
            ("plans", "Plans whose circuits were verified", counts.plans),
            ("decisions", "Decisions that were asked for", counts.decisions),
            ("patches", "Patches that switches were ordered to set or end", counts.patches),
            ("retries", "Changes that were tried again", counts.retries),
            ("audits", "Times switches were read when nothing happened", counts.audits),
            ("withdrawals", "Times every circuit of a switch was withdrawn", counts.withdrawals),
            (
                "circuits_left_out",
                "Circuits decided on, for which no switch had ports of both servers",
                counts.left_out,
            ),
            ("directives", "Directives that were sent to agents", counts.directives),
            ("reports_refused", "Reports of agents that were refused", counts.refused_reports),
        ];
        for (name, help, value) in counters {
            let to = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(to)?;
        }
        let mut to =
            encoder.encode_descriptor("phase", "What it is at", None, MetricType::Gauge)?;
        for phase in PHASES {
            let is = ConstGauge::new(u64::from(phase == status.phase));
            is.encode(to.encode_family(&[("phase", phase)])?)?;
        }
        let help = "Alarms that stand, by name";
        let mut to = encoder.encode_descriptor("alarms", help, None, MetricType::Gauge)?;
        for name in Alarm::NAMES {
            let number = status.alarms.iter().filter(|(alarm, _)| alarm.name() == name).count();
            ConstGauge::new(number as u64).encode(to.encode_family(&[("alarm", name)])?)?;
        }
        Ok(())
    }
}

/// Counts the requests that were refused at the border.
#[derive(Debug)]
struct Border(Arc<Refused>);

impl Collector for Border {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Requests that were refused before anything read them, by reason";
        let kind = MetricType::Counter;
        let mut to = encoder.encode_descriptor("requests_refused", help, None, kind)?;
        for refusal in Refusal::ALL {
            let count = ConstCounter::new(self.0.of(refusal));
            count.encode(to.encode_family(&[("reason", refusal.name())])?)?;
        }
        Ok(())
    }
}

/// Says how long the certificate to listen with is still good, if there is one.
#[derive(Debug)]
struct Certificate(Arc<Mutex<Option<SystemTime>>>);

impl Collector for Certificate {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let end = *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(end) = end else { return Ok(()) };
        let left = match end.duration_since(SystemTime::now()) {
            Ok(left) => left.as_secs_f64(),
            Err(over) => -over.duration().as_secs_f64(),
        };
        let help = "How long the certificate to listen with is still good; negative: it has ended";
        let (name, kind) = ("certificate_expiry_seconds", MetricType::Gauge);
        ConstGauge::new(left).encode(encoder.encode_descriptor(name, help, None, kind)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_units::Time;

    #[test]
    fn stages_add_up_whether_there_was_something_to_patch_or_not() {
        let ms = Time::from_ms;
        for patched in [Time::ZERO, ms(30)] {
            let log = Reconfiguration {
                decided: ms(3),
                drained: ms(5),
                patched,
                verified: ms(40),
                confirmed: Some(ms(42)),
                ..Reconfiguration::default()
            };
            let stages = stages(&log);
            let sum: f64 = stages[1..5].iter().map(|stage| stage.1).sum();
            assert!((sum - 0.042).abs() < 1e-12 && stages[5] == ("total", 0.042), "{stages:?}");
            assert_eq!(stages[0], ("decide", 0.003));
        }
    }
}
