//! REPS (Bonato et al., arXiv 2407.21625): a packet takes again a path whose last packet came through
//! without a mark; while no such path is known, the next one of its flow's round.
//!
//! Each acknowledgement without a mark puts its path into a small ring; each packet takes the oldest
//! out. Departure: no frozen mode after failures.

use super::plug::{Balancer, Capabilities, Heard, Next, Nics, Paths};
use super::round_robin::{self, RoundRobin};
use lightloom_units::kind::{Form, Key, Kind};
use lightloom_units::mix;
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "reps",
    summary: "Each packet on its own, by paths that were good lately",
    source: Some("REPS, Bonato et al., 2024"),
    keys: &[Key::new(
        "paths",
        Form::Count { min: 1, max: 65_535 },
        "Paths that a flow tries, at most.",
    )],
    capabilities: Capabilities { keeps_order: false, paths: Paths::EveryPacket, nics: Nics::Lanes },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    paths: u32,
}

/// Paths that are remembered (the paper's circular buffer has 8).
const REMEMBERED: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Reps {
    good: [u16; REMEMBERED],
    first: u8,
    count: u8,
    /// How many there are, how many of them are tried, and in which order.
    paths: u16,
    tried: u16,
    round: RoundRobin,
    hash: u64,
}

impl Balancer for Reps {
    type Settings = Settings;

    fn new(settings: &Settings, paths: u16, hash: u64) -> Self {
        let tried = settings.paths.clamp(1, u32::from(paths.max(1))) as u16;
        let round = RoundRobin::new(&round_robin::Settings {}, tried, hash);
        Reps { good: [0; REMEMBERED], first: 0, count: 0, paths, tried, round, hash }
    }

    #[inline]
    fn path(&mut self, next: Next) -> u16 {
        if self.count > 0 {
            let path = self.good[self.first as usize];
            self.first = (self.first + 1) % REMEMBERED as u8;
            self.count -= 1;
            return path;
        }
        let turn = self.round.path(next);
        match self.tried == self.paths {
            true => turn,
            false => (mix(self.hash ^ u64::from(turn)) % u64::from(self.paths)) as u16,
        }
    }

    #[inline]
    fn acked(&mut self, heard: Heard) {
        if heard.marked {
            return;
        }
        if self.count as usize == REMEMBERED {
            self.first = (self.first + 1) % REMEMBERED as u8;
            self.count -= 1;
        }
        self.good[(self.first as usize + self.count as usize) % REMEMBERED] = heard.path;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_paths_are_taken_again_and_bad_ones_are_not() {
        let mut b = Reps::new(&Settings { paths: 16 }, 16, 3);
        let path = |b: &mut Reps, turn| b.path(Next { turn, in_flight: 0, now: 0 });
        let mut first: Vec<u16> = (5..21).map(|turn| path(&mut b, turn)).collect();
        first.sort_unstable();
        assert_eq!(first, (0..16).collect::<Vec<_>>(), "a round tries all");
        for path in 0..16 {
            b.acked(Heard { path, marked: path != 5 && path != 9, round_trip: 1, now: 1 });
        }
        assert_eq!([path(&mut b, 0), path(&mut b, 1)], [5, 9]);
    }
}
