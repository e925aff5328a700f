//! One circuit after the other, each to the pair of servers that has most bytes for it: both ways, over
//! the circuits that the pair would then have.

use super::form::{Rule, RuleInput};
use lightloom_circuits::CircuitCounts;
use lightloom_units::kind::Kind;
use std::cmp::Reverse;

static KIND: Kind<()> = Kind {
    name: "heaviest-first",
    summary: "One circuit after the other, to the pair with most bytes for it",
    source: None,
    keys: &[],
    capabilities: (),
};

/// See [`KIND`].
#[derive(Clone, Copy, Debug)]
pub struct HeaviestFirst;

impl Rule for HeaviestFirst {
    fn kind(&self) -> &'static Kind<()> {
        &KIND
    }

    fn fit(&self, input: &RuleInput<'_>) -> Result<CircuitCounts, String> {
        let (demand, n) = (input.demand, input.demand.n);
        let mut circuits = CircuitCounts::dark(n);
        loop {
            let free = |server: usize| circuits.degree(server) < input.ports[server];
            let bytes =
                |a, b| (demand.get(a, b) + demand.get(b, a)) / u64::from(circuits.get(a, b) + 1);
            let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
            let open = pairs.filter(|&(a, b)| free(a) && free(b) && bytes(a, b) > 0);
            // Of equal pairs the first.
            match open.min_by_key(|&(a, b)| Reverse(bytes(a, b))) {
                Some((a, b)) => circuits.join(a, b),
                None => return Ok(circuits),
            }
        }
    }
}
