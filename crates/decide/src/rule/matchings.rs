//! Circuits in rounds: each round is a matching of servers of the greatest weight, until no port is left.
//!
//! Modelled: an optical switch gives each server one circuit a round, as c-Through and Helios assign them
//! (Wang et al. and Farrington et al., SIGCOMM 2010). A pair's weight is its bytes of both directions over
//! the circuits that it would then have. Ignored: packet NICs.
//! Checked: no port is used twice; by hand, where the greatest pair is not in the heaviest matching.

use super::form::{Rule, RuleInput};
use lightloom_circuits::CircuitCounts;
use lightloom_circuits::topoopt::heaviest;
use lightloom_units::kind::Kind;

static KIND: Kind<()> = Kind {
    name: "matchings",
    summary: "Rounds of maximum-weight matching",
    source: Some("Helios and c-Through, SIGCOMM 2010"),
    keys: &[],
    capabilities: (),
};

/// Rounds of maximum-weight matching.
#[derive(Clone, Copy, Debug)]
pub struct Matchings;

impl Rule for Matchings {
    fn kind(&self) -> &'static Kind<()> {
        &KIND
    }

    fn fit(&self, input: &RuleInput<'_>) -> Result<CircuitCounts, String> {
        let n = input.demand.n;
        let mut counts = CircuitCounts::dark(n);
        loop {
            let mut edges = Vec::new();
            for a in 0..n {
                for b in a + 1..n {
                    let free = |server| counts.degree(server) < input.ports[server];
                    let bytes = input.demand.get(a, b) + input.demand.get(b, a);
                    let weight = bytes / u64::from(counts.get(a, b) + 1);
                    if weight > 0 && free(a) && free(b) {
                        edges.push((a as u32, b as u32, weight));
                    }
                }
            }
            let round = heaviest(n, &edges);
            if round.is_empty() {
                return Ok(counts);
            }
            round.iter().for_each(|&(a, b)| counts.join(a as usize, b as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_circuits::{Rates, ServerDemand};
    use proptest::prelude::*;

    fn fit(demand: &ServerDemand, ports: &[u32]) -> CircuitCounts {
        let rates = Rates { optical_bps: 1, packet_bps: 1, packet_nics: 1, share_eps: false };
        let standing = CircuitCounts::dark(demand.n);
        let keep_going = true;
        Matchings
            .fit(&RuleInput { demand, standing: &standing, ports, rates: &rates, keep_going })
            .expect("it has an answer")
    }

    #[test]
    fn the_greatest_pair_gives_way_to_two_that_are_heavier_together() {
        let demand = ServerDemand::from_gpu_demand(4, 1, [(0, 1, 60), (1, 2, 90), (3, 2, 50)]);
        let counts = fit(&demand, &[1; 4]);
        assert_eq!((counts.get(0, 1), counts.get(1, 2), counts.get(2, 3)), (1, 0, 1));
    }

    proptest! {
        #[test]
        fn ports_suffice_and_none_is_left_to_a_pair_that_sends(
            bytes in prop::collection::vec(0u64..1000, 36), ports in prop::collection::vec(0u32..5, 6),
        ) {
            let demand = ServerDemand { n: 6, bytes };
            let counts = fit(&demand, &ports);
            for a in 0..6 {
                prop_assert!(counts.degree(a) <= ports[a]);
                for b in a + 1..6 {
                    let weight = (demand.get(a, b) + demand.get(b, a)) / u64::from(counts.get(a, b) + 1);
                    let free = counts.degree(a) < ports[a] && counts.degree(b) < ports[b];
                    prop_assert!(!free || weight == 0);
                }
            }
        }
    }
}
