//! The packet engine (being built).
#![allow(missing_docs)]
mod spec;
pub use spec::*;
use lightloom_engine::{Engine, EngineError, Observer, Outcome, Policy, Scenario};

/// The packet engine.
#[derive(Clone, Debug)]
pub struct PacketEngine {
    /// Its settings.
    pub spec: PacketSpec,
    /// Seeds hashes and ties.
    pub seed: u64,
}

impl Engine for PacketEngine {
    fn name(&self) -> &'static str {
        "packet"
    }
    fn run(
        &self,
        _: &Scenario<'_>,
        _: &mut dyn Policy,
        _: &mut dyn Observer,
    ) -> Result<Outcome, EngineError> {
        Err(EngineError::Interrupted)
    }
}
