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
use crate::demand::{AllToAll, Demand};
use crate::failures::{Event, Health};
use lightloom_circuits::failover::{CutOff, lifelines};
use lightloom_circuits::{CircuitCounts, PortMap, ServerDemand};
use lightloom_engine::Patches;
use lightloom_fabric::{GpuId, NicId, ReconfigurePolicy};
use lightloom_units::Time;

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
        (health, now): (&Health<'_>, Time),
        patches: &mut Patches,
    ) -> Result<(), String> {
        for region in 0..self.regions.len() {
            let cluster = self.fabric.cluster();
            let ours = |server| self.index(region, server).is_some();
            let touched = event.nics.iter().any(|&nic| ours(cluster.server_of_nic(nic).0));
            let moved = event.moves.iter().any(|&(rank, _)| ours(rank / cluster.gpus_per_server));
            if !touched && !moved {
                continue;
            }
            let old = self.regions[region].ports.clone();
            self.regions[region].first.get_or_insert_with(|| old.clone());
            let (wanted, dark) = self.after(region, event, (demand, health, now))?;
            self.patches(region, &old, &wanted, &mut patches.patches);
            patches.delay = patches.delay.max(dark);
            self.regions[region].ports = wanted;
        }
        Ok(())
    }

    /// The circuits that a region wants where these are left of those that stood.
    pub(super) fn recover(
        &self,
        region: usize,
        breaks: bool,
        left: &PortMap,
        (demand, health): (&Demand<'_>, &Health<'_>),
    ) -> Result<CircuitCounts, String> {
        match breaks {
            true => self.replan(region, left, demand, health),
            // Candidates again; whoever weaves next finds them.
            false if self.changes() => Ok(left.counts()),
            false => self.put_back(region, left, demand, health),
        }
    }

    /// Whether any policy ever changes circuits.
    fn changes(&self) -> bool {
        let when = &self.spec.reconfigure;
        [when.first_forward, when.second_forward, when.backward]
            .iter()
            .any(|&policy| policy != ReconfigurePolicy::Reuse)
    }

    /// Circuits for the demand whose circuits stand, over what works.
    fn replan(
        &self,
        region: usize,
        left: &PortMap,
        demand: &Demand<'_>,
        health: &Health<'_>,
    ) -> Result<CircuitCounts, String> {
        let between = self.wish(region, demand);
        let mut counts = self.decision.fitting(&between, left);
        self.secure(region, demand, health, left, &mut counts)?;
        Ok(counts)
    }

    /// What a region's circuits are for: the demand that they were set for, or as much from every rank
    /// to every other.
    pub(super) fn wish(&self, region: usize, demand: &Demand<'_>) -> ServerDemand {
        let first = self.regions[region].first_server * self.fabric.cluster().gpus_per_server;
        match self.regions[region].matrix {
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
        }
    }

    /// The circuits that stood before anything failed, if nothing is broken any more.
    fn put_back(
        &self,
        region: usize,
        left: &PortMap,
        demand: &Demand<'_>,
        health: &Health<'_>,
    ) -> Result<CircuitCounts, String> {
        let degree = self.layout.optical_nics.len();
        let whole = |server| (0..degree).all(|port| !left.is_blocked(server, port));
        match &self.regions[region].first {
            Some(first) if (0..self.servers(region)).all(whole) => Ok(first.counts()),
            _ => self.replan(region, left, demand, health),
        }
    }

    /// Gives every server of a region that has ranks, but no packet NIC, a circuit to one that has.
    pub(super) fn secure(
        &self,
        region: usize,
        demand: &Demand<'_>,
        health: &Health<'_>,
        left: &PortMap,
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
        let mut usable = left.usable();
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
