//! The engine's settings: the `engine` table of a resolved specification, as JSON. Every key must be
//! there, and no other may: defaults are filled in before. Sizes are bytes, times picoseconds.

use crate::balancer::BalancerSpec;
use crate::overflow::OverflowSpec;
use crate::transport::TransportSpec;
use lightloom_units::{Bytes, Time};
use serde::Deserialize;

/// Everything that a packet run depends on, but for the scenario and the seed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketSpec {
    /// Payload of a full packet on the network \[B\].
    pub mtu: Bytes,
    /// Headers of every packet, and the whole of an acknowledgement, a pull or a trimmed packet \[B\].
    pub header: Bytes,
    /// Payload of a full packet on a path that stays inside a server \[B\].
    pub scale_up_mtu: Bytes,
    /// An acknowledgement for every so many packets in order.
    pub ack_every: u32,
    /// A flow's packets that may travel together as one event. What waits for more than one packet waits
    /// for as many as may be sent; a train is at most 64 KiB between servers and 16 MiB inside.
    pub train: u32,
    /// What the hosts speak.
    pub transport: TransportSpec,
    /// How flows spread over equal paths.
    pub balancer: BalancerSpec,
    /// What the switches do.
    pub switch: SwitchSpec,
    /// What becomes of packets whose circuit is dark.
    pub dark: Dark,
    /// Queues are sampled this often; zero: never \[ps\].
    pub sample_period: Time,
}

/// A switch's ports.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    /// Bytes that an output port's data queue holds. With PFC only the headroom of the input port
    /// limits what is queued.
    pub queue: Bytes,
    /// No packet is marked (ECN) that finds fewer bytes than this in the queue.
    pub ecn_low: Bytes,
    /// Every packet is marked that finds this many or more.
    pub ecn_high: Bytes,
    /// Share of packets marked just below `ecn_high`; linear in between.
    pub ecn_probability: f64,
    /// What happens when a queue is full.
    pub overflow: OverflowSpec,
}

/// What becomes of packets whose circuit is dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dark {
    /// The NIC holds them until there is light.
    Hold,
    /// The NIC does not know; they are lost.
    Lose,
}
