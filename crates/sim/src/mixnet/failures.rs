//! A region some of whose parts have failed (MixNet, Section 5.4): ports that failed leave the
//! candidates and the circuits are chosen anew at once, with a lifeline for every server that has no
//! packet NIC left. Servers that stand in for others are further servers of the region.
//!
//! What heals is a candidate again when circuits are next chosen; where they never change, those
//! that stood at first are set again.
//! Ignored: hysteresis, here: a circuit that is gone has no time that could be compared.
//! Checked: in `tests/test_failures.py`, every byte arrives; a port that fails and heals leaves the
//! circuits as they were.

use super::Optical;
use crate::demand::{AllToAll, Demand};
use crate::failures::FailureEvent;
use crate::medium::form::State;
use lightloom_circuits::{CircuitCounts, PortMap, ServerDemand};
use lightloom_decide::{Basis, Decider, PacketSide, Question, Refusal};
use lightloom_engine::Patches;
use lightloom_fabric::{GpuId, NicId, ReconfigurePolicy};
use lightloom_units::Time;

/// What is done when something fails or heals.
pub(super) enum Recovery {
    /// Ports that work again are candidates; whoever changes circuits next finds them.
    Keep,
    /// Circuits never change: those that stood at first are set again once nothing is broken, and
    /// until then others for this demand.
    PutBack(CircuitCounts, ServerDemand),
    /// Circuits are lost, or what is sent is another: others are chosen at once.
    Repair(ServerDemand),
}

impl Recovery {
    /// The circuits that a region gets where these are left of those that stood.
    pub fn circuits(
        &self,
        decider: &mut Decider,
        left: &PortMap,
        sides: &[PacketSide],
    ) -> Result<CircuitCounts, Refusal> {
        let usable = left.usable();
        let whole = || usable.iter().all(|&ports| ports as usize == left.degree());
        let demand = match self {
            Recovery::Keep => return Ok(left.counts()),
            Recovery::PutBack(first, _) if whole() => return Ok(first.clone()),
            Recovery::PutBack(_, demand) | Recovery::Repair(demand) => demand.clone(),
        };
        decider.decide(&Question {
            basis: Basis::Repair,
            packet_sides: sides.to_vec(),
            ..Question::new(demand, left.clone())
        })
    }
}

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

    /// Something fails or heals, and `state` knows it already.
    pub(super) fn recover(
        &mut self,
        state: &State<'_>,
        event: &FailureEvent,
        now: Time,
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
            let (wanted, dark) = self.after(region, event, (state, now))?;
            self.patches(region, &old, &wanted, &mut patches.patches);
            patches.delay = patches.delay.max(dark);
            self.regions[region].ports = wanted;
        }
        Ok(())
    }

    /// What is done about an event.
    pub(super) fn recovery(&self, region: usize, breaks: bool, demand: &Demand<'_>) -> Recovery {
        match (breaks, &self.regions[region].first) {
            (false, _) if self.changes() => Recovery::Keep,
            (false, Some(first)) => Recovery::PutBack(first.counts(), self.wish(region, demand)),
            _ => Recovery::Repair(self.wish(region, demand)),
        }
    }

    /// Whether any policy ever changes circuits.
    fn changes(&self) -> bool {
        let when = &self.spec.reconfigure;
        [when.first_forward, when.second_forward, when.backward]
            .iter()
            .any(|&policy| policy != ReconfigurePolicy::Reuse)
    }

    /// What a region's circuits are for: the demand that they were set for, or as much from every rank
    /// to every other.
    pub(super) fn wish(&self, region: usize, demand: &Demand<'_>) -> ServerDemand {
        match self.regions[region].set_for {
            Some(a2a) => self.between(region, a2a, demand),
            None => {
                let ranks = self.ranks(region, demand);
                let pair = |at: usize| ranks[at / ranks.len()] * ranks[at % ranks.len()];
                let bytes = (0..ranks.len() * ranks.len()).map(pair).collect();
                ServerDemand { n: ranks.len(), bytes }
            }
        }
    }

    /// Which servers of a region have no packet NIC left, and whether they have ranks.
    pub(super) fn packet_sides(&self, region: usize, state: &State<'_>) -> Vec<PacketSide> {
        if !state.health.matters() {
            return Vec::new();
        }
        let ranks = self.ranks(region, &state.demand);
        let side = |(index, &ranks): (usize, &u64)| match ranks {
            _ if !state.health.is_stranded(self.server(region, index)) => PacketSide::Works,
            0 => PacketSide::BrokenAndIdle,
            _ => PacketSide::Broken,
        };
        ranks.iter().enumerate().map(side).collect()
    }

    /// By server of a region: how many of its ranks sit there.
    fn ranks(&self, region: usize, demand: &Demand<'_>) -> Vec<u64> {
        let per_server = self.fabric.cluster().gpus_per_server;
        let first = self.regions[region].first_server * per_server;
        let mut ranks = vec![0; self.servers(region)];
        for rank in first..first + self.region_servers * per_server {
            let server = self.number(region, demand.moved.gpu_of(rank)) / per_server;
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
