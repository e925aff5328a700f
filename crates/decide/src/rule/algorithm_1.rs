//! Circuits by demand alone (MixNet, Algorithm 1): the pair with most bytes a circuit gets the next.

use super::form::{Rule, RuleInput};
use lightloom_circuits::{CircuitCounts, allocate};
use lightloom_units::kind::Kind;

static KIND: Kind<()> = Kind {
    name: "algorithm-1",
    summary: "MixNet's Algorithm 1 as printed",
    source: Some("MixNet, Algorithm 1"),
    keys: &[],
    capabilities: (),
};

/// MixNet's Algorithm 1.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm1;

impl Rule for Algorithm1 {
    fn kind(&self) -> &'static Kind<()> {
        &KIND
    }

    fn fit(&self, input: &RuleInput<'_>) -> Result<CircuitCounts, String> {
        Ok(allocate(input.demand, input.ports, input.keep_going))
    }
}
