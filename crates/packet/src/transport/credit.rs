//! Credits from receivers (ExpressPass, Cho et al., SIGCOMM 2017): the first packet of a flow asks, and the
//! receiver grants all that is to come, a packet at a time, at the rate of its link, flow by flow in turn.
//! So no more comes to a receiver than its link carries, and queues stay short there whatever meets.
//! Ignored: credits that are lost on the way to shape traffic inside the network; here they go first, and
//! are not lost.

use super::ndp::Ndp;
use super::plug::{Ack, BYTES, Capabilities, PathInfo, RETRANSMIT_AFTER, Transport};
use lightloom_units::kind::{Key, Kind};
use lightloom_units::{Bytes, Time};
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "credit",
    summary: "Receivers grant what may be sent, at the rate of their links",
    source: Some("ExpressPass, Cho et al., SIGCOMM 2017"),
    keys: &[
        Key::optional(
            "window",
            BYTES,
            "What a flow sends before the receiver grants more. Unless given: one packet, which asks.",
        ),
        RETRANSMIT_AFTER,
    ],
    capabilities: Capabilities { go_back_n: false, pulls: true, grants: true, train: 1 },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    window: Option<Bytes>,
    retransmit_after: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    /// A credit is spent as leave to send is there.
    leave: Ndp,
    /// Packets were lost that nobody told of: what is acknowledged lets one of them be sent again.
    recovers: bool,
}

impl Transport for Credit {
    type Settings = Settings;

    fn new(settings: &Settings, path: PathInfo, _: u64) -> Self {
        let window = settings.window.map_or(path.packet, |w| w.get() as f64);
        Credit { leave: Ndp::with(window, path), recovers: false }
    }
    /// The receiver's credits are the limit.
    #[inline]
    fn window(&self) -> f64 {
        self.leave.window()
    }
    #[inline]
    fn may_send(&self, in_flight: u32, packet: f64) -> bool {
        self.leave.may_send(in_flight, packet)
    }
    #[inline]
    fn sent(&mut self, bytes: u64, now: u64) -> u64 {
        self.leave.sent(bytes, now)
    }
    fn pulled(&mut self) {
        self.leave.pulled();
    }
    fn acked(&mut self, ack: Ack) {
        self.recovers &= !ack.idle;
        if self.recovers {
            self.leave.timed_out();
        }
    }
    /// Credits are for packets that are gone: one packet at a time.
    fn timed_out(&mut self) {
        self.leave.timed_out();
        self.recovers = true;
    }
    fn unasked(&self) -> u32 {
        self.leave.unasked()
    }
    /// What is sent unasked fills nothing.
    fn given_window(_: &Settings) -> Option<Bytes> {
        None
    }
    fn retransmit_after(settings: &Settings) -> Time {
        settings.retransmit_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_credit_is_one_packet() {
        let path = PathInfo {
            rate: 0.0125,
            round_trip: 8_000_000,
            longest: 8_000_000,
            answers_wait: 1_000_000,
            packet: 4160.0,
        };
        let with = |window| {
            let settings = Settings { window, retransmit_after: Time::from_ms(4) };
            Credit::new(&settings, path, 0)
        };
        let mut credit = with(None);
        assert_eq!((credit.unasked(), with(Some(Bytes::new(4161))).unasked()), (1, 2));
        let send = |credit: &mut Credit| credit.may_send(0, 4160.0) && credit.sent(4160, 0) == 0;
        assert!(send(&mut credit) && !send(&mut credit));
        credit.pulled();
        credit.pulled();
        credit.timed_out();
        assert!(send(&mut credit) && send(&mut credit) && !send(&mut credit));
        credit.timed_out();
        assert!(send(&mut credit) && !send(&mut credit));
        let mut hear = |idle| {
            let ack = Ack { now: 0, packets: 1, marked: false, round_trip: 8_000_000, idle };
            credit.acked(ack);
            send(&mut credit)
        };
        assert_eq!([hear(false), hear(false), hear(true), hear(false)], [true, true, false, false]);
    }
}
