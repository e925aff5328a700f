//! A sender's window for sprayed packets, by marks and by delay, in the spirit of the network-signal
//! congestion control (NSCC) of Ultra Ethernet 1.0: a packet is acknowledged on its own, whatever its
//! path, and (mark, delay) together say what to do.
//!
//! | | delay below target | delay above |
//! |---|---|---|
//! | no mark | grow, the more the lower the delay | grow slowly |
//! | mark | hold | shrink by the excess, once a round trip |
//!
//! A trimmed packet takes its own size off the window, down to one; below that it halves the window.
//! A window of less than a packet is one packet in more than a round trip, as in Swift (Kumar et al.,
//! SIGCOMM 2020): where hundreds of flows meet, one packet each is already too much. In the round trip
//! that begins with a trimmed packet it is counted what comes through, and the window falls to as much
//! of it as the target delay allows (NSCC's quick adaptation); what was sent before and is trimmed says
//! nothing new then. Departure: no credit from the receiver.

use super::{Ack, PathInfo};
use crate::SpraySpec;

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
    /// from then on.
    trimmed: Option<u64>,
    acked: f64,
    /// The last adaptation \[ps\].
    adapted: u64,
}

/// Weight of a packet's delay in the average.
const WEIGHT: f64 = 1.0 / 8.0;

impl Spray {
    pub fn new(spec: SpraySpec, path: PathInfo) -> Self {
        let window = path.window(spec.window);
        Spray {
            window,
            largest: window,
            least: spec.least_window * path.packet,
            packet: path.packet,
            increase: spec.increase,
            decrease: spec.decrease,
            base: path.round_trip,
            target: spec.target_delay.map_or(path.round_trip as f64 / 2.0, |t| t.ps() as f64),
            delay: 0.0,
            settled: 0,
            trimmed: None,
            acked: 0.0,
            adapted: 0,
        }
    }

    #[inline]
    pub fn window(&self) -> f64 {
        self.window
    }

    /// How long a flow with less than a packet of window stays silent after one \[ps\].
    #[inline]
    pub fn gap(&self) -> u64 {
        match self.window < self.packet {
            true => ((self.base as f64 + self.delay) * self.packet / self.window) as u64,
            false => 0,
        }
    }

    pub fn acked(&mut self, ack: Ack) {
        let delay = ack.round_trip.saturating_sub(self.base) as f64;
        self.delay += WEIGHT * (delay - self.delay);
        let bytes = f64::from(ack.packets) * self.packet;
        if let Some(since) = self.trimmed {
            self.acked += bytes;
            if ack.now >= since + ack.round_trip {
                let share = (self.base as f64 + self.target) / ack.round_trip.max(1) as f64;
                let through = (self.acked * share.min(1.0)).max(self.packet);
                self.window = self.window.min(through);
                (self.trimmed, self.adapted) = (None, ack.now);
            }
        }
        if !ack.marked {
            let share = if delay < self.target { 1.0 - delay / self.target } else { 0.0 };
            // `increase` packets a round trip at most, one at least.
            let packets = (self.increase * share).max(1.0);
            // Below one packet it doubles at most, as it halves for each one trimmed.
            self.window += match self.window >= self.packet {
                true => packets * self.packet * bytes / self.window,
                false => packets.min(1.0) * self.window,
            };
        } else if delay >= self.target && self.delay > self.target && ack.now >= self.settled {
            let excess = 1.0 - self.target / self.delay;
            self.window *= 1.0 - self.decrease * excess;
            self.settled = ack.now + self.base + delay as u64;
        }
        self.window = self.window.clamp(self.least, self.largest);
    }

    /// A packet sent at a time was trimmed.
    pub fn lost(&mut self, sent: u64, now: u64) {
        if sent < self.adapted {
            return;
        }
        if self.trimmed.is_none() {
            (self.trimmed, self.acked) = (Some(now), 0.0);
        }
        self.window = match self.window > self.packet {
            true => (self.window - self.packet).max(self.packet),
            false => (self.window / 2.0).max(self.least),
        };
    }

    pub fn timed_out(&mut self) {
        self.window = self.packet;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_units::Time;

    fn spray() -> Spray {
        let path = PathInfo { rate: 0.0125, round_trip: 8_000_000, packet: 4160.0 };
        let spec = SpraySpec {
            window: None,
            target_delay: Some(Time::from_us(4)),
            increase: 4.0,
            decrease: 0.5,
            least_window: 0.25,
            retransmit_after: Time::from_ms(1),
        };
        Spray::new(spec, path)
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
        (0..10_000).for_each(|i| s.acked(ack(200_000_000 + i, false, 0)));
        assert_eq!(s.window(), full, "up to its bound");
        let now = 300_000_000;
        s.lost(now - 8_000_000, now);
        assert_eq!(s.window(), full - 4160.0, "a trimmed packet takes its size");
        (0..5).for_each(|i| s.acked(ack(now + i, false, 4_000_000)));
        s.acked(ack(now + 12_000_000, false, 4_000_000));
        assert!(s.window() <= 7.0 * 4160.0, "a round trip later it is what came through");
        let adapted = s.window();
        s.lost(now + 1, now + 13_000_000);
        assert_eq!(s.window(), adapted, "sent before, it says nothing new");
    }
}
