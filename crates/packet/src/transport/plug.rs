//! What a transport is: the congestion control of one sub-flow, as a pure state machine, and what the
//! rest of the house must know of it. What transports share, sending again what was lost, is in
//! [`crate::host`].

use lightloom_units::kind::{Form, Key};
use lightloom_units::{Bytes, Time};
use serde::Serialize;

/// What others must know of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Whether the receiver takes packets in order only, and the sender goes back to the first one
    /// that is missing.
    pub go_back_n: bool,
    /// Whether the receiver paces the sender, by a pull for each packet.
    pub pulls: bool,
    /// Whether its pulls are for packets to come, and not for those that came.
    pub grants: bool,
    /// Packets that may travel as a train so that iterations and the 99th percentile of their flows stay
    /// within 2 % of packets by themselves, as measured (docs/performance.md); 1 where none do.
    pub train: u32,
}

/// Bytes; no job comes near the most.
pub(crate) const BYTES: Form = Form::Size { min: 1, max: 1 << 40 };
/// What is shorter than a packet's time costs events and decides nothing.
pub(crate) const SPAN: Form = Form::Time { min: 100_000, max: 1_000_000_000_000_000 };
/// A key of senders at line rate.
pub(crate) const UNLIMITED_WINDOW: Key = Key::optional(
    "window",
    BYTES,
    "The most bytes of a flow in flight. Unless given: without limit.",
);
/// A key of senders that begin with a window: see [`PathInfo::window`].
pub(crate) const FIRST_WINDOW: Key = Key::optional(
    "window",
    BYTES,
    "The most bytes of a flow in flight at first. Unless given: one and a half times the path's \
     bandwidth-delay product.",
);
/// A key of every transport.
pub(crate) const RETRANSMIT_AFTER: Key = Key::new(
    "retransmit_after",
    SPAN,
    "Silence after which everything not acknowledged is sent again.",
);

/// What a sender learns from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    /// Now \[ps\].
    pub now: u64,
    /// Packets newly acknowledged.
    pub packets: u32,
    /// The last of them was marked.
    pub marked: bool,
    /// How long data and acknowledgement were in flight \[ps\].
    pub round_trip: u64,
    /// Nothing is left to send: the window is not what holds the flow back.
    pub idle: bool,
}

/// What a transport must know of its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathInfo {
    /// The narrowest link \[B/ps\].
    pub rate: f64,
    /// A packet out and its acknowledgement back, through empty queues \[ps\].
    pub round_trip: u64,
    /// The same between the two NICs of the network that are furthest apart \[ps\].
    pub longest: u64,
    /// What it takes longer if an answer waits behind a full packet on each link \[ps\].
    pub answers_wait: u64,
    /// A full packet on the wire \[B\].
    pub packet: f64,
}

impl PathInfo {
    /// Bandwidth times delay, in whole packets \[B\].
    pub fn bandwidth_delay(&self) -> f64 {
        (self.rate * self.round_trip as f64 / self.packet).ceil().max(1.0) * self.packet
    }
    /// A window as given, at least a packet; or half as much again as the bandwidth-delay product,
    /// which leaves room for what acknowledgements wait behind packets in the other direction.
    pub fn window(&self, given: Option<Bytes>) -> f64 {
        given.map_or(1.5 * self.bandwidth_delay(), |w| (w.get() as f64).max(self.packet))
    }
}

/// The congestion control of one sub-flow.
pub(crate) trait Transport: Sized {
    /// What its table of the specification holds.
    type Settings;

    /// For a sub-flow over a path, from now on \[ps\].
    fn new(settings: &Self::Settings, path: PathInfo, now: u64) -> Self;

    /// The most bytes in flight.
    fn window(&self) -> f64;

    /// Whether one more packet of so many bytes may be sent, so many being in flight.
    #[inline]
    fn may_send(&self, in_flight: u32, packet: f64) -> bool {
        in_flight == 0 || f64::from(in_flight + 1) * packet <= self.window()
    }

    /// A packet of so many bytes was sent; how long the next one must wait at least \[ps\].
    #[inline]
    fn sent(&mut self, bytes: u64, now: u64) -> u64 {
        let _ = (bytes, now);
        0
    }

    /// When the next packet may be sent, after what was heard since the last one \[ps\].
    #[inline]
    fn may_send_from(&self) -> u64 {
        0
    }

    /// An acknowledgement came.
    #[inline]
    fn acked(&mut self, ack: Ack) {
        let _ = ack;
    }

    /// The receiver says that a packet sent at a time did not arrive whole.
    fn lost(&mut self, sent: u64, now: u64) {
        let _ = (sent, now);
    }

    /// The sender heard nothing for too long.
    fn timed_out(&mut self) {}

    /// A congestion notification came; see [`Transport::notification_interval`].
    fn notified(&mut self, now: u64) {
        let _ = now;
    }

    /// The receiver lets one more packet come; see [`Capabilities::pulls`].
    fn pulled(&mut self) {}

    /// Packets that may be sent before the receiver lets any come; see [`Capabilities::grants`].
    fn unasked(&self) -> u32 {
        u32::MAX
    }

    /// The window that was asked for.
    fn given_window(settings: &Self::Settings) -> Option<Bytes>;

    /// Silence after which everything not acknowledged is sent again.
    fn retransmit_after(settings: &Self::Settings) -> Time;

    /// How long a receiver stays silent about marks after a notification; `None` if it sends none.
    fn notification_interval(settings: &Self::Settings) -> Option<Time> {
        let _ = settings;
        None
    }
}
