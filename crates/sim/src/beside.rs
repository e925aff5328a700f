//! What a run is given, and what it gives back, beside specification and tables.

use crate::emulate::{EmulatedRun, RoundReports};
use crate::error::SimError;
use crate::spec::{EngineSpec, Spec};
use lightloom_decide::{Rule, Traffic};
use lightloom_fabric::{Fabric, NicId, ServerId};
use lightloom_packet::{BALANCERS, PathChooser, Paths};
use serde::Serialize;
use std::sync::Arc;

/// What a region's controller was asked, round by round, and what it did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Kept {
    /// What servers reported.
    pub asked: Vec<RoundReports>,
    /// What that led to.
    pub answered: EmulatedRun,
}

/// What a run is given beside its specification.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a> {
    /// By region and server: what other traffic took in iterations before this one. Unless given, what
    /// the task graph says.
    pub earlier: &'a [Vec<Vec<Traffic>>],
    /// What chooses circuits in place of the specification's rule.
    pub rule: Option<&'a Arc<dyn Rule>>,
    /// What chooses paths in place of the specification's balancer.
    pub balancer: Option<&'a Arc<dyn PathChooser>>,
    /// Whether what the controller of the first region that has all-to-alls is asked and does is kept.
    pub recorded: bool,
    /// CPU threads of the flow or packet engine, whose outcome is the same for any number; 0 is one.
    pub threads: usize,
}

impl Beside<'_> {
    /// Whether a balancer, if there is one, will be asked.
    pub(crate) fn is_asked(&self, spec: &Spec, fabric: &Fabric) -> Result<(), SimError> {
        if self.balancer.is_none() {
            return Ok(());
        }
        let refused = |why: String| Err(SimError::Input(format!("balancer: {why}")));
        let EngineSpec::Packet(packet) = &spec.engine else {
            let name = spec.engine.name();
            return refused(format!("engine.kind = \"{name}\" asks for none; allowed: \"packet\""));
        };
        let named = packet.balancer.kind();
        if named.capabilities.paths == Paths::Route {
            let asking = BALANCERS.kinds.iter().filter(|k| k.capabilities.paths != Paths::Route);
            let asking: Vec<_> = asking.map(|kind| format!("\"{}\"", kind.name)).collect();
            return refused(format!(
                "engine.balancer.kind = \"{}\" leaves each flow on its route; allowed, as what the \
                 transport may expect: {}",
                named.name,
                asking.join(", ")
            ));
        }
        let cluster = fabric.cluster();
        let nics = (0..cluster.nics()).map(NicId);
        let first = fabric.packet_nics(ServerId(0)).first().map(|&n| cluster.nic(ServerId(0), n));
        let several = |from| nics.clone().any(|to| from != to && fabric.nic_paths(from, to) > 1);
        if !first.is_some_and(several) {
            let name = spec.fabric.kind().name();
            return refused(format!("no two NICs of this fabric (\"{name}\") have several paths"));
        }
        Ok(())
    }
}
