//! A region some of whose parts have failed (MixNet, Section 5.4): ports that failed leave the
//! candidates and the circuits are chosen anew at once, with a lifeline for every server that has no
//! packet NIC left. Servers that stand in for others are further servers of the region.
//!
//! What heals is a candidate again for the next re-weaving; where circuits are never re-woven, those
//! that stood at first are set again.
//! Ignored: hysteresis, here: a circuit that is gone has no time that could be compared.
//! Checked: in `tests/test_failures.py`, every byte arrives; a port that fails and heals leaves the
//! circuits as they were.

use super::Optical;
use crate::delay;
use crate::failures::{Event, Health};
use crate::sender::{AllToAll, Demand};
use lightloom_engine::Patches;
use lightloom_fabric::{GpuId, NicId, ReconfigurePolicy};
use lightloom_schedule::mixnet::failover::{CutOff, lifelines};
use lightloom_schedule::mixnet::{CircuitCounts, PortMap, ServerDemand, assign, new_circuits};

impl Optical<'_> {
    /// How many servers a region has, with those that stand in.
    pub(super) fn servers(&self, region: usize) -> usize {
        self.region_servers as usize + self.regions[region].backups.len()
    }

    /// A server of a region, by its index there.
    pub(super) fn server(&self, region: usize, index: usize) -> u32 {
        let Some(backup) = index.checked_sub(self.region_servers as usize) else {
            return self.regions[region].first_server + index as u32;
        };
        self.regions[region].backups[backup]
    }

    /// The index of a server in a region.
    pub(super) fn index(&self, region: usize, server: u32) -> Option<u32> {
        let state = &self.regions[region];
        match server.checked_sub(state.first_server) {
            Some(index) if index < self.region_servers => Some(index),
            _ => {
                let backup = state.backups.iter().position(|&other| other == server)?;
                Some(self.region_servers + backup as u32)
            }
        }
    }

    /// A GPU's number in a region.
    pub(super) fn number(&self, region: usize, gpu: u32) -> u32 {
        let per_server = self.fabric.cluster().gpus_per_server;
        let index =
            self.index(region, gpu / per_server).expect("a region's ranks sit in its servers");
        index * per_server + gpu % per_server
    }

    /// What a region's servers send each other in an all-to-all.
    pub(super) fn between(
        &self,
        region: usize,
        a2a: AllToAll,
        demand: &Demand<'_>,
    ) -> ServerDemand {
        let mut between = ServerDemand::zero(self.servers(region));
        demand.for_each(a2a, self.adding(region, &mut between));
        between
    }

    /// Adds what GPUs send each other to what the servers of a region do.
    pub(super) fn adding(
        &self,
        region: usize,
        between: &mut ServerDemand,
    ) -> impl FnMut(u32, u32, u64) {
        let per_server = self.fabric.cluster().gpus_per_server;
        move |from, to, bytes| {
            let number = |gpu| self.number(region, gpu) / per_server;
            between.add(number(from), number(to), bytes);
        }
    }

    /// Something fails or heals, and `demand` and `health` know it already.
    pub fn incident(
        &mut self,
        event: &Event,
        demand: &Demand<'_>,
        health: &Health<'_>,
        patches: &mut Patches,
    ) -> Result<(), String> {
        for region in 0..self.regions.len() {
            let old = self.regions[region].ports.clone();
            let touched = self.mask(region, event, health);
            let moved = event.moves.iter().any(|&(rank, _)| {
                let server = rank / self.fabric.cluster().gpus_per_server;
                self.index(region, server).is_some()
            });
            if !touched && !moved {
                continue;
            }
            let state = &mut self.regions[region];
            if state.first.is_none() {
                state.first = Some(old.clone());
            }
            let wanted = match event.breaks {
                true => self.replan(region, demand, health)?,
                false if self.changes() => {
                    // Candidates again; whoever weaves next finds them.
                    self.regions[region].ports.clone()
                }
                false => self.put_back(region, demand, health)?,
            };
            self.patches(region, &old, &wanted, &mut patches.patches);
            let pairs = new_circuits(&old, &wanted);
            if pairs > 0 {
                let delay = delay::draw(&self.spec.ocs.delay, pairs, &mut self.random);
                patches.delay = patches.delay.max(delay);
            }
            self.regions[region].ports = wanted;
        }
        Ok(())
    }

    /// Whether any policy ever changes circuits.
    fn changes(&self) -> bool {
        let when = &self.spec.reconfigure;
        [when.first_forward, when.second_forward, when.backward]
            .iter()
            .any(|&policy| policy != ReconfigurePolicy::Reuse)
    }

    /// Takes broken ports out of use, with their circuits, and whole ones back; says whether the region
    /// has any of these, or a packet NIC among them.
    fn mask(&mut self, region: usize, event: &Event, health: &Health<'_>) -> bool {
        let cluster = self.fabric.cluster();
        let mut touched = false;
        for &nic in &event.nics {
            let Some(server) = self.index(region, cluster.server_of_nic(nic).0) else { continue };
            touched = true;
            let local = cluster.local_nic(nic) as u16;
            let port = self.layout.optical_nics.iter().position(|&at| at == local);
            let Some(port) = port.filter(|_| self.fabric.circuit_tx(nic).is_some()) else {
                continue;
            };
            let (server, ports) = (server as usize, &mut self.regions[region].ports);
            match health.is_broken(nic) {
                true => ports.block(server, port),
                false => ports.unblock(server, port),
            }
        }
        touched
    }

    /// Circuits for the demand whose circuits stand, over what works.
    fn replan(
        &self,
        region: usize,
        demand: &Demand<'_>,
        health: &Health<'_>,
    ) -> Result<PortMap, String> {
        let first = self.regions[region].first_server * self.fabric.cluster().gpus_per_server;
        let between = match self.regions[region].matrix {
            Some(matrix) => {
                let block = self.placement.block_of(first);
                let a2a = AllToAll { block, matrix, transposed: false, bytes_per_token: 1 };
                self.between(region, a2a, demand)
            }
            None => {
                let ranks = self.ranks(region, demand);
                let pair = |at: usize| ranks[at / ranks.len()] * ranks[at % ranks.len()];
                let bytes = (0..ranks.len() * ranks.len()).map(pair).collect();
                ServerDemand { n: ranks.len(), bytes }
            }
        };
        let ports = &self.regions[region].ports;
        let mut counts = self.fitting(region, &between);
        self.secure(region, demand, health, &mut counts)?;
        Ok(assign(&counts, ports, &self.numa_of_port))
    }

    /// The circuits that stood before anything failed, if nothing is broken any more.
    fn put_back(
        &self,
        region: usize,
        demand: &Demand<'_>,
        health: &Health<'_>,
    ) -> Result<PortMap, String> {
        let state = &self.regions[region];
        let degree = self.layout.optical_nics.len();
        let whole = |server| (0..degree).all(|port| !state.ports.is_blocked(server, port));
        match &state.first {
            Some(first) if (0..self.servers(region)).all(whole) => Ok(first.clone()),
            _ => self.replan(region, demand, health),
        }
    }

    /// Gives every server of a region that has ranks, but no packet NIC, a circuit to one that has.
    pub(super) fn secure(
        &self,
        region: usize,
        demand: &Demand<'_>,
        health: &Health<'_>,
        counts: &mut CircuitCounts,
    ) -> Result<(), String> {
        if !health.matters() {
            return Ok(());
        }
        let ranks = self.ranks(region, demand);
        let at = |index| self.server(region, index);
        let none = |index: usize| health.is_stranded(at(index));
        let stranded: Vec<bool> =
            (0..ranks.len()).map(|index| none(index) && ranks[index] > 0).collect();
        let mut usable = self.regions[region].ports.usable();
        // Nor can one help that has none itself.
        for index in (0..ranks.len()).filter(|&index| none(index) && !stranded[index]) {
            usable[index] = 0;
        }
        lifelines(counts, &usable, &stranded).map_err(|CutOff(index)| {
            format!(
                "server {} is cut off: it has no NIC on packet switches, and no circuit",
                at(index)
            )
        })
    }

    /// By server of a region: how many of its ranks sit there.
    fn ranks(&self, region: usize, demand: &Demand<'_>) -> Vec<u64> {
        let per_server = self.fabric.cluster().gpus_per_server;
        let first = self.regions[region].first_server * per_server;
        let mut ranks = vec![0; self.servers(region)];
        for rank in first..first + self.region_servers * per_server {
            let server = self.number(region, demand.seats.of(rank)) / per_server;
            ranks[server as usize] += 1;
        }
        ranks
    }

    /// The GPU of a region with an index in its server.
    pub(super) fn gpu(&self, region: usize, (server, gpu): (u16, u16)) -> GpuId {
        let per_server = self.fabric.cluster().gpus_per_server;
        GpuId(self.server(region, usize::from(server)) * per_server + u32::from(gpu))
    }

    /// The NIC of a region with an index in its server.
    pub(super) fn nic_at(&self, region: usize, (server, nic): (u16, u16)) -> NicId {
        let per_server = self.fabric.cluster().nics_per_server;
        NicId(self.server(region, usize::from(server)) * per_server + u32::from(nic))
    }
}
