//! DCQCN (Zhu et al., SIGCOMM 2015, Section 3 and Figure 7): the sender's rate. Switches mark, the
//! receiver notifies at most once in N, the sender cuts its rate by alpha / 2 and climbs back by fast
//! recovery, additive and hyper increase, driven by a timer T and a byte counter B.
//!
//! The timers need no events: what they would have done is caught up with when a packet is sent or a
//! notification comes. A rate that rises while a packet waits for its turn takes effect with the
//! next one.

use super::plug::{
    BYTES, Capabilities, PathInfo, RETRANSMIT_AFTER, SPAN, Transport, UNLIMITED_WINDOW,
};
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::{BitRate, Bytes, Time};
use serde::Deserialize;

const RATE: Form = Form::Rate { min: 1, max: 1 << 63 };

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "dcqcn",
    summary: "RoCEv2 with go-back-N and DCQCN",
    source: Some("Zhu et al., SIGCOMM 2015"),
    keys: &[
        UNLIMITED_WINDOW,
        Key::new("gain", Form::SHARE, "g, the gain of alpha."),
        Key::new(
            "notification_interval",
            SPAN,
            "N: a receiver sends at most one congestion notification a flow in this time.",
        ),
        Key::new("alpha_timer", SPAN, "K: alpha decays after this time without a notification."),
        Key::new("rate_timer", SPAN, "T: the rate rises after this time."),
        Key::new("byte_counter", BYTES, "B: the rate rises after so many bytes."),
        Key::new(
            "fast_recovery",
            Form::Count { min: 1, max: 1000 },
            "F: rises towards the target before the target itself rises.",
        ),
        Key::new("additive_increase", RATE, "R_AI: by how much the target rises."),
        Key::new(
            "hyper_increase",
            RATE,
            "R_HAI: by how much it rises once timer and counter have both passed F.",
        ),
        Key::new("minimum_rate", RATE, "A flow's rate never falls below this."),
        RETRANSMIT_AFTER,
    ],
    capabilities: Capabilities { go_back_n: true, pulls: false, grants: false, train: 1 },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    window: Option<Bytes>,
    gain: f64,
    notification_interval: Time,
    alpha_timer: Time,
    rate_timer: Time,
    byte_counter: Bytes,
    fast_recovery: u32,
    additive_increase: BitRate,
    hyper_increase: BitRate,
    minimum_rate: BitRate,
    retransmit_after: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dcqcn {
    settings: Settings,
    window: f64,
    /// Rates \[B/ps\].
    line: f64,
    minimum: f64,
    current: f64,
    target: f64,
    alpha: f64,
    /// Cut before; until then there is nothing to recover from.
    cut: bool,
    alpha_due: u64,
    rate_due: u64,
    bytes: u64,
    timer_rounds: u32,
    byte_rounds: u32,
}

impl Transport for Dcqcn {
    type Settings = Settings;

    fn new(&settings: &Settings, path: PathInfo, now: u64) -> Self {
        Dcqcn {
            settings,
            window: settings.window.map_or(f64::INFINITY, |w| w.get() as f64),
            line: path.rate,
            minimum: settings.minimum_rate.bytes_per_ps().min(path.rate),
            current: path.rate,
            target: path.rate,
            alpha: 1.0,
            cut: false,
            alpha_due: now.saturating_add(settings.alpha_timer.ps()),
            rate_due: now.saturating_add(settings.rate_timer.ps()),
            bytes: 0,
            timer_rounds: 0,
            byte_rounds: 0,
        }
    }

    #[inline]
    fn window(&self) -> f64 {
        self.window
    }

    #[inline]
    fn sent(&mut self, bytes: u64, now: u64) -> u64 {
        if self.cut {
            self.catch_up(now);
            self.bytes += bytes;
            if self.bytes >= self.settings.byte_counter.get() {
                self.bytes -= self.settings.byte_counter.get();
                self.byte_rounds += 1;
                self.rise();
            }
        }
        if self.current >= self.line {
            self.cut = false;
            return 0; // the link itself is the pace
        }
        (bytes as f64 / self.current) as u64
    }

    fn notified(&mut self, now: u64) {
        self.catch_up(now);
        self.cut = true;
        self.target = self.current;
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(self.minimum);
        self.alpha += self.settings.gain * (1.0 - self.alpha);
        self.alpha_due = now.saturating_add(self.settings.alpha_timer.ps());
        self.rate_due = now.saturating_add(self.settings.rate_timer.ps());
        (self.bytes, self.timer_rounds, self.byte_rounds) = (0, 0, 0);
    }

    fn given_window(settings: &Settings) -> Option<Bytes> {
        settings.window
    }
    fn retransmit_after(settings: &Settings) -> Time {
        settings.retransmit_after
    }
    fn notification_interval(settings: &Settings) -> Option<Time> {
        Some(settings.notification_interval)
    }
}

impl Dcqcn {
    /// What the timers have done until now.
    fn catch_up(&mut self, now: u64) {
        while self.alpha_due <= now {
            self.alpha *= 1.0 - self.settings.gain;
            self.alpha_due += self.settings.alpha_timer.ps().max(1);
            if self.alpha < 1e-9 {
                self.alpha_due = u64::MAX; // it is gone; a notification starts the timer anew
            }
        }
        while self.rate_due <= now {
            self.timer_rounds += 1;
            self.rate_due += self.settings.rate_timer.ps().max(1);
            self.rise();
            if self.current >= self.line {
                self.rate_due = u64::MAX;
            }
        }
    }

    fn rise(&mut self) {
        let fast = self.settings.fast_recovery;
        let least = self.timer_rounds.min(self.byte_rounds);
        if self.timer_rounds.max(self.byte_rounds) > fast {
            self.target += match least > fast {
                true => self.settings.hyper_increase.bytes_per_ps() * f64::from(least - fast),
                false => self.settings.additive_increase.bytes_per_ps(),
            };
            self.target = self.target.min(self.line);
        }
        self.current = (0.5 * (self.target + self.current)).min(self.line);
        if self.line - self.current < 1e-6 * self.line {
            self.current = self.line;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            window: None,
            gain: 1.0 / 256.0,
            notification_interval: Time::from_us(50),
            alpha_timer: Time::from_us(55),
            rate_timer: Time::from_us(55),
            byte_counter: Bytes::new(10_000_000),
            fast_recovery: 5,
            additive_increase: BitRate::from_bps(40_000_000),
            hyper_increase: BitRate::from_bps(400_000_000),
            minimum_rate: BitRate::from_bps(40_000_000),
            retransmit_after: Time::from_ms(4),
        }
    }

    #[test]
    fn halves_recovers_half_way_each_time_and_then_rises() {
        let path = PathInfo {
            rate: 0.005,
            round_trip: 8_000_000,
            longest: 8_000_000,
            answers_wait: 1_000_000,
            packet: 1000.0,
        }; // 40 Gbps
        let mut d = Dcqcn::new(&settings(), path, 0);
        assert_eq!(d.sent(1000, 0), 0, "at line rate the link is the pace");
        d.notified(1_000_000);
        assert_eq!(d.current, 0.0025);
        assert_eq!(d.sent(1000, 1_000_000), 400_000);
        assert!((d.alpha - 1.0).abs() < 1e-12);
        // Five periods of fast recovery: the gap to the target halves in each.
        let after = |d: &mut Dcqcn, us: u64| {
            d.catch_up(1_000_000 + us * 1_000_000);
            d.current
        };
        assert!((after(&mut d, 55) - 0.00375).abs() < 1e-9);
        assert!((after(&mut d, 275) - (0.005 - 0.0025 / 32.0)).abs() < 1e-9);
        assert!(d.alpha < 1.0 && d.alpha > 0.97);
        let mut low = d;
        (0..200).for_each(|i| low.notified(300_000_000 + i));
        assert_eq!(low.current, low.minimum);
        // Additive increase: 40 Mbit/s of target each period once recovered.
        let before = low.target;
        low.catch_up(300_000_200 + 6 * 55_000_000);
        assert!((low.target - before - 40e6 / 8e12).abs() < 1e-12, "{}", low.target - before);
    }
}
