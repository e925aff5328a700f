//! The engine's settings: the `engine` table of a resolved specification, as JSON. Every key must be
//! there, and no other may: defaults are filled in before. Sizes are bytes, times picoseconds.

use lightloom_units::{BitRate, Bytes, Time};
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
    pub overflow: Overflow,
}

/// What happens when a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Overflow {
    /// The packet is lost.
    Drop {},
    /// Its payload is cut off, its header goes on with priority.
    Trim {},
    /// It does not happen: an input port whose packets fill `xoff` bytes of the switch pauses its
    /// sender until they fill no more than `xon` (IEEE 802.1Qbb).
    Pfc {
        /// Bytes from one input port that cause a pause.
        xoff: Bytes,
        /// Bytes from one input port that end it.
        xon: Bytes,
        /// Bytes above `xoff` for what is on the wire when the pause is sent; more is lost.
        headroom: Bytes,
    },
}

/// What the hosts speak. A `window` that is absent is one and a half times the path's
/// bandwidth-delay product, unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TransportSpec {
    /// RoCEv2, go-back-N, with DCQCN (Zhu et al., SIGCOMM 2015).
    Dcqcn(DcqcnSpec),
    /// RoCEv2, go-back-N, at line rate; only PFC holds it back.
    Roce {
        /// The most bytes under way; absent: unlimited.
        window: Option<Bytes>,
        /// Silence after which everything not acknowledged is sent again.
        retransmit_after: Time,
    },
    /// Receiver-driven, on trimmed packets (NDP, Handley et al., SIGCOMM 2017).
    Ndp {
        /// Bytes sent at once, before the receiver has asked.
        window: Option<Bytes>,
        /// Silence after which everything not acknowledged is sent again.
        retransmit_after: Time,
    },
    /// A sender's window over sprayed packets, by marks and delay, in the spirit of Ultra Ethernet's
    /// NSCC.
    Spray(SpraySpec),
    /// DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257) with selective acknowledgements.
    Dctcp {
        /// The first window.
        window: Option<Bytes>,
        /// Gain of the estimate of the marked share.
        gain: f64,
        /// Silence after which everything not acknowledged is sent again.
        retransmit_after: Time,
    },
}

/// DCQCN's parameters, by the names of its paper.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DcqcnSpec {
    /// The most bytes under way; absent: unlimited, as published.
    pub window: Option<Bytes>,
    /// g: gain of alpha.
    pub gain: f64,
    /// N: a receiver sends at most one congestion notification a flow in this time.
    pub notification_interval: Time,
    /// K: alpha decays after this time without a notification.
    pub alpha_timer: Time,
    /// T: the rate rises after this time.
    pub rate_timer: Time,
    /// B: the rate rises after so many bytes.
    pub byte_counter: Bytes,
    /// F: rises towards the target before the target itself rises.
    pub fast_recovery: u32,
    /// R_AI: by how much the target rises.
    pub additive_increase: BitRate,
    /// R_HAI: by how much it rises once timer and counter have both passed F.
    pub hyper_increase: BitRate,
    /// The rate never falls below this.
    pub minimum_rate: BitRate,
    /// Silence after which everything not acknowledged is sent again.
    pub retransmit_after: Time,
}

/// The sprayed window transport.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpraySpec {
    /// The first and the largest window.
    pub window: Option<Bytes>,
    /// Queueing delay aimed at; absent: half of the path's round-trip time.
    pub target_delay: Option<Time>,
    /// Packets by which the window grows in a round trip without congestion.
    pub increase: f64,
    /// The most of its window that a flow gives up in a round trip.
    pub decrease: f64,
    /// The least window, in packets; below 1 it is one packet in more than a round trip.
    pub least_window: f64,
    /// Silence after which everything not acknowledged is sent again.
    pub retransmit_after: Time,
}

/// How flows spread over equal paths.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum BalancerSpec {
    /// Each flow on one, by a hash.
    Ecmp {},
    /// Each flow on one, by a hash, and on another after congestion, when it is idle (PLB, Qureshi
    /// et al., SIGCOMM 2022).
    Plb {
        /// Share of marked packets in a round trip that makes it congested.
        marked_share: f64,
        /// Congested round trips in a row after which an idle flow moves.
        rounds: u32,
        /// Congested round trips in a row after which any flow moves.
        rounds_busy: u32,
    },
    /// Each packet on its own, by paths that were good lately (REPS, Bonato et al., 2024).
    Reps {
        /// Paths that a flow tries, at most.
        paths: u32,
    },
    /// Each packet by the sub-flow with the shortest round trip that has room.
    MinRtt {},
    /// Each packet by the next path.
    RoundRobin {},
    /// As round-robin; all-to-alls on a rail-optimized fabric in chunks, each on the rail that LPT
    /// gives it (RailS).
    Rails {
        /// Size of a chunk.
        chunk: Bytes,
        /// Queue pairs of a rail.
        queue_pairs: u32,
        /// Whether a chunk's rail depends on the receivers' loads too.
        both_ends: bool,
    },
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
