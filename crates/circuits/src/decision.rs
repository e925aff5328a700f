//! Circuits for a demand, as a specification asks for them: by Algorithm 1 or by time, with or without
//! hysteresis. Simulator and controller ask this, and only they know when.

use super::choose;
use crate::change::{Prospect, settle, total_time};
use crate::demand::ServerDemand;
use crate::greedy::{CircuitCounts, allocate_within};
use crate::ports::PortMap;
use crate::timed::Rates;
use lightloom_fabric::CircuitDecision;
use lightloom_units::Time;

/// How circuits are chosen.
#[derive(Clone, Debug)]
pub struct Decision {
    /// By which rule.
    pub kind: CircuitDecision,
    /// Whether Algorithm 1 goes on past the first pair without a free port.
    pub keep_going: bool,
    /// What a server's NICs carry.
    pub rates: Rates,
}

impl Decision {
    /// The circuits that fit a demand best, whatever it costs to set them. `standing` says which ports
    /// may be used, too.
    ///
    /// ```
    /// use lightloom_fabric::CircuitDecision;
    /// use lightloom_circuits::*;
    /// let rate = 400_000_000_000;
    /// let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 1, share_eps: false };
    /// let decision = Decision { kind: CircuitDecision::Timed, keep_going: true, rates };
    /// let demand = ServerDemand::from_gpu_demand(3, 1, [(0, 1, 400_000), (0, 2, 200_000)]);
    /// assert_eq!(decision.fitting(&demand, &PortMap::dark(3, 1)).total(), 1);
    /// ```
    ///
    /// # Panics
    /// If the two are not of as many servers.
    pub fn fitting(&self, demand: &ServerDemand, standing: &PortMap) -> CircuitCounts {
        let usable = standing.usable();
        match self.kind {
            CircuitDecision::Algorithm1 => allocate_within(demand, &usable, self.keep_going),
            CircuitDecision::Timed => choose(demand, &standing.counts(), &usable, &self.rates),
        }
    }

    /// Circuits that pay for their dark time: those that stand, unless others do better over all that
    /// is in prospect. `dark` says how long ports are dark if so many circuits are new.
    ///
    /// # Panics
    /// As [`Decision::fitting`].
    pub fn worthwhile(
        &self,
        demand: &ServerDemand,
        standing: &PortMap,
        dark: impl Fn(u32) -> Time,
        prospect: Prospect<'_>,
    ) -> CircuitCounts {
        let stand = standing.counts();
        if self.kind == CircuitDecision::Timed {
            return settle(demand, &stand, &standing.usable(), &self.rates, dark, prospect);
        }
        let new = self.fitting(demand, standing);
        let total = |counts: &CircuitCounts| {
            total_time(demand, &stand, counts, &self.rates, dark(counts.beyond(&stand)), prospect)
        };
        if total(&new) < total(&stand) { new } else { stand }
    }
}
