//! Circuits by the time of the whole all-to-all, packet NICs included.

use super::form::{Asked, Rule};
use lightloom_circuits::{CircuitCounts, Prospect, choose, settle};
use lightloom_units::Time;
use lightloom_units::kind::Kind;

static KIND: Kind<()> = Kind {
    name: "timed",
    summary: "By the time of the whole all-to-all, packet NICs included",
    source: None,
    keys: &[],
    capabilities: (),
};

/// The least time of the whole all-to-all.
#[derive(Clone, Copy, Debug)]
pub struct Timed;

impl Rule for Timed {
    fn kind(&self) -> &'static Kind<()> {
        &KIND
    }

    fn fit(&self, asked: &Asked<'_>) -> Result<CircuitCounts, String> {
        Ok(choose(asked.demand, asked.standing, asked.ports, asked.rates))
    }

    fn worthwhile(
        &self,
        asked: &Asked<'_>,
        dark: &dyn Fn(u32) -> Time,
        prospect: Prospect<'_>,
    ) -> Result<CircuitCounts, String> {
        Ok(settle(asked.demand, asked.standing, asked.ports, asked.rates, dark, prospect))
    }
}
