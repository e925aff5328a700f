//! PLB (Qureshi et al., SIGCOMM 2022): a sub-flow stays on the path of its flow label's hash; after
//! enough congested round trips in a row it takes another label, at once when nothing is in flight,
//! otherwise only after more of them.

use super::plug::{Balancer, Capabilities, Heard, Next, Nics, Paths, pick};
use lightloom_units::kind::{Form, Key, Kind};
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "plb",
    summary: "By a hash that changes at idle moments after congestion",
    source: Some("PLB, Qureshi et al., SIGCOMM 2022"),
    keys: &[
        Key::new(
            "marked_share",
            Form::SHARE,
            "Share of marked packets in a round trip that makes it a congested one.",
        ),
        Key::new(
            "rounds",
            Form::Count { min: 1, max: 1000 },
            "Congested round trips in a row after which an idle flow moves.",
        ),
        Key::new(
            "rounds_busy",
            Form::Count { min: 1, max: 1000 },
            "Congested round trips in a row after which any flow moves.",
        ),
    ],
    capabilities: Capabilities { keeps_order: true, paths: Paths::One, nics: Nics::Own },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    marked_share: f64,
    rounds: u32,
    rounds_busy: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plb {
    paths: u16,
    path: u16,
    hash: u64,
    label: u64,
    settings: Settings,
    congested: u32,
    /// Of this round trip: acknowledged, marked, and when it ends \[ps\].
    acked: u32,
    marked: u32,
    ends: u64,
}

impl Balancer for Plb {
    type Settings = Settings;

    fn new(&settings: &Settings, paths: u16, hash: u64) -> Self {
        let path = pick(hash, paths);
        Plb { paths, path, hash, label: 0, settings, congested: 0, acked: 0, marked: 0, ends: 0 }
    }

    #[inline]
    fn path(&mut self, next: Next) -> u16 {
        let idle = next.in_flight == 0 && self.congested >= self.settings.rounds;
        if idle || self.congested >= self.settings.rounds_busy {
            self.label += 1;
            self.path = pick(self.hash.wrapping_add(self.label), self.paths);
            self.congested = 0;
        }
        self.path
    }

    #[inline]
    fn acked(&mut self, heard: Heard) {
        self.acked += 1;
        self.marked += u32::from(heard.marked);
        if heard.now >= self.ends {
            let share = self.settings.marked_share;
            let congested = f64::from(self.marked) >= share * f64::from(self.acked);
            self.congested = if congested && self.marked > 0 { self.congested + 1 } else { 0 };
            (self.acked, self.marked, self.ends) = (0, 0, heard.now + heard.round_trip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_when_idle_after_some_congested_rounds_and_when_busy_after_more() {
        let settings = Settings { marked_share: 0.5, rounds: 3, rounds_busy: 12 };
        let mut b = Plb::new(&settings, 1000, 1);
        let path = |b: &mut Plb, in_flight| b.path(Next { turn: 0, in_flight, now: 0 });
        let first = path(&mut b, 5);
        let round = |b: &mut Plb, i: u64, marked| {
            b.acked(Heard { path: 0, marked, round_trip: 10, now: i * 10 });
        };
        (0..3).for_each(|i| round(&mut b, i, true));
        assert_eq!(path(&mut b, 5), first, "busy: it stays");
        assert_ne!(path(&mut b, 0), first, "idle: it moves");
        let second = path(&mut b, 1);
        (3..14).for_each(|i| round(&mut b, i, true));
        assert_eq!(path(&mut b, 5), second);
        round(&mut b, 14, true);
        assert_ne!(path(&mut b, 5), second, "congested for long: it moves although busy");
        let third = path(&mut b, 5);
        (15..17).for_each(|i| round(&mut b, i, true));
        round(&mut b, 17, false);
        (18..20).for_each(|i| round(&mut b, i, true));
        assert_eq!(path(&mut b, 0), third, "a good round trip in between starts the count anew");
    }
}
