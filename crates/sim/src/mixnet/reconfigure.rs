//! When a region's circuits are chosen anew: the policies of [`super`] turned into patches.

use super::Optical;
use crate::demand::AllToAll;
use crate::medium::form::State;
use lightloom_circuits::{PortMap, ServerDemand};
use lightloom_engine::{Patch, Patches};
use lightloom_fabric::ReconfigurePolicy;
use lightloom_units::Time;
use lightloom_workload::{Pass, TaskKind};

impl Optical<'_> {
    pub(super) fn when(&self, task: u32) -> ReconfigurePolicy {
        let at = task as usize;
        if self.given {
            return ReconfigurePolicy::Reuse;
        }
        match (self.graph.pass[at], self.graph.kind[at]) {
            (Pass::Backward | Pass::Recompute, _) => self.spec.reconfigure.backward,
            (_, TaskKind::Combine) => self.spec.reconfigure.second_forward,
            _ => self.spec.reconfigure.first_forward,
        }
    }

    /// Has circuits chosen for `a2a`'s demand, and orders whatever turns the region's into those.
    pub(super) fn reconfigure(
        &mut self,
        region: usize,
        a2a: AllToAll,
        when: (&State<'_>, Time),
        order: &mut Patches,
    ) -> Result<(), String> {
        let between = self.between(region, a2a, &when.0.demand);
        self.set(region, &between, Some(a2a), when, order)
    }

    /// As [`Optical::reconfigure`], for the demand that is expected: what comes may be another.
    pub(super) fn expect(
        &mut self,
        region: usize,
        a2a: AllToAll,
        when: (&State<'_>, Time),
        order: &mut Patches,
    ) -> Result<(), String> {
        let Some(foresight) = &self.foresight else { return Ok(()) };
        let tokens = foresight.matrix(a2a.matrix);
        let mut expected = ServerDemand::zero(self.servers(region));
        when.0.demand.for_each_of(&tokens, a2a, self.adding(region, &mut expected));
        self.set(region, &expected, None, when, order)
    }

    /// Circuits for what servers send each other in `a2a`, if it is not a guess.
    fn set(
        &mut self,
        region: usize,
        between: &ServerDemand,
        a2a: Option<AllToAll>,
        when: (&State<'_>, Time),
        order: &mut Patches,
    ) -> Result<(), String> {
        let (wanted, dark) = self.circuits_for(region, between, a2a.is_none(), when)?;
        if wanted == self.regions[region].ports {
            if !self.spec.hysteresis {
                self.regions[region].set_for = a2a;
            }
            return Ok(());
        }
        self.patches(region, &self.regions[region].ports, &wanted, &mut order.patches);
        order.delay = dark;
        self.regions[region].ports = wanted;
        self.regions[region].set_for = a2a;
        Ok(())
    }

    pub(super) fn patches(
        &self,
        region: usize,
        old: &PortMap,
        new: &PortMap,
        patches: &mut Vec<Patch>,
    ) {
        for server in 0..new.servers() {
            for port in 0..self.layout.optical_nics.len() {
                let (was, is) = (old.peer(server, port), new.peer(server, port));
                if was == is {
                    continue;
                }
                let tx = self.fabric.circuit_tx(self.nic(region, server, port));
                let rx = is.and_then(|(server, port)| {
                    let nic = self.nic(region, usize::from(server), usize::from(port));
                    self.fabric.circuit_rx(nic)
                });
                if let Some(tx) = tx {
                    patches.push(Patch { tx, rx });
                }
            }
        }
    }
}
