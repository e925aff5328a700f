//! Which circuits a region gets, and when: the policies of [`super`] turned into patches.

use super::Optical;
use crate::delay;
use crate::failures::Health;
use crate::sender::{AllToAll, Demand};
use lightloom_engine::{Patch, Patches};
use lightloom_fabric::ReconfigurePolicy;
use lightloom_schedule::mixnet::{PortMap, allocate_within, assign, new_circuits};
use lightloom_workload::{Pass, TaskKind};

impl Optical<'_> {
    pub(super) fn when(&self, task: u32) -> ReconfigurePolicy {
        let at = task as usize;
        match (self.graph.pass[at], self.graph.kind[at]) {
            (Pass::Backward, _) => self.spec.reconfigure.backward,
            (_, TaskKind::Combine) => self.spec.reconfigure.second_forward,
            _ => self.spec.reconfigure.first_forward,
        }
    }

    /// Orders whatever turns the region's circuits into those for `a2a`'s demand.
    pub(super) fn reweave(
        &mut self,
        region: usize,
        a2a: AllToAll,
        demand: &Demand<'_>,
        health: &Health<'_>,
        order: &mut Patches,
    ) -> Result<(), String> {
        if self.regions[region].matrix == Some(a2a.matrix) {
            return Ok(());
        }
        let between = self.between(region, a2a, demand);
        let usable = self.regions[region].ports.usable();
        let mut counts = allocate_within(&between, &usable, self.greedy.keep_going);
        self.secure(region, demand, health, &mut counts)?;
        let wanted = assign(&counts, &self.regions[region].ports, &self.numa_of_port);
        self.patches(region, &self.regions[region].ports, &wanted, &mut order.patches);
        let pairs = new_circuits(&self.regions[region].ports, &wanted);
        order.delay = delay::draw(&self.spec.ocs.delay, pairs, &mut self.random);
        self.regions[region].ports = wanted;
        self.regions[region].matrix = Some(a2a.matrix);
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
