//! What a rule is.

use lightloom_circuits::{CircuitCounts, Prospect, Rates, ServerDemand, total_time};
use lightloom_units::Time;
use lightloom_units::kind::Kind;
use std::fmt::Debug;

/// What a rule decides from.
#[derive(Clone, Copy, Debug)]
pub struct RuleInput<'a> {
    /// What servers will send each other.
    pub demand: &'a ServerDemand,
    /// The circuits that stand.
    pub standing: &'a CircuitCounts,
    /// How many ports of each server may have a circuit.
    pub ports: &'a [u32],
    /// What NICs carry; of packet NICs, what other traffic leaves.
    pub rates: &'a Rates,
    /// Whether Algorithm 1 goes on past the first pair of servers without a free port.
    pub keep_going: bool,
}

/// A decision rule: chooses circuits for a demand.
pub trait Rule: Debug + Send + Sync {
    /// What it says of itself.
    fn kind(&self) -> &'static Kind<()>;

    /// As in a specification.
    fn name(&self) -> &'static str {
        self.kind().name
    }

    /// The circuits that fit a demand best, whatever it costs to set them.
    ///
    /// # Errors
    /// Why it has no answer; the rules of this crate always have one.
    fn fit(&self, input: &RuleInput<'_>) -> Result<CircuitCounts, String>;

    /// Circuits that pay for their dark time. Unless a rule knows better: those that fit best, if all
    /// all-to-alls that lie ahead take less time with them than with those that stand. `dark` says how
    /// long ports are dark if so many circuits are new.
    ///
    /// # Errors
    /// As [`Rule::fit`].
    fn worthwhile(
        &self,
        input: &RuleInput<'_>,
        dark: &dyn Fn(u32) -> Time,
        prospect: Prospect<'_>,
    ) -> Result<CircuitCounts, String> {
        let new = self.fit(input)?;
        let (demand, stand, rates) = (input.demand, input.standing, input.rates);
        let total = |counts: &CircuitCounts| {
            total_time(demand, stand, counts, rates, dark(counts.beyond(stand)), prospect)
        };
        Ok(if total(&new) < total(stand) { new } else { stand.clone() })
    }
}
