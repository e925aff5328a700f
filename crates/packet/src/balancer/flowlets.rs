//! Flowlets (LetFlow, Vanini et al., NSDI 2017; the flowlets of CONGA, Alizadeh et al., SIGCOMM 2014): a
//! sub-flow's packets keep their path while they follow each other closely; after a gap of at least the
//! timeout the next one draws another path by a hash. Gaps longer than paths differ in delay leave the
//! order as it is; congested paths cause gaps, and so are left more often.
//!
//! Departure: the sending NIC tells flowlets apart, not each switch, and no table of flowlets collides.

use super::plug::{Balancer, Capabilities, Next, Nics, Paths, pick};
use lightloom_units::Time;
use lightloom_units::kind::{Form, Key, Kind};
use serde::Deserialize;

pub(crate) static KIND: Kind<Capabilities> = Kind {
    name: "flowlets",
    summary: "Each burst of a flow on one path, by a hash, and the next burst on another",
    source: Some("LetFlow, Vanini et al., NSDI 2017; CONGA, Alizadeh et al., SIGCOMM 2014"),
    keys: &[Key::new(
        "timeout",
        Form::Time { min: 100_000, max: 1_000_000_000_000_000 },
        "The shortest gap between two packets of a flow after which the second takes another path.",
    )],
    capabilities: Capabilities { keeps_order: true, paths: Paths::One, nics: Nics::Own },
};

/// The keys of [`KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    timeout: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flowlets {
    paths: u16,
    path: u16,
    hash: u64,
    /// How many flowlets there were before this one.
    flowlet: u64,
    timeout: u64,
    /// When the last packet was sent \[ps\].
    last: u64,
}

impl Balancer for Flowlets {
    type Settings = Settings;

    fn new(settings: &Settings, paths: u16, hash: u64) -> Self {
        let path = pick(hash, paths);
        Flowlets { paths, path, hash, flowlet: 0, timeout: settings.timeout.ps(), last: u64::MAX }
    }

    #[inline]
    fn path(&mut self, next: Next) -> u16 {
        if next.now.saturating_sub(self.last) >= self.timeout {
            self.flowlet += 1;
            self.path = pick(self.hash.wrapping_add(self.flowlet), self.paths);
        }
        self.last = next.now;
        self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flowlets() -> Flowlets {
        Flowlets::new(&Settings { timeout: Time::from_us(50) }, 1000, 1)
    }
    fn at(b: &mut Flowlets, us: u64) -> u16 {
        b.path(Next { turn: 0, in_flight: 0, now: us * 1_000_000 })
    }

    #[test]
    fn a_gap_below_the_timeout_keeps_the_path() {
        let mut b = flowlets();
        let first = at(&mut b, 700);
        // However long the flow lasts: only the gap counts.
        assert!((1..100).all(|i| at(&mut b, 700 + 49 * i) == first));
    }

    #[test]
    fn a_gap_of_the_timeout_draws_another_path() {
        let mut b = flowlets();
        let mut drawn: Vec<u16> = (0..100).map(|i| at(&mut b, 50 * i)).collect();
        drawn.sort_unstable();
        drawn.dedup();
        // 100 draws of 1,000 paths: 95 distinct ones are expected.
        assert!(drawn.len() > 85, "{}", drawn.len());
    }

    #[test]
    fn one_path_stays_the_only_one() {
        let mut b = Flowlets::new(&Settings { timeout: Time::from_us(50) }, 1, 1);
        assert!((0..9).all(|i| at(&mut b, 1000 * i) == 0));
    }
}
