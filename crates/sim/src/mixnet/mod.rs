//! MixNet at run time: when a region's circuits are chosen anew, and how its all-to-alls use them.
//!
//! A region holds one block (one replica at one stage); its all-to-alls come one after the other, so
//! at most one matching is wanted at a time. Dispatch and combine have the same symmetrised demand,
//! so a matching changes at most once a layer, pass and micro-batch. Where two micro-batches pass a block
//! at once, its all-to-alls are still one after the other, for the task graph says so; but those of the
//! two take turns, so that matchings serve one all-to-all each, and change up to four times as often, or
//! are left as they are because a change would not pay. Policies, set for each phase
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
mod gap;
mod inside;
mod planner;
mod reconfigure;
mod ring;
mod rings;
mod send;
mod start;
mod sums;
mod traffic;

pub use gap::{Coming, lookahead};

use crate::beside::Kept;
use crate::carrier::{DELEGATE, Stages};
use crate::demand::AllToAll;
use crate::emulate::written;
use crate::failures::FailureEvent;
use crate::medium::form::{
    Medium, PAPER, Setting, State, Sum, Turn, around, by_packets, collective, rings,
};
use crate::spec::EngineSpec;
use lightloom_circuits::predict::predictor;
use lightloom_circuits::{Layout, PortMap, Rates, Router, assign};
use lightloom_control::EmulatedRegion;
use lightloom_decide::rule::Recalled;
use lightloom_decide::{Ahead, Dark, Decider, Foresight, Rule, Settings, Traffic, rule};
use lightloom_engine::{Orders, Patch, Patches, TaskId};
use lightloom_fabric::{Fabric, MixNetSpec, NicId, ReconfigurePolicy};
use lightloom_units::Time;
use lightloom_workload::{BlockId, Comm, Gating, Placement, TaskGraph};
use std::sync::Arc;

struct Region {
    /// Of the fabric's.
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
    ahead: Vec<Ahead>,
    decider: Decider,
    /// The controller that sets the circuits, if one does.
    controller: Option<Box<EmulatedRegion>>,
}

pub(crate) struct Optical<'a> {
    fabric: &'a Fabric,
    graph: &'a TaskGraph,
    placement: &'a Placement,
    spec: &'a MixNetSpec,
    /// Whether the circuits are given, and stay.
    given: bool,
    dark: Dark,
    layout: Layout,
    numa_of_port: Vec<u8>,
    regions: Vec<Region>,
    region_servers: u32,
    router: Router,
    planner: planner::Planner,
    foresight: Option<Foresight>,
    rings: ring::Rings,
    ledger: traffic::Ledger<'a>,
    /// Where micro-batches pass blocks two at a time: see [`ahead`].
    alone: Vec<(Time, Time)>,
    /// By region and server: what earlier iterations said of other traffic, or the task graph.
    earlier: Vec<Vec<Vec<Traffic>>>,
    /// What the controller of the first region that has all-to-alls was asked and answered, if that
    /// is kept.
    kept: Option<(usize, Kept)>,
    pairs: Vec<(u32, u32, u64)>,
    stages: Stages,
    /// What carries all-to-alls.
    carrier: &'static str,
}

impl<'a> Optical<'a> {
    pub fn new(setting: &Setting<'a>) -> Result<Self, String> {
        let Setting { fabric, job, beside, .. } = *setting;
        let spec: &MixNetSpec = setting.spec.fabric.keys().expect("only MixNet names this medium");
        let (carrier, stages) = match setting.carriers.is_empty() || planner::one_by_one(setting)? {
            true => (PAPER, Stages::one_by_one(&setting.spec.cluster)),
            false => (DELEGATE, Stages::new(setting.spec)),
        };
        let by_flows = matches!(setting.spec.engine, EngineSpec::Flow { .. });
        let (fails, hosted) = (!setting.spec.failures.is_empty(), fabric.cluster().host.is_some());
        planner::check(spec, by_flows, fails, hosted)?;
        let region_servers = setting.spec.region_servers();
        let layout = start::layout(fabric, region_servers);
        let numa_of_port = start::numa_of_port(fabric, &layout);
        let settings = settings(spec, layout.packet_nics.len() as u32, beside.rule)?;
        let per_server = fabric.cluster().gpus_per_server;
        let plan = setting.plan.standing_in(per_server, region_servers);
        let ports = |backups: &[u32]| {
            start::ports(fabric, spec, &settings, &numa_of_port, (region_servers, backups))
        };
        let plain = ports(&[]);
        let region = |&region: &u32| {
            let backups = plan.get(&region).cloned().unwrap_or_default();
            let servers = region_servers as usize + backups.len();
            Region {
                first_server: region * region_servers,
                ports: if backups.is_empty() { plain.clone() } else { ports(&backups) },
                backups,
                first: None,
                sequence: Vec::new(),
                next: 0,
                set_for: None,
                ahead: Vec::new(),
                decider: Decider::new(settings.clone(), &vec![0; servers]),
                controller: None,
            }
        };
        let mut regions: Vec<Region> = setting.regions.iter().map(region).collect();
        if let Some(given) = &setting.decided.standing {
            for region in &mut regions {
                let dark = PortMap::dark(given.servers(), layout.optical_nics.len());
                region.ports = assign(given, &dark, &numa_of_port);
            }
        }
        let count = regions.len();
        let earlier =
            start::earlier(fabric.cluster(), spec, job, (count, region_servers, beside.earlier))?;
        regions.iter_mut().zip(&earlier).for_each(|(region, said)| region.decider.recall(said));
        let iteration = earlier.iter().flatten().flatten().map(|one| one.iteration).max();
        let mut optical = Optical {
            fabric,
            graph: job.graph,
            placement: job.placement,
            spec,
            regions,
            given: setting.decided.standing.is_some(),
            dark: settings.dark,
            planner: planner::Planner::new(fabric, spec, &layout),
            layout,
            numa_of_port,
            region_servers,
            router: Router::default(),
            foresight: foresight(spec, job.gating)?,
            rings: ring::Rings::default(),
            ledger: traffic::Ledger::new(
                job.graph,
                job.placement,
                per_server,
                (count, region_servers),
                iteration.unwrap_or(0) + 1,
            ),
            alone: Vec::new(),
            earlier,
            kept: None,
            pairs: Vec::new(),
            stages,
            carrier,
        };
        if job.graph.overlaps {
            let of = (fabric.cluster(), spec);
            optical.alone = traffic::alone(&mut optical.ledger, job.graph, job.gating, of);
        }
        // A block's all-to-alls are chained, so any topological order has them in order.
        let serves = optical.serves();
        let order = serves.then(|| job.graph.topological_order()).flatten().unwrap_or_default();
        for task in order {
            if let Some(Comm::AllToAll { block, .. }) = job.graph.communication(task) {
                let region = optical.region(*block);
                optical.regions[region].sequence.push(task);
            }
        }
        let first = optical.regions.iter().position(|region| !region.sequence.is_empty());
        optical.kept = first.filter(|_| beside.recorded).map(|region| (region, Kept::default()));
        optical.plan_rings(setting.spec.rings_of_stages(), job.gating);
        optical.start_controllers(setting.spec.seed)?;
        Ok(optical)
    }

    /// Whether a block's EP groups span servers, and so have circuits.
    fn serves(&self) -> bool {
        self.placement.degrees().exchange_span() > self.fabric.cluster().gpus_per_server
    }

    /// Which of the job's regions holds a block.
    fn region(&self, block: BlockId) -> usize {
        let server = self.placement.block_gpus(block).start / self.fabric.cluster().gpus_per_server;
        (server / self.region_servers) as usize
    }

    /// Which of them has a server of the fabric for its own.
    fn region_at(&self, server: u32) -> Option<usize> {
        let first = server / self.region_servers * self.region_servers;
        self.regions.iter().position(|region| region.first_server == first)
    }

    fn nic(&self, region: usize, server: usize, port: usize) -> NicId {
        self.nic_at(region, (server as u16, self.layout.optical_nics[port]))
    }

    /// By server of a region: what other traffic took, this iteration's record last.
    fn traffic_of(&self, region: usize) -> Vec<Vec<Traffic>> {
        let mut servers = self.earlier[region].clone();
        for (server, record) in servers.iter_mut().zip(self.ledger.records(region)) {
            server.push(record.clone());
        }
        servers
    }
}

impl Medium for Optical<'_> {
    fn standing(&self) -> Vec<Patch> {
        let mut patches = Vec::new();
        for region in 0..self.regions.len() {
            let dark = PortMap::dark(self.servers(region), self.layout.optical_nics.len());
            self.patches(region, &dark, &self.regions[region].ports, &mut patches);
        }
        patches
    }

    fn circuits_between(&self, a: u32, b: u32) -> u32 {
        // A server that stands in belongs to no region of its own.
        let Some(place) = self.region_at(a.min(b)) else { return 0 };
        let (Some(a), Some(b)) = (self.index(place, a), self.index(place, b)) else { return 0 };
        let planned = self.planner.circuits_between(place, a, b);
        planned.unwrap_or_else(|| self.regions[place].ports.between(a as usize, b as usize))
    }

    fn note(&self) -> Option<String> {
        let notes = [self.foresight.as_ref().map(Foresight::note), self.rings.note()];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// A region is a block's. But circuits for sums are for all replicas.
    fn stays_between(&self) -> bool {
        self.rings.regions.is_empty()
    }

    fn rings(
        &mut self,
        state: &State<'_>,
        sum: &Sum<'_>,
        key: u64,
        orders: &mut Orders,
    ) -> Result<(), String> {
        let Some(region) = self.ring_of(sum.stage) else {
            return rings(self, state, sum, key, orders);
        };
        let per_server = self.fabric.cluster().gpus_per_server;
        let pairs: Vec<_> = ring::both_ways(&sum.plan.ring, per_server).collect();
        self.send_around(region, &pairs, sum.plan.steps, (state, key), orders)
    }

    fn collective(
        &mut self,
        state: &State<'_>,
        groups: &[Vec<u32>],
        (bytes, steps): (u64, u32),
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<(), String> {
        match self.ring_under(groups) {
            Some(region) => {
                let pairs = around(groups, bytes);
                self.send_around(region, &pairs, steps, (state, turn.key), orders)
            }
            None => collective(self, state, groups, (bytes, steps), turn, orders),
        }
    }

    fn next(&mut self, task: TaskId, now: Time, patches: &mut Patches) {
        self.sum_ends(task.0, now, patches);
    }

    fn all_to_all(
        &mut self,
        state: &mut State<'_>,
        a2a: AllToAll,
        turn: Turn,
        orders: &mut Orders,
    ) -> Result<&'static str, String> {
        if !self.serves() {
            return by_packets(self, state, a2a, turn, orders);
        }
        let (region, now) = (self.region(a2a.block), turn.now);
        let when = self.when(turn.task.0);
        if when == ReconfigurePolicy::Inside {
            self.ledger.all_to_all_begins(region, turn.task.0, now);
            self.regions[region].next += 1;
            return self.inside(region, a2a, state, turn, orders).map(|()| self.carrier);
        }
        let blocks = match when {
            ReconfigurePolicy::Block => true,
            ReconfigurePolicy::Hide => self.regions[region].next == 0, // there was nothing before
            _ => false,
        };
        if blocks {
            self.reconfigure(region, a2a, (state, now), &mut orders.patches)?;
            state.health.patched(&orders.patches, now);
        }
        self.after_sums(region, now, &mut orders.patches);
        let dark = orders.patches.delay;
        self.ledger.all_to_all_begins(region, turn.task.0, now.saturating_add(dark));
        self.regions[region].next += 1;
        self.delegate(region, a2a, state, turn.key, orders)?;
        Ok(self.carrier)
    }

    /// The region's circuits are free: set those of the next all-to-all if that is to be hidden.
    fn end(
        &mut self,
        state: &mut State<'_>,
        block: BlockId,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        if !self.serves() {
            return Ok(());
        }
        let region = self.region(block);
        self.ledger.all_to_all_ends(region, now);
        if self.before_sums(region, now, patches) {
            return Ok(());
        }
        let Some(&next) = self.regions[region].sequence.get(self.regions[region].next) else {
            return Ok(());
        };
        let when = self.when(next);
        self.settle(region, when, patches);
        if let Some(&Comm::AllToAll { block, matrix, transposed, bytes_per_token }) =
            self.graph.communication(next)
        {
            let a2a = AllToAll { block, matrix, transposed, bytes_per_token };
            match when {
                ReconfigurePolicy::Hide => self.reconfigure(region, a2a, (state, now), patches)?,
                ReconfigurePolicy::Predict => self.expect(region, a2a, (state, now), patches)?,
                _ => {}
            }
        }
        state.health.patched(patches, now);
        Ok(())
    }

    fn incident(
        &mut self,
        state: &mut State<'_>,
        event: &FailureEvent,
        now: Time,
        patches: &mut Patches,
    ) -> Result<(), String> {
        self.recover(state, event, now, patches)?;
        state.health.patched(patches, now);
        Ok(())
    }

    fn other_begins(&mut self, transfer: u32, now: Time) {
        self.ledger.begins(transfer, &self.graph.comms[transfer as usize], now);
    }

    fn other_ends(&mut self, transfer: u32, now: Time) {
        self.ledger.ends(transfer, now);
    }

    fn traffic(&self) -> Vec<Vec<Vec<Traffic>>> {
        (0..self.regions.len()).map(|region| self.traffic_of(region)).collect()
    }

    fn kept(&mut self) -> Option<Kept> {
        let (region, mut kept) = self.kept.take()?;
        let controller = self.regions[region].controller.as_mut()?;
        (kept.answered.journal, kept.answered.trace) = written(controller);
        Some(kept)
    }
}

/// What is expected, if a specification says who predicts.
fn foresight(spec: &MixNetSpec, gating: &Gating) -> Result<Option<Foresight>, String> {
    let Some(name) = &spec.reconfigure.predictor else { return Ok(None) };
    let predictor = predictor(name)
        .map_err(|allowed| format!("fabric.reconfigure.predictor = \"{name}\": {allowed}"))?;
    Ok(Some(Foresight::new(predictor, gating)))
}

/// How circuits are chosen, as a specification says.
fn settings(
    spec: &MixNetSpec,
    packet_nics: u32,
    other: Option<&Arc<dyn Rule>>,
) -> Result<Settings, String> {
    let named = |name: &str| -> Result<Arc<dyn Rule>, String> {
        let found = rule(name);
        let found = found.map_err(|allowed| format!("fabric.decision = \"{name}\": {allowed}"))?;
        Ok(Arc::new(Recalled::new(found)))
    };
    Ok(Settings {
        rule: other.cloned().map_or_else(|| named(&spec.decision), Ok)?,
        hysteresis: spec.hysteresis,
        keep_going: spec.greedy_continue,
        rates: Rates {
            optical_bps: spec.ocs.circuit_bps().bps(),
            packet_bps: spec.eps.link_bps.bps(),
            packet_nics,
            share_eps: spec.share_eps,
        },
        dark: Dark::new(spec.ocs.delay.clone(), &spec.ocs.activation, spec.ocs.loopback),
        ..Settings::default()
    })
}
