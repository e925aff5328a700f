//! A specification as a run asks for it, packet by packet: plain numbers.

use crate::balancer::plug::Paths;
use crate::spec::PacketSpec;
use lightloom_units::Time;

#[derive(Debug)]
pub(crate) struct RunSettings {
    /// Of each packet \[B\].
    pub header: u64,
    /// What a queue holds \[B\].
    pub queue_limit: u64,
    pub trims: bool,
    pub pauses: bool,
    pub xoff: u64,
    pub xon: u64,
    pub xoff_and_headroom: u64,
    pub ecn_low: u64,
    pub ecn_high: u64,
    /// By how much the probability of a mark rises with each byte between the two.
    pub ecn_slope: f64,
    pub ack_every: u32,
    pub go_back_n: bool,
    /// Packets on one path do not overtake one another.
    pub gaps_are_losses: bool,
    pub notification_interval: Option<u64>,
    pub retransmit_after: u64,
}

impl RunSettings {
    pub fn new(spec: &PacketSpec) -> Self {
        let switch = spec.switch;
        let (overflow, pause) = (switch.overflow.kind().capabilities, switch.overflow.pause());
        let xoff = pause.map_or(0, |pause| pause.xoff.get());
        let span = switch.ecn_high.get().saturating_sub(switch.ecn_low.get());
        let sprays = spec.balancer.kind().capabilities.paths == Paths::EveryPacket;
        RunSettings {
            header: spec.header.get(),
            queue_limit: if overflow.limits_queue { switch.queue.get() } else { u64::MAX },
            trims: overflow.trims,
            pauses: pause.is_some(),
            xoff,
            xon: pause.map_or(0, |pause| pause.xon.get()),
            xoff_and_headroom: pause.map_or(0, |p| xoff.saturating_add(p.headroom.get())),
            ecn_low: switch.ecn_low.get(),
            ecn_high: switch.ecn_high.get(),
            ecn_slope: if span == 0 { 1.0 } else { switch.ecn_probability / span as f64 },
            ack_every: spec.ack_every.clamp(1, 1 << 14),
            go_back_n: spec.transport.kind().capabilities.go_back_n,
            gaps_are_losses: !overflow.trims && !sprays,
            notification_interval: spec.transport.notification_interval().map(Time::ps),
            retransmit_after: spec.transport.retransmit_after().ps().max(1),
        }
    }
}
