//! NDP (Handley et al., SIGCOMM 2017): a first round trip at line rate, then one packet for each pull. More
//! than that does not fit into queues of eight packets, and stays in them to the end.
//! Switches cut the payload off what they cannot queue; the receiver asks for it again at once, and
//! paces its pulls over all of its flows at the rate of its link ([`crate::host`]).

use super::plug::{BYTES, Capabilities, PathInfo, RETRANSMIT_AFTER, Transport};
use lightloom_units::kind::{Key, Kind};
use lightloom_units::{Bytes, Time};
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "ndp",
    summary: "Receiver-driven, on trimmed packets",
    source: Some("NDP, Handley et al., SIGCOMM 2017"),
    keys: &[
        Key::optional(
            "window",
            BYTES,
            "The most bytes of a flow in flight at first. Unless given: what the path carries in a round \
             trip in which pulls wait behind a packet on each link.",
        ),
        RETRANSMIT_AFTER,
    ],
    capabilities: Capabilities { go_back_n: false, pulls: true, grants: false, train: 1 },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    window: Option<Bytes>,
    retransmit_after: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ndp {
    /// Packets that may be sent.
    credit: u32,
}

impl Ndp {
    /// One that may send so many bytes at first, a packet at least.
    pub(super) fn with(window: f64, path: PathInfo) -> Self {
        Ndp { credit: (window / path.packet).ceil().max(1.0) as u32 }
    }
}

impl Transport for Ndp {
    type Settings = Settings;

    fn new(settings: &Settings, path: PathInfo, _: u64) -> Self {
        let round_trip = (path.round_trip + path.answers_wait) as f64;
        Ndp::with(settings.window.map_or(path.rate * round_trip, |w| w.get() as f64), path)
    }
    /// The receiver's pulls are the limit.
    #[inline]
    fn window(&self) -> f64 {
        f64::INFINITY
    }
    #[inline]
    fn may_send(&self, _: u32, _: f64) -> bool {
        self.credit > 0
    }
    #[inline]
    fn sent(&mut self, _: u64, _: u64) -> u64 {
        self.credit = self.credit.saturating_sub(1);
        0
    }
    fn pulled(&mut self) {
        self.credit += 1;
    }
    /// Its packets, or the pulls for them, were lost: one packet asks for the next.
    fn timed_out(&mut self) {
        self.credit = self.credit.max(1);
    }
    fn unasked(&self) -> u32 {
        self.credit
    }
    fn given_window(settings: &Settings) -> Option<Bytes> {
        settings.window
    }
    fn retransmit_after(settings: &Settings) -> Time {
        settings.retransmit_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pull_is_one_packet() {
        let path = PathInfo {
            rate: 0.0125,
            round_trip: 8_000_000,
            longest: 8_000_000,
            answers_wait: 1_000_000,
            packet: 4160.0,
        };
        let settings = Settings { window: None, retransmit_after: Time::from_ms(4) };
        let mut ndp = Ndp::new(&settings, path, 0);
        let send = |ndp: &mut Ndp| ndp.may_send(0, 4160.0) && ndp.sent(4160, 0) == 0;
        let first = (0..).take_while(|_| send(&mut ndp)).count();
        assert_eq!(first, 28); // 112.5 kB at 100 Gbps and 9 us, rounded up
        ndp.pulled();
        assert!(send(&mut ndp));
        assert!(!send(&mut ndp));
    }
}
