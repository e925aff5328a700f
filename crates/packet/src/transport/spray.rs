//! A sender's window for sprayed packets, by marks and by delay, in the spirit of the network-signal
//! congestion control (NSCC) of Ultra Ethernet 1.0: a packet is acknowledged on its own, whatever its
//! path, and (mark, delay) together say what to do.
//!
//! | | delay below target | delay above |
//! |---|---|---|
//! | no mark | grow, the more the lower the delay | grow slowly |
//! | mark | hold | shrink by the excess, once a round trip |
//!
//! While a whole window comes through without marks and hardly late, the window grows by what comes
//! through, so that few flows soon take what many have left (fast increase, of SMaRTT, Bonato et al.,
//! arXiv 2404.01630, and NSCC).
//! A trimmed packet takes its own size off the window, down to one; below that it halves the window, and
//! one that comes through doubles it, marked or not. A window of less than a packet is one packet in more
//! than a round trip, as in Swift (Kumar et al., SIGCOMM 2020): where hundreds of flows meet, one packet
//! each is already too much. In the round trip that begins with a trimmed packet it is counted what
//! comes through; if that is less than an eighth, the window falls to as much of it as the target delay
//! allows (NSCC's quick adaptation). What was sent before that and is trimmed says nothing new then.
//! What is aimed at is one delay for the whole network, and windows grow with its bandwidth-delay product:
//! near and far flows that meet at a receiver then yield alike (NSCC).
//! Departures: no credit from the receiver; NSCC compares with an eighth of the largest window, which a
//! NIC that serves many flows never gives one of them.

use super::plug::{Ack, Capabilities, FIRST_WINDOW, PathInfo, RETRANSMIT_AFTER, SPAN, Transport};
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::{Bytes, Time};
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "spray",
    summary: "A sender's window over sprayed packets, in the spirit of Ultra Ethernet's NSCC",
    source: None,
    keys: &[
        FIRST_WINDOW,
        Key::optional(
            "target_delay",
            SPAN,
            "Queueing delay aimed at. Unless given: three quarters of the network's longest round trip.",
        ),
        Key::new(
            "increase",
            Form::Number { above: 0.0, max: 1000.0 },
            "Packets by which the window grows in a round trip without congestion where the network's rate \
             times its longest round trip is 150 kB and the delay aimed at 12 us; it grows with both.",
        ),
        Key::new(
            "decrease",
            Form::SHARE,
            "The most of its window that a flow gives up in a round trip.",
        ),
        Key::new(
            "least_window",
            Form::SHARE,
            "The least window, in packets: below 1 it is one packet in more than a round trip.",
        ),
        RETRANSMIT_AFTER,
    ],
    capabilities: Capabilities { go_back_n: false, pulls: false, grants: false, train: 4 },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    window: Option<Bytes>,
    target_delay: Option<Time>,
    increase: f64,
    decrease: f64,
    least_window: f64,
    retransmit_after: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Spray {
    window: f64,
    largest: f64,
    least: f64,
    packet: f64,
    increase: f64,
    decrease: f64,
    /// Round trip through empty queues \[ps\].
    base: u64,
    /// Queueing delay aimed at \[ps\].
    target: f64,
    /// Queueing delay, averaged over some packets \[ps\].
    delay: f64,
    /// No decrease before this time \[ps\].
    settled: u64,
    /// When the first packet was trimmed since the last adaptation \[ps\], and what was acknowledged
    /// and trimmed from then on.
    trimmed: Option<u64>,
    acked: f64,
    lost: f64,
    /// The last adaptation \[ps\].
    adapted: u64,
    /// Acknowledged in a row without a mark and hardly late.
    clear: f64,
    /// When the last packet was sent \[ps\].
    sent: u64,
}

/// Weight of a packet's delay in the average.
const WEIGHT: f64 = 1.0 / 8.0;
/// Delay below which queues are as good as empty \[ps\].
const CLEAR: f64 = 1e6;
/// The share of what was sent that comes through, below which the window falls to it.
const SEVERE: f64 = 1.0 / 8.0;

impl Transport for Spray {
    type Settings = Settings;

    fn new(settings: &Settings, path: PathInfo, _: u64) -> Self {
        let window = path.window(settings.window);
        let longest = path.longest as f64;
        let target = settings.target_delay.map_or(0.75 * longest, |t| t.ps() as f64);
        Spray {
            window,
            largest: window,
            least: settings.least_window * path.packet,
            packet: path.packet,
            increase: settings.increase * (path.rate * longest / 150e3) * (target / 12e6),
            decrease: settings.decrease,
            base: path.round_trip,
            target,
            delay: 0.0,
            settled: 0,
            trimmed: None,
            acked: 0.0,
            lost: 0.0,
            adapted: 0,
            clear: 0.0,
            sent: 0,
        }
    }

    #[inline]
    fn window(&self) -> f64 {
        self.window
    }

    /// A flow with less than a packet of window stays silent for long after one.
    #[inline]
    fn sent(&mut self, _: u64, now: u64) -> u64 {
        self.sent = now;
        0
    }

    #[inline]
    fn may_send_from(&self) -> u64 {
        match self.window < self.packet {
            true => {
                self.sent + ((self.base as f64 + self.delay) * self.packet / self.window) as u64
            }
            false => 0,
        }
    }

    fn acked(&mut self, ack: Ack) {
        let delay = ack.round_trip.saturating_sub(self.base) as f64;
        self.delay += WEIGHT * (delay - self.delay);
        let bytes = f64::from(ack.packets) * self.packet;
        if let Some(since) = self.trimmed {
            self.acked += bytes;
            if ack.now >= since + ack.round_trip {
                let share = (self.base as f64 + self.target) / ack.round_trip.max(1) as f64;
                let through = (self.acked * share.min(1.0)).max(self.packet);
                if self.acked < SEVERE * (self.acked + self.lost) {
                    self.window = self.window.min(through);
                }
                (self.trimmed, self.adapted) = (None, ack.now);
            }
        }
        self.clear = if ack.marked || delay >= CLEAR { 0.0 } else { self.clear + bytes };
        if self.window < self.packet {
            self.window = (2.0 * self.window).min(self.packet);
        } else if !ack.marked {
            let share = if delay < self.target { 1.0 - delay / self.target } else { 0.0 };
            // `increase` packets a round trip at most, one at least.
            let packets = (self.increase * share).max(1.0);
            let growth = packets * self.packet * bytes / self.window;
            let fast = if self.clear > self.window { bytes } else { 0.0 };
            self.window += growth.max(fast);
        } else if delay >= self.target && self.delay > self.target && ack.now >= self.settled {
            let excess = 1.0 - self.target / self.delay;
            self.window *= 1.0 - self.decrease * excess;
            self.settled = ack.now + self.base + delay as u64;
        }
        self.window = self.window.clamp(self.least, self.largest);
    }

    /// A packet sent at a time was trimmed.
    fn lost(&mut self, sent: u64, now: u64) {
        if sent < self.adapted {
            return;
        }
        if self.trimmed.is_none() {
            (self.trimmed, self.acked, self.lost) = (Some(now), 0.0, 0.0);
        }
        self.lost += self.packet;
        self.window = match self.window > self.packet {
            true => (self.window - self.packet).max(self.packet),
            false => (self.window / 2.0).max(self.least),
        };
    }

    fn timed_out(&mut self) {
        self.window = self.packet;
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

    fn spray() -> Spray {
        let path = PathInfo {
            rate: 0.0125,
            round_trip: 8_000_000,
            longest: 8_000_000,
            answers_wait: 1_000_000,
            packet: 4160.0,
        };
        let settings = Settings {
            window: None,
            target_delay: Some(Time::from_us(4)),
            increase: 4.0,
            decrease: 0.5,
            least_window: 0.25,
            retransmit_after: Time::from_ms(1),
        };
        Spray::new(&settings, path, 0)
    }
    fn ack(now: u64, marked: bool, queueing: u64) -> Ack {
        Ack { now, packets: 1, marked, round_trip: 8_000_000 + queueing, idle: false }
    }

    #[test]
    fn the_four_quadrants() {
        let mut s = spray();
        let full = s.window();
        (0..200).for_each(|i| s.acked(ack(i * 400_000, true, 12_000_000)));
        let low = s.window();
        assert!(low < full / 2.0, "marks and delay shrink it");
        s.acked(ack(90_000_000, true, 1_000_000));
        assert_eq!(s.window(), low, "a mark without delay holds it");
        (0..25).for_each(|i| s.acked(ack(91_000_000 + i * 400_000, false, 6_000_000)));
        let slow = s.window() - low;
        assert!(slow > 0.0, "delay without marks lets it grow slowly");
        let before = s.window();
        (0..25).for_each(|i| s.acked(ack(101_000_000 + i * 400_000, false, 0)));
        assert!(s.window() - before > 2.0 * slow, "neither lets it grow fast");
        let (before, packets) = (s.window(), (s.window() / 4160.0) as u64);
        (0..3 * packets).for_each(|i| s.acked(ack(150_000_000 + i, false, 0)));
        assert!(s.window() >= full.min(2.0 * before), "a window without delay, and it doubles");
        (0..10_000).for_each(|i| s.acked(ack(200_000_000 + i, false, 0)));
        assert_eq!(s.window(), full, "up to its bound");
        let now = 300_000_000;
        s.lost(now - 8_000_000, now);
        assert_eq!(s.window(), full - 4160.0, "a trimmed packet takes its size");
        (0..5).for_each(|i| s.acked(ack(now + i, false, 4_000_000)));
        s.acked(ack(now + 12_000_000, false, 4_000_000));
        assert!(s.window() >= full - 4160.0, "one is not many");
        let now = 400_000_000;
        (0..30).for_each(|i| s.lost(now, now + i));
        (0..2).for_each(|i| s.acked(ack(now + i, false, 4_000_000)));
        s.acked(ack(now + 12_000_000, false, 4_000_000));
        assert!(s.window() <= 4.0 * 4160.0, "a round trip later it is what came through");
        let adapted = s.window();
        s.lost(now + 1, now + 13_000_000);
        assert_eq!(s.window(), adapted, "sent before, it says nothing new");
    }

    #[test]
    fn below_a_packet_what_comes_through_shortens_the_silence() {
        let mut s = spray();
        (0..60).for_each(|i| s.lost(1, 1 + i));
        assert_eq!(s.window(), 0.25 * 4160.0);
        assert_eq!(s.sent(4160, 0), 0);
        assert_eq!(s.may_send_from(), 32_000_000, "a packet in four round trips");
        s.acked(ack(8_000_000, true, 0));
        assert_eq!(s.may_send_from(), 16_000_000, "marked or not");
        s.acked(ack(8_000_000, true, 0));
        assert_eq!(s.may_send_from(), 0);
        assert_eq!(s.window(), 4160.0);
    }
}
