//! MixNet at run time: when a region's circuits are chosen anew, and how its all-to-alls use them.
//!
//! A region holds one block (one replica at one stage); its all-to-alls come one after the other, so
//! at most one matching is wanted at a time. Dispatch and combine have the same symmetrised demand,
//! so a matching changes at most once a layer, pass and micro-batch. Policies, set for each phase
//! (MixNet 5.1, 7.1, B.1):
//! - *block*: when the all-to-all's turn has come, its circuits are set and it waits for them;
//! - *hide*: its circuits are set when the region's previous all-to-all ends, under the compute that
//!   follows. For the first all-to-all of a layer's forward pass, whose demand the gate has not yet
//!   decided, this assumes a perfect prediction: a bound, not a promise;
//! - *predict*: as *hide*, for a demand that [`Foresight`] expects; a region's very first all-to-all
//!   takes the circuits that stand;
//! - *reuse*: the circuits stay as they are;
//! - *inside*: they change during the all-to-all itself ([`inside`]).
//!
//! An iteration begins with the circuits that an even demand would get, or with none. Which circuits
//! is decided by a [`Decider`] a region; this file gives it: the demand, what lies ahead of the
//! region ([`ahead`]), and what other traffic takes of its packet NICs ([`traffic`]).

mod ahead;
mod controlled;
mod failures;
mod inside;
mod planner;
mod reconfigure;
mod send;
mod traffic;

pub(crate) use planner::check as check_inside;

use crate::beside::{Beside, Kept};
use crate::carrier::form::Job;
use crate::demand::{AllToAll, Demand};
use crate::emulate::written;
use crate::failures::{FailurePlan, Health};
use lightloom_circuits::{Layout, PortMap, Rates, Router, ServerDemand, assign};
use lightloom_control::EmulatedRegion;
use lightloom_decide::{Basis, Dark, Decider, Foresight, Question, Rule, Settings, Traffic, rule};
use lightloom_engine::{Orders, Patch, Patches, TaskId};
use lightloom_fabric::{Fabric, MixNetSpec, NicId, ReconfigurePolicy, ServerId, Start};
use lightloom_units::Time;
use lightloom_workload::{BlockId, Comm, Placement, TaskGraph};
use std::sync::Arc;

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
    /// The all-to-all for which the circuits that stand were set.
    set_for: Option<AllToAll>,
    /// See [`Optical::ahead`]; made when it is first asked for.
    gaps: Vec<(Time, u32)>,
    decider: Decider,
    /// The controller that sets the circuits, if one does.
    controller: Option<Box<EmulatedRegion>>,
}

pub(crate) struct Optical<'a> {
    fabric: &'a Fabric,
    graph: &'a TaskGraph,
    placement: &'a Placement,
    spec: &'a MixNetSpec,
    dark: Dark,
    layout: Layout,
    numa_of_port: Vec<u8>,
    regions: Vec<Region>,
    region_servers: u32,
    router: Router,
    planner: planner::Planner,
    foresight: Option<Foresight>,
    ledger: traffic::Ledger<'a>,
    /// By region and server: what earlier iterations said of other traffic, or the task graph.
    earlier: Vec<Vec<Vec<Traffic>>>,
    /// What the controller of the first region that has all-to-alls was asked and answered, if that
    /// is kept.
    kept: Option<(usize, Kept)>,
    pairs: Vec<(u32, u32, u64)>,
}

impl<'a> Optical<'a> {
    pub fn new(
        fabric: &'a Fabric,
        job: Job<'a>,
        spec: &'a MixNetSpec,
        region_servers: u32,
        plan: &FailurePlan,
        beside: Beside<'_>,
        seed: u64,
    ) -> Result<Self, String> {
        let Job { graph, placement, gating } = job;
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
        let settings = settings(spec, layout.packet_nics.len() as u32, beside.rule)?;
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
            if spec.reconfigure.start == Start::Dark {
                return dark;
            }
            let start = Question { basis: Basis::Start, ..Question::new(uniform, dark.clone()) };
            let counts = Decider::new(settings.clone(), &vec![0; n]).decide(&start);
            counts.map_or(dark.clone(), |counts| assign(&counts, &dark, &numa_of_port))
        };
        let earlier = match beside.earlier {
            [] => {
                let regions = (fabric.regions() as usize, region_servers);
                let job = (placement, gating);
                let expected = traffic::expected(graph, job, (cluster, spec), regions);
                let one = |region: Vec<Traffic>| region.into_iter().map(|one| vec![one]).collect();
                expected.into_iter().map(one).collect()
            }
            earlier => {
                let servers = |region: &Vec<Vec<Traffic>>| region.len() == region_servers as usize;
                if earlier.len() != fabric.regions() as usize || !earlier.iter().all(servers) {
                    return Err(format!(
                        "earlier traffic: must be of {} regions of {region_servers} servers",
                        fabric.regions()
                    ));
                }
                earlier.to_vec()
            }
        };
        let plain = standing(&[]);
        let standing_in = plan.standing_in(cluster.gpus_per_server, region_servers);
        let regions = (0..fabric.regions())
            .map(|region| {
                let backups = standing_in.get(&region).cloned().unwrap_or_default();
                let servers = region_servers as usize + backups.len();
                Region {
                    first_server: region * region_servers,
                    ports: if backups.is_empty() { plain.clone() } else { standing(&backups) },
                    backups,
                    first: None,
                    sequence: Vec::new(),
                    next: 0,
                    set_for: None,
                    gaps: Vec::new(),
                    decider: Decider::new(settings.clone(), &vec![0; servers]),
                    controller: None,
                }
            })
            .collect();
        let mut optical = Optical {
            fabric,
            graph,
            placement,
            spec,
            dark: settings.dark.clone(),
            planner: planner::Planner::new(fabric, spec, &layout),
            layout,
            numa_of_port,
            regions,
            region_servers,
            router: Router::default(),
            foresight: spec.reconfigure.predictor.map(|kind| Foresight::new(kind, gating)),
            ledger: traffic::Ledger::new(
                graph,
                placement,
                cluster.gpus_per_server,
                (fabric.regions() as usize, region_servers),
                earlier.iter().flatten().flatten().map(|one| one.iteration).max().unwrap_or(0) + 1,
            ),
            earlier,
            kept: None,
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
        let first = optical.regions.iter().position(|region| !region.sequence.is_empty());
        optical.kept = first.filter(|_| beside.recorded).map(|region| (region, Kept::default()));
        optical.start_controllers(seed)?;
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
            self.ledger.all_to_all_begins(region, task.0, now);
            self.regions[region].next += 1;
            return self.inside(region, a2a, demand, (health, now), key, orders);
        }
        let blocks = match self.when(task.0) {
            ReconfigurePolicy::Block => true,
            ReconfigurePolicy::Hide => self.regions[region].next == 0, // there was nothing before
            _ => false,
        };
        if blocks {
            self.reconfigure(region, a2a, demand, (health, now), &mut orders.patches)?;
            health.patched(&orders.patches, now);
        }
        let dark = orders.patches.delay;
        self.ledger.all_to_all_begins(region, task.0, now.saturating_add(dark));
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
        self.ledger.all_to_all_ends(region, now);
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
                    self.expect(region, a2a, demand, (health, now), patches)?;
                }
                _ => self.reconfigure(region, a2a, demand, (health, now), patches)?,
            }
        }
        Ok(())
    }

    /// Another transfer than an all-to-all begins.
    pub fn other_begins(&mut self, transfer: u32, now: Time) {
        self.ledger.begins(transfer, &self.graph.comms[transfer as usize], now);
    }

    /// It has ended.
    pub fn other_ends(&mut self, transfer: u32, now: Time) {
        self.ledger.ends(transfer, now);
    }

    /// By region and server: what other traffic took while all-to-alls were under way, this iteration's
    /// record last.
    pub fn traffic(&self) -> Vec<Vec<Vec<Traffic>>> {
        (0..self.regions.len()).map(|region| self.traffic_of(region)).collect()
    }

    /// What the first region's controller was asked and did, if that was to be kept.
    pub fn kept(&mut self) -> Option<Kept> {
        let (region, mut kept) = self.kept.take()?;
        let controller = self.regions[region].controller.as_mut()?;
        (kept.answered.journal, kept.answered.trace) = written(controller);
        Some(kept)
    }

    fn traffic_of(&self, region: usize) -> Vec<Vec<Traffic>> {
        let mut servers = self.earlier[region].clone();
        for (server, record) in servers.iter_mut().zip(self.ledger.records(region)) {
            server.push(record.clone());
        }
        servers
    }

    /// By whom demands were predicted, and how many of them, in words; none if nobody was asked to.
    pub fn predicted(&self) -> Option<String> {
        let trusted = self.foresight.as_ref()?.trusted();
        let all: usize = trusted.iter().map(|(_, times)| times).sum();
        let each = trusted.iter().map(|(by, times)| format!("{times} by {}", by.name()));
        Some(format!("{all} demands were predicted: {}", each.collect::<Vec<_>>().join(", ")))
    }
}

/// How circuits are chosen, as a specification says.
fn settings(
    spec: &MixNetSpec,
    packet_nics: u32,
    other: Option<&Arc<dyn Rule>>,
) -> Result<Settings, String> {
    let named = |name: &str| {
        rule(name).map_err(|allowed| format!("fabric.decision = \"{name}\": {allowed}"))
    };
    Ok(Settings {
        rule: other.cloned().map_or_else(|| named(&spec.decision), Ok)?,
        hysteresis: spec.hysteresis,
        keep_going: spec.greedy_continue,
        rates: Rates {
            optical_bps: spec.ocs.link_bps.bps(),
            packet_bps: spec.eps.link_bps.bps(),
            packet_nics,
            share_eps: spec.share_eps,
        },
        dark: Dark::new(spec.ocs.delay.clone(), &spec.ocs.activation, spec.ocs.loopback),
        ..Settings::default()
    })
}

/// Local NIC indices; a specification has at most 1024 NICs a server.
fn narrow(nics: &[u32]) -> Vec<u16> {
    nics.iter().map(|&nic| nic as u16).collect()
}
