//! Transports: one a file, each the congestion control of one sub-flow as a pure state machine. What
//! they share, sending again what was lost, is in [`crate::host`].

mod dcqcn;
mod dctcp;
mod ndp;
mod roce;
mod spray;

use crate::TransportSpec;

/// What a sender learns from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    /// Now \[ps\].
    pub now: u64,
    /// Packets newly acknowledged.
    pub packets: u32,
    /// The last of them was marked.
    pub marked: bool,
    /// How long data and acknowledgement were under way \[ps\].
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
    /// A full packet on the wire \[B\].
    pub packet: f64,
}

impl PathInfo {
    /// Bandwidth times delay, in whole packets \[B\].
    pub fn bandwidth_delay(&self) -> f64 {
        (self.rate * self.round_trip as f64 / self.packet).ceil().max(1.0) * self.packet
    }
    /// A window as given, at least a packet; or half as much again as the bandwidth-delay product,
    /// which leaves room for what acknowledgements wait behind packets that go the other way.
    pub fn window(&self, given: Option<lightloom_units::Bytes>) -> f64 {
        given.map_or(1.5 * self.bandwidth_delay(), |w| (w.get() as f64).max(self.packet))
    }
}

/// The congestion control of one sub-flow.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Dcqcn(dcqcn::Dcqcn),
    Roce(roce::Roce),
    Ndp(ndp::Ndp),
    Spray(spray::Spray),
    Dctcp(dctcp::Dctcp),
}

impl Control {
    pub fn new(spec: &TransportSpec, path: PathInfo, now: u64) -> Self {
        match *spec {
            TransportSpec::Dcqcn(spec) => Control::Dcqcn(dcqcn::Dcqcn::new(spec, path, now)),
            TransportSpec::Roce { window, .. } => Control::Roce(roce::Roce::new(window)),
            TransportSpec::Ndp { window, .. } => Control::Ndp(ndp::Ndp::new(window, path)),
            TransportSpec::Spray(spec) => Control::Spray(spray::Spray::new(spec, path)),
            TransportSpec::Dctcp { window, gain, .. } => {
                Control::Dctcp(dctcp::Dctcp::new(window, gain, path))
            }
        }
    }

    /// The most bytes under way.
    #[inline]
    pub fn window(&self) -> f64 {
        match self {
            Control::Dcqcn(c) => c.window(),
            Control::Roce(c) => c.window(),
            Control::Ndp(_) => f64::INFINITY,
            Control::Spray(c) => c.window(),
            Control::Dctcp(c) => c.window(),
        }
    }

    /// Whether one more packet may be sent, so many being under way.
    #[inline]
    pub fn may_send(&self, under_way: u32, packet: f64) -> bool {
        match self {
            Control::Ndp(c) => c.may_send(),
            _ => under_way == 0 || f64::from(under_way + 1) * packet <= self.window(),
        }
    }

    /// A packet of so many bytes was sent; how long the next one must wait at least \[ps\].
    #[inline]
    pub fn sent(&mut self, bytes: u64, now: u64) -> u64 {
        match self {
            Control::Dcqcn(c) => c.sent(bytes, now),
            Control::Spray(c) => c.gap(),
            Control::Ndp(c) => {
                c.sent();
                0
            }
            Control::Roce(_) | Control::Dctcp(_) => 0,
        }
    }

    pub fn acked(&mut self, ack: Ack) {
        match self {
            Control::Dcqcn(_) | Control::Roce(_) | Control::Ndp(_) => {}
            Control::Spray(c) => c.acked(ack),
            Control::Dctcp(c) => c.acked(ack),
        }
    }

    /// The receiver says that a packet sent at a time did not arrive whole.
    pub fn lost(&mut self, sent: u64, now: u64) {
        match self {
            Control::Spray(c) => c.lost(sent, now),
            Control::Dctcp(c) => c.lost(now),
            Control::Dcqcn(_) | Control::Roce(_) | Control::Ndp(_) => {}
        }
    }

    /// The sender heard nothing for too long.
    pub fn timed_out(&mut self) {
        match self {
            Control::Spray(c) => c.timed_out(),
            Control::Dctcp(c) => c.timed_out(),
            Control::Ndp(c) => c.timed_out(),
            Control::Dcqcn(_) | Control::Roce(_) => {}
        }
    }

    /// A congestion notification came.
    pub fn notified(&mut self, now: u64) {
        if let Control::Dcqcn(c) = self {
            c.notified(now);
        }
    }

    /// The receiver lets one more packet come.
    pub fn pulled(&mut self) {
        if let Control::Ndp(c) = self {
            c.pulled();
        }
    }
}

impl TransportSpec {
    /// Whether the receiver takes packets in order only, and the sender goes back to the first one
    /// that is missing.
    pub const fn go_back_n(&self) -> bool {
        matches!(self, TransportSpec::Dcqcn(_) | TransportSpec::Roce { .. })
    }
    /// Whether the receiver paces the sender.
    pub(crate) const fn pulls(&self) -> bool {
        matches!(self, TransportSpec::Ndp { .. })
    }
    /// How long a receiver stays silent about marks after a notification \[ps\]; `None` if it sends
    /// none at all.
    pub(crate) fn notification_interval(&self) -> Option<u64> {
        match self {
            TransportSpec::Dcqcn(spec) => Some(spec.notification_interval.ps()),
            _ => None,
        }
    }
    pub(crate) fn retransmit_after(&self) -> u64 {
        match self {
            TransportSpec::Dcqcn(spec) => spec.retransmit_after,
            TransportSpec::Spray(spec) => spec.retransmit_after,
            TransportSpec::Roce { retransmit_after, .. }
            | TransportSpec::Ndp { retransmit_after, .. }
            | TransportSpec::Dctcp { retransmit_after, .. } => *retransmit_after,
        }
        .ps()
    }
    /// The window that was asked for.
    pub(crate) fn given_window(&self) -> Option<u64> {
        match self {
            TransportSpec::Dcqcn(spec) => spec.window,
            TransportSpec::Spray(spec) => spec.window,
            TransportSpec::Roce { window, .. }
            | TransportSpec::Ndp { window, .. }
            | TransportSpec::Dctcp { window, .. } => *window,
        }
        .map(lightloom_units::Bytes::get)
    }
}
