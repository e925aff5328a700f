//! A runtime's counters as metrics.

use lightloom_runtime::exchange::Statistics;
use lightloom_runtime::ranks::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;

/// A count of each NIC and direction: its name, its help, what was sent and what was received.
type TwoWay = (&'static str, &'static str, fn(&Statistics) -> [u64; 2]);

const TWO_WAY: [TwoWay; 4] = [
    (
        "payload_bytes",
        "Payload of chunks, by NIC; what was sent again counts again, what was not needed does not",
        |it| [it.bytes_sent, it.bytes_received],
    ),
    (
        "stream_bytes",
        "Payload and headers on TCP connections, by NIC; without headers of TCP and below",
        |it| [it.stream_bytes_sent, it.stream_bytes_received],
    ),
    ("frames", "Frames, acknowledgements too, by NIC", |it| [it.frames_sent, it.frames_received]),
    ("chunks", "Chunks, by NIC", |it| [it.chunks_sent, it.chunks_received]),
];

/// A count of each NIC.
type OneWay = (&'static str, &'static str, fn(&Statistics) -> u64);

const ONE_WAY: [OneWay; 6] = [
    ("detours", "Chunks that took this NIC and were planned for another", |it| it.detours),
    ("resent", "Chunks that a broken connection may have lost and were queued again", |it| {
        it.resent
    }),
    ("duplicates", "Chunks that came and were not needed: doubled, or late", |it| it.doubled),
    ("out_of_order", "Chunks that came after one that lies behind them", |it| it.out_of_order),
    ("stalls", "Connections that were closed since nothing was acknowledged", |it| it.stalls),
    ("breaks", "Connections that were closed or broke", |it| it.breaks),
];

/// What a runtime has counted, and whose that is.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The counters.
    pub counters: Counters,
    /// The server's name.
    pub server: String,
    /// The digest of the job's file.
    pub sha256: String,
    /// When the runtime began, since 1970 \[s\].
    pub started: f64,
}

impl Counted {
    /// The metrics in OpenMetrics text.
    ///
    /// # Errors
    /// None in practice: writing to a string does not fail.
    pub fn text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("lightloom_runtime");
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(out)
    }
}

/// Picoseconds as seconds.
fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Counters { nics, peers, fences } = &self.counters;
        let (gauge, counter) = (MetricType::Gauge, MetricType::Counter);
        let help = "Which runtime this is: its server, its version, the SHA-256 of its job's file";
        let mut to = encoder.encode_descriptor("info", help, None, gauge)?;
        let version = env!("CARGO_PKG_VERSION");
        let labels =
            [("server", self.server.as_str()), ("version", version), ("job_sha256", &self.sha256)];
        ConstGauge::new(1u64).encode(to.encode_family(&labels)?)?;
        let help = "When the runtime started, since 1970";
        let to = encoder.encode_descriptor("start_time_seconds", help, None, gauge)?;
        ConstGauge::new(self.started).encode(to)?;
        for (name, help, counts) in TWO_WAY {
            let mut to = encoder.encode_descriptor(name, help, None, counter)?;
            for it in nics {
                for (way, count) in ["sent", "received"].into_iter().zip(counts(&it.statistics)) {
                    let labels = [("nic", it.nic.as_str()), ("direction", way)];
                    ConstCounter::new(count).encode(to.encode_family(&labels)?)?;
                }
            }
        }
        for (name, help, count) in ONE_WAY {
            let mut to = encoder.encode_descriptor(name, help, None, counter)?;
            for it in nics {
                let labels = [("nic", it.nic.as_str())];
                ConstCounter::new(count(&it.statistics)).encode(to.encode_family(&labels)?)?;
            }
        }
        let help = "For how long nothing was acknowledged before connections were closed for it";
        let mut to = encoder.encode_descriptor("stalled_seconds", help, None, counter)?;
        for it in nics {
            let labels = [("nic", it.nic.as_str())];
            let stalled = seconds(it.statistics.stalled_ps);
            ConstCounter::new(stalled).encode(to.encode_family(&labels)?)?;
        }
        let help = "Payload of chunks, by other server, over all NICs";
        let mut to = encoder.encode_descriptor("peer_payload_bytes", help, None, counter)?;
        for it in peers {
            let counts = [it.statistics.bytes_sent, it.statistics.bytes_received];
            for (way, count) in ["sent", "received"].into_iter().zip(counts) {
                let labels = [("peer", it.peer.as_str()), ("direction", way)];
                ConstCounter::new(count).encode(to.encode_family(&labels)?)?;
            }
        }
        let help = "Drains of optical ports that the agent asked for and were done";
        let to = encoder.encode_descriptor("fences", help, None, counter)?;
        ConstCounter::new(fences.fences).encode(to)?;
        let help = "How long these drains took, from the agent's word";
        let to = encoder.encode_descriptor("fence_wait_seconds", help, None, counter)?;
        ConstCounter::new(seconds(fences.waited_ps)).encode(to)
    }
}
