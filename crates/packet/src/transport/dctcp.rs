//! DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257): the window shrinks by half of the share of marked
//! packets, estimated once a window. Slow start from the first window; selective acknowledgements.

use super::plug::{Ack, Capabilities, FIRST_WINDOW, PathInfo, RETRANSMIT_AFTER, Transport};
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::{Bytes, Time};
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "dctcp",
    summary: "DCTCP with selective acknowledgements",
    source: Some("Alizadeh et al., SIGCOMM 2010; RFC 8257"),
    keys: &[
        FIRST_WINDOW,
        Key::new("gain", Form::SHARE, "The gain of the estimate of the marked share."),
        RETRANSMIT_AFTER,
    ],
    capabilities: Capabilities { go_back_n: false, pulls: false, grants: false, train: 1 },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    window: Option<Bytes>,
    gain: f64,
    retransmit_after: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dctcp {
    window: f64,
    packet: f64,
    gain: f64,
    /// Estimate of the marked share; 1 at first, so that the first mark halves the window (RFC 8257,
    /// Section 3.3).
    alpha: f64,
    threshold: f64,
    /// Bytes acknowledged, and how many of them marked, in this window.
    acked: f64,
    marked: f64,
    /// No loss halves the window again before this time \[ps\].
    recovered: u64,
    round_trip: u64,
}

impl Transport for Dctcp {
    type Settings = Settings;

    fn new(settings: &Settings, path: PathInfo, _: u64) -> Self {
        Dctcp {
            window: path.window(settings.window),
            packet: path.packet,
            gain: settings.gain,
            alpha: 1.0,
            threshold: f64::INFINITY,
            acked: 0.0,
            marked: 0.0,
            recovered: 0,
            round_trip: path.round_trip,
        }
    }

    #[inline]
    fn window(&self) -> f64 {
        self.window
    }

    fn acked(&mut self, ack: Ack) {
        let bytes = f64::from(ack.packets) * self.packet;
        self.round_trip = ack.round_trip;
        self.acked += bytes;
        if ack.marked {
            self.marked += bytes;
        } else if !ack.idle {
            self.window += match self.window < self.threshold {
                true => bytes,
                false => self.packet * bytes / self.window,
            };
        }
        if self.acked >= self.window {
            self.alpha += self.gain * (self.marked / self.acked - self.alpha);
            if self.marked > 0.0 {
                self.shrink(self.alpha / 2.0);
            }
            (self.acked, self.marked) = (0.0, 0.0);
        }
    }

    fn lost(&mut self, _: u64, now: u64) {
        if now >= self.recovered {
            self.shrink(0.5);
            self.recovered = now + self.round_trip;
        }
    }

    fn timed_out(&mut self) {
        self.threshold = (self.window / 2.0).max(2.0 * self.packet);
        self.window = self.packet;
    }
    fn given_window(settings: &Settings) -> Option<Bytes> {
        settings.window
    }
    fn retransmit_after(settings: &Settings) -> Time {
        settings.retransmit_after
    }
}

impl Dctcp {
    fn shrink(&mut self, share: f64) {
        self.window = (self.window * (1.0 - share)).max(self.packet);
        self.threshold = self.window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(marked: bool) -> Ack {
        Ack { now: 0, packets: 1, marked, round_trip: 8_000_000, idle: false }
    }

    #[test]
    fn halves_at_first_and_then_by_the_marked_share() {
        let path = PathInfo {
            rate: 0.0125,
            round_trip: 8_000_000,
            longest: 8_000_000,
            answers_wait: 1_000_000,
            packet: 1000.0,
        };
        let settings = Settings {
            window: Some(Bytes::new(10_000)),
            gain: 1.0 / 16.0,
            retransmit_after: Time::from_ms(10),
        };
        let mut d = Dctcp::new(&settings, path, 0);
        (0..10).for_each(|_| d.acked(ack(true)));
        assert_eq!(d.window(), 5_000.0);
        // One mark in ten from now on: alpha comes down to a tenth, and so do the cuts.
        for i in 0..20_000 {
            d.acked(ack(i % 10 == 0));
        }
        assert!((d.alpha - 0.1).abs() < 0.05, "{}", d.alpha);
        d.lost(0, 0);
        let halved = d.window();
        d.lost(0, 1);
        assert_eq!(d.window(), halved, "one loss a round trip counts");
    }
}
