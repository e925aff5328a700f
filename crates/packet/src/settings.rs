//! A specification as a run asks for it, packet by packet: plain numbers.

use crate::balancer::plug::Paths;
use crate::overflow::plug::Buffer;
use crate::packet::Packet;
use crate::spec::PacketSpec;
use lightloom_units::Time;

/// A train's bytes are counted in 16 bits between servers,
const LONGEST_TRAIN: u64 = u16::MAX as u64;
/// and in 24 inside.
const LONGEST_INSIDE: u64 = (1 << 24) - 1;

#[derive(Debug)]
pub(crate) struct RunSettings {
    /// Of each packet \[B\].
    pub header: u64,
    /// What a queue holds \[B\].
    pub queue_limit: u64,
    /// What the queues of a switch share.
    pub buffer: Option<Buffer>,
    /// Switches choose what is left of a packet's path.
    pub steers: bool,
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
    /// Packets that may travel as one: between servers, and inside.
    pub train: u32,
    pub train_inside: u32,
    /// A full packet between servers, on the wire \[B\].
    pub full: u64,
    /// And of a path that stays inside a server.
    pub full_inside: u64,
    pub go_back_n: bool,
    /// Receivers grant what is to come.
    pub grants: bool,
    /// Packets on one path do not overtake one another.
    pub gaps_are_losses: bool,
    pub notification_interval: Option<u64>,
    pub retransmit_after: u64,
}

impl RunSettings {
    pub fn new(spec: &PacketSpec) -> Self {
        let switch = spec.switch;
        let (overflow, pause) = (switch.overflow.kind().capabilities, switch.overflow.pause());
        let full = spec.mtu.get() + spec.header.get();
        let full_inside = spec.scale_up_mtu.get() + spec.header.get();
        let train = |longest: u64, full| (u64::from(spec.train).min(longest / full) as u32).max(1);
        let xoff = pause.map_or(0, |pause| pause.xoff.get());
        let span = switch.ecn_high.get().saturating_sub(switch.ecn_low.get());
        let paths = spec.balancer.kind().capabilities.paths;
        RunSettings {
            header: spec.header.get(),
            queue_limit: if overflow.limits_queue { switch.queue.get() } else { u64::MAX },
            buffer: switch.overflow.buffer(),
            steers: paths == Paths::EveryHop,
            trims: overflow.trims,
            pauses: pause.is_some(),
            xoff,
            xon: pause.map_or(0, |pause| pause.xon.get()),
            xoff_and_headroom: pause.map_or(0, |p| xoff.saturating_add(p.headroom.get())),
            ecn_low: switch.ecn_low.get(),
            ecn_high: switch.ecn_high.get(),
            ecn_slope: if span == 0 { 1.0 } else { switch.ecn_probability / span as f64 },
            ack_every: spec.ack_every.clamp(1, 1 << 14),
            train: train(LONGEST_TRAIN, full),
            train_inside: train(LONGEST_INSIDE, full_inside),
            full,
            full_inside,
            go_back_n: spec.transport.kind().capabilities.go_back_n,
            grants: spec.transport.kind().capabilities.grants,
            gaps_are_losses: !overflow.trims && !paths.reorder(),
            notification_interval: spec.transport.notification_interval().map(Time::ps),
            retransmit_after: spec.transport.retransmit_after().ps().max(1),
        }
    }

    /// The ports of a switch look at one another, so that a switch is one unit.
    pub fn joint_ports(&self) -> bool {
        self.pauses || self.buffer.is_some() || self.steers
    }

    /// How many packets travel as one of so many bytes, if they are no larger than `full`.
    #[inline]
    pub fn packets_in(&self, size: u64, full: u64) -> u32 {
        if self.trains() { size.div_ceil(full) as u32 } else { 1 }
    }

    /// Whether packets may travel as trains.
    #[inline]
    pub fn trains(&self) -> bool {
        self.train_inside > 1 || self.train > 1
    }

    /// A full packet of the connection of a data packet \[B\].
    #[inline]
    pub fn full_of(&self, packet: &Packet) -> u64 {
        if packet.is_inside() { self.full_inside } else { self.full }
    }

    /// The longest train \[B\].
    pub fn longest_train(&self) -> u64 {
        (u64::from(self.train) * self.full).max(u64::from(self.train_inside) * self.full_inside)
    }

    /// Headers that a control packet stands for: an acknowledgement of a train is as many as its packets
    /// would have been.
    #[inline]
    pub fn headers(&self, count: u16) -> u64 {
        if self.trains() { u64::from((u32::from(count) / self.ack_every).max(1)) } else { 1 }
    }
}
