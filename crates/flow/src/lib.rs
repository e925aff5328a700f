//! The flow engine: flows as fluids that share links max-min fairly, event by event.
//!
//! Modelled: the real path of every flow with each link's capacity and delay; the scale-up network
//! inside a server like any other link; circuits that carry nothing while their ports are dark; links
//! that break, whose flows go on where the policy says with what is left of them;
//! many flows that start or end at one picosecond. A flow of S bytes alone on its path takes the
//! path's delays plus S over the narrowest link.
//! Ignored: packets, queues, losses, and the time that a transport takes to find the fair rate.
//! Links that can never bind ([`never_binds`](lightloom_fabric::Fabric::never_binds)) are left out of the computation of rates,
//! which changes no rate.
//! Flows of a large phase that are alike are computed as classes (`refinement.rs`): an even all-to-all is
//! one flow, until others come to its links. Rates then differ by rounding alone.
//! Cost: a change computes anew only the component of flows that it touches, and where flows end
//! only rates as high as theirs; components on many links fall apart as flows end. What a component does by
//! itself is computed at once (`component/plan.rs`), and again if it is disturbed; what has come before is not
//! computed again (`component/repeats.rs`).
//! Checked by the shared conformance suite, by closed forms, and by the definition of max-min
//! fairness on random instances.

mod alone;
mod apart;
mod circuits;
mod component;
mod crew;
mod links;
mod partition;
mod pool;
mod refinement;
mod run;
mod settling;

pub use alone::Alone;

use lightloom_engine::{Engine, EngineError, Observer, Outcome, Policy, Scenario};
use refinement::Worthwhile;

/// The flow engine and its knobs.
///
/// ```
/// use lightloom_flow::FlowEngine;
/// let exact = FlowEngine::default();
/// assert_eq!(exact.tolerance, 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowEngine {
    /// How long, as a share of a component's age, the bandwidth of flows that have ended may stay
    /// unused before rates are computed anew. 0 is exact; with t > 0 nothing ends early, and a
    /// transfer of many flows ends at most about t later than exactly, at a fraction of the cost.
    pub tolerance: f64,
    /// CPU threads; 0 is one. The outcome is the same for any number, bit by bit.
    pub threads: usize,
}

impl Engine for FlowEngine {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn run(
        &self,
        scenario: &Scenario<'_>,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, EngineError> {
        let exact = (self.tolerance, self.threads, Worthwhile::USUAL);
        apart::run(exact, scenario, policy, observer)
    }
}

#[cfg(test)]
lightloom_engine::conformance!(FlowEngine::default());

#[cfg(test)]
lightloom_engine::breakable!(FlowEngine::default(), 1e-9);

#[cfg(test)]
lightloom_engine::claimable!(FlowEngine::default(), 1e-9);

#[cfg(test)]
mod tests;
