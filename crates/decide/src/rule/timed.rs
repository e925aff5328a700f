//! Circuits by the time of the whole all-to-all, packet NICs included.

use super::form::{Rule, RuleInput};
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

    fn fit(&self, input: &RuleInput<'_>) -> Result<CircuitCounts, String> {
        Ok(choose(input.demand, input.standing, input.ports, input.rates))
    }

    fn worthwhile(
        &self,
        input: &RuleInput<'_>,
        dark: &dyn Fn(u32) -> Time,
        prospect: Prospect<'_>,
    ) -> Result<CircuitCounts, String> {
        Ok(settle(input.demand, input.standing, input.ports, input.rates, dark, prospect))
    }
}
