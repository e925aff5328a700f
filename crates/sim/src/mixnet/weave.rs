//! Which circuits a region gets, and when: the policies of [`super`] turned into patches.

use super::Optical;
use crate::delay;
use crate::sender::{AllToAll, Demand};
use lightloom_engine::{Patch, Patches};
use lightloom_fabric::ReconfigurePolicy;
use lightloom_schedule::mixnet::{PortMap, ServerDemand, allocate, assign, new_circuits};
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
        order: &mut Patches,
    ) {
        if self.regions[region].matrix == Some(a2a.matrix) {
            return;
        }
        let per_server = self.fabric.cluster().gpus_per_server;
        let first = self.regions[region].first_server;
        let servers = self.region_servers as usize;
        let mut between = ServerDemand::zero(servers);
        demand.for_each(a2a, |from, to, bytes| {
            between.add(from / per_server - first, to / per_server - first, bytes);
        });
        let counts = allocate(&between, &self.greedy);
        let wanted = assign(&counts, &self.regions[region].ports, &self.numa_of_port);
        self.patches(region, &self.regions[region].ports, &wanted, &mut order.patches);
        let pairs = new_circuits(&self.regions[region].ports, &wanted);
        order.delay = delay::draw(&self.spec.ocs.delay, pairs, &mut self.random);
        self.regions[region].ports = wanted;
        self.regions[region].matrix = Some(a2a.matrix);
    }

    pub(super) fn patches(
        &self,
        region: usize,
        old: &PortMap,
        new: &PortMap,
        patches: &mut Vec<Patch>,
    ) {
        for server in 0..self.region_servers as usize {
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
