//! MixNet at run time: when to re-weave a region's circuits, and how its all-to-alls use them.
//!
//! A region holds one block (one replica at one stage); its all-to-alls come one after the other, so
//! at most one matching is wanted at a time. Dispatch and combine have the same symmetrised demand,
//! so a matching changes at most once a layer, pass and micro-batch. Policies, set for each phase
//! (MixNet 5.1, 7.1, B.1):
//! - *block*: when the all-to-all's turn has come, its circuits are set and it waits for them;
//! - *hide*: its circuits are set when the region's previous all-to-all ends, under the compute that
//!   follows. For the first all-to-all of a layer's forward pass, whose demand the gate has not yet
//!   decided, this assumes a perfect prediction: a bound, not a promise;
//! - *predict*: as *hide*, for a demand that [`foresight`] expects; a region's very first all-to-all
//!   takes the circuits that stand;
//! - *reuse*: the circuits stay as they are;
//! - *inside*: they change during the all-to-all itself ([`inside`]).
//!
//! An iteration begins with the circuits that a uniform demand would get.

mod controlled;
mod decide;
mod failures;
mod foresight;
mod inside;
mod send;
mod weave;

pub(crate) use inside::check as check_inside;

use crate::demand::{AllToAll, Demand};
use crate::failures::{Health, Plan};
use foresight::Foresight;
use lightloom_circuits::{
    Decision, GreedyOptions, Layout, PortMap, Router, ServerDemand, allocate, assign,
};
use lightloom_control::Rehearsal;
use lightloom_engine::{Orders, Patch, Patches, TaskId};
use lightloom_fabric::{Fabric, MixNetSpec, NicId, ReconfigurePolicy, ServerId};
use lightloom_units::Time;
use lightloom_workload::{BlockId, Comm, Gating, MatrixId, Placement, TaskGraph};

struct Region {
    first_server: u32,
    /// Servers that stand in for others, behind those of the region.
    backups: Vec<u32>,
    ports: PortMap,
    /// The circuits that stood before anything failed.
    first: Option<PortMap>,
    /// The all-to-all tasks of this region, in order.
    sequence: Vec<u32>,
    next: usize,
    /// The matrix whose circuits stand.
    matrix: Option<MatrixId>,
    memory: decide::Memory,
    /// The controller that sets the circuits, if one does.
    controller: Option<Box<Rehearsal>>,
}

pub(crate) struct Optical<'a> {
    fabric: &'a Fabric,
    graph: &'a TaskGraph,
    placement: &'a Placement,
    spec: &'a MixNetSpec,
    decision: Decision,
    layout: Layout,
    numa_of_port: Vec<u8>,
    regions: Vec<Region>,
    region_servers: u32,
    router: Router,
    planner: inside::Planner,
    foresight: Option<Foresight>,
    pairs: Vec<(u32, u32, u64)>,
}

impl<'a> Optical<'a> {
    pub fn new(
        fabric: &'a Fabric,
        graph: &'a TaskGraph,
        (placement, gating): (&'a Placement, &Gating),
        spec: &'a MixNetSpec,
        region_servers: u32,
        plan: &Plan,
        seed: u64,
    ) -> Result<Self, String> {
        let cluster = fabric.cluster();
        let server = ServerId(0);
        let optical = fabric.optical_nics(server).to_vec();
        let nic = |local: u32| cluster.nic(server, local);
        let layout = Layout {
            servers: region_servers as u16,
            gpus_per_server: cluster.gpus_per_server as u16,
            packet_nics: narrow(fabric.packet_nics(server)),
            optical_nics: narrow(&optical),
            nic_gpu: (0..cluster.nics_per_server)
                .map(|local| cluster.local(cluster.gpu_of(nic(local))) as u16)
                .collect(),
        };
        let numa_of_port: Vec<u8> =
            optical.iter().map(|&at| cluster.numa_of(nic(at)) as u8).collect();
        let degree = optical.len();
        let greedy =
            GreedyOptions { optical_degree: degree as u32, keep_going: spec.greedy_continue };
        // All alike, but for servers that stand in and have nothing to send yet.
        let standing = |backups: &[u32]| {
            let (job, n) = (region_servers as usize, region_servers as usize + backups.len());
            let pair = |at: usize| u64::from(at / n != at % n && (at / n).max(at % n) < job);
            let uniform = ServerDemand { n, bytes: (0..n * n).map(pair).collect() };
            let mut dark = PortMap::dark(n, degree);
            for (at, &backup) in (job..).zip(backups) {
                if fabric.region_of(ServerId(backup)).is_none() {
                    (0..degree).for_each(|port| dark.block(at, port));
                }
            }
            assign(&allocate(&uniform, &greedy), &dark, &numa_of_port)
        };
        let plain = standing(&[]);
        let standing_in = plan.standing_in(cluster.gpus_per_server, region_servers);
        let regions = (0..fabric.regions())
            .map(|region| {
                let backups = standing_in.get(&region).cloned().unwrap_or_default();
                Region {
                    first_server: region * region_servers,
                    ports: if backups.is_empty() { plain.clone() } else { standing(&backups) },
                    backups,
                    first: None,
                    sequence: Vec::new(),
                    next: 0,
                    matrix: None,
                    memory: decide::Memory::default(),
                    controller: None,
                }
            })
            .collect();
        let mut optical = Optical {
            fabric,
            graph,
            placement,
            spec,
            decision: decide::decision(spec, &layout),
            planner: inside::Planner::new(fabric, spec, &layout),
            layout,
            numa_of_port,
            regions,
            region_servers,
            router: Router::default(),
            foresight: spec.reconfigure.predictor.map(|kind| Foresight::new(kind, gating)),
            pairs: Vec::new(),
        };
        // A block's all-to-alls are chained, so any topological order has them in order.
        for task in graph.topological_order().unwrap_or_default() {
            if let Some(Comm::AllToAll { block, .. }) = graph.communication(task) {
                if optical.serves(*block) {
                    let region = optical.region(*block);
                    optical.regions[region].sequence.push(task);
                }
            }
        }
        optical.employ_controllers(seed)?;
        Ok(optical)
    }

    /// The circuits that stand when the iteration begins.
    pub fn standing(&self) -> Vec<Patch> {
        let mut patches = Vec::new();
        for region in 0..self.regions.len() {
            let dark = PortMap::dark(self.servers(region), self.layout.optical_nics.len());
            self.patches(region, &dark, &self.regions[region].ports, &mut patches);
        }
        patches
    }

    /// Whether a block spans servers, and so has circuits.
    pub fn serves(&self, block: BlockId) -> bool {
        self.placement.block_gpus(block).len() as u32 > self.fabric.cluster().gpus_per_server
    }

    pub fn circuits_between(&self, a: u32, b: u32) -> u32 {
        // A server that stands in belongs to no region of its own.
        let place = (a.min(b) / self.region_servers) as usize;
        let index =
            |server| (place < self.regions.len()).then(|| self.index(place, server)).flatten();
        let (Some(a), Some(b)) = (index(a), index(b)) else { return 0 };
        let planned = self.planner.circuits_between(place, a, b);
        planned.unwrap_or_else(|| self.regions[place].ports.between(a as usize, b as usize))
    }

    fn region(&self, block: BlockId) -> usize {
        let server = self.placement.block_gpus(block).start / self.fabric.cluster().gpus_per_server;
        (server / self.region_servers) as usize
    }

    fn nic(&self, region: usize, server: usize, port: usize) -> NicId {
        self.nic_at(region, (server as u16, self.layout.optical_nics[port]))
    }

    pub fn begin(
        &mut self,
        a2a: AllToAll,
        demand: &Demand<'_>,
        health: &mut Health<'_>,
        (key, task, now): (u64, TaskId, Time),
        orders: &mut Orders,
    ) -> Result<(), String> {
        let region = self.region(a2a.block);
        if self.when(task.0) == ReconfigurePolicy::Inside {
            self.regions[region].next += 1;
            return self.inside(region, a2a, demand, (health, now), key, orders);
        }
        let blocks = match self.when(task.0) {
            ReconfigurePolicy::Block => true,
            ReconfigurePolicy::Hide => self.regions[region].next == 0, // there was nothing before
            _ => false,
        };
        if blocks {
            self.reweave(region, a2a, demand, (health, now), &mut orders.patches)?;
            health.patched(&orders.patches, now);
        }
        self.regions[region].next += 1;
        self.send(region, a2a, demand, health, key, orders)
    }

    /// The region's circuits are free: set those of the next all-to-all if that is to be hidden.
    pub fn end(
        &mut self,
        block: BlockId,
        demand: &Demand<'_>,
        (health, now): (&Health<'_>, Time),
        patches: &mut Patches,
    ) -> Result<(), String> {
        let region = self.region(block);
        let Some(&next) = self.regions[region].sequence.get(self.regions[region].next) else {
            return Ok(());
        };
        self.settle(region, self.when(next), patches);
        let when = self.when(next);
        if !matches!(when, ReconfigurePolicy::Hide | ReconfigurePolicy::Predict) {
            return Ok(());
        }
        if let Some(&Comm::AllToAll { block, matrix, transposed, bytes_per_token }) =
            self.graph.communication(next)
        {
            let a2a = AllToAll { block, matrix, transposed, bytes_per_token };
            match when {
                ReconfigurePolicy::Predict => {
                    self.foresee(region, a2a, demand, (health, now), patches)?;
                }
                _ => self.reweave(region, a2a, demand, (health, now), patches)?,
            }
        }
        Ok(())
    }

    /// By whom demands were predicted, and how many of them, in words; none if nobody was asked to.
    pub fn predicted(&self) -> Option<String> {
        let trusted = self.foresight.as_ref()?.trusted();
        let all: usize = trusted.iter().map(|(_, times)| times).sum();
        let each = trusted.iter().map(|(by, times)| format!("{times} by {}", by.name()));
        Some(format!("{all} demands were predicted: {}", each.collect::<Vec<_>>().join(", ")))
    }
}

/// Local NIC indices; a specification has at most 1024 NICs a server.
fn narrow(nics: &[u32]) -> Vec<u16> {
    nics.iter().map(|&nic| nic as u16).collect()
}
