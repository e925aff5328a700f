//! What fails during a run, when, and what stands in for it (MixNet, Section 5.4).
//!
//! Modelled, by part:
//! - `nic`, `link`, `ocs-port`: a NIC, its cable, the optical switch's port of it. The network sees the
//!   same: nothing goes over that NIC until it heals. Of a NIC that is broken out, `nic` and `link` take
//!   all parts, `ocs-port` one;
//! - `switch`, and `link` between two of them or one and a server: a packet switch, or the optical one of
//!   a plane or of RailX's rail, all its cables, or those between the two ([`parts`]); NICs on it can be
//!   used no more;
//! - `eps`: all NICs of a server on packet switches; `ocs`: all circuits of a region;
//! - `gpu`: its rank moves to a GPU of a server that stands in. NICs are reached through their GPUs, so
//!   those of the GPU are given up too;
//! - `server`: all its ranks move to a server that stands in.
//!
//! Which server stands in is decided before the run: the first of the right wiring with the same GPU
//! free, else with any GPU free, else one more. A moved rank's tasks are held while its checkpoint is
//! restored. What is in flight when ranks move arrives as if they had not.
//! Ignored: that work since the checkpoint is done again; that all other ranks restore it too; how a
//! failure is noticed.
//! Checked: random failures on a small job, on two engines: every byte arrives
//! (`tests/test_failures.py`).

pub(crate) mod health;
mod moved;
mod network;
mod parts;
pub(crate) mod spec;

pub(crate) use health::{FailureEvent, Health};
pub(crate) use moved::Moved;
pub use spec::{FailedPart, Failure, Wired};

use crate::error::SimError;
use crate::spec::{EngineSpec, Spec};

use self::network::Network;
use self::parts::Lost;
use lightloom_engine::Incident;
use lightloom_fabric::{Backup, Cluster, FABRICS, Fabric, FabricKind};
use lightloom_units::Time;
use lightloom_workload::{Placement, TaskGraph, TaskKind};
use std::collections::BTreeMap;

/// What a run does about failures: when what breaks, and who stands in.
#[derive(Debug, Default)]
pub(crate) struct FailurePlan {
    /// Servers beyond the job's, by how they are wired.
    pub backups: Vec<Backup>,
    /// By failure: ranks that move, and the GPUs they move to.
    moves: Vec<Vec<(u32, u32)>>,
    /// In order of time, one for each of the engine's incidents.
    pub events: Vec<FailureEvent>,
}

impl FailurePlan {
    /// Finds who stands in for what fails.
    ///
    /// # Errors
    /// Names the failure that the fabric, the engine or the pool of servers cannot meet.
    pub fn new(spec: &Spec, region_servers: u32) -> Result<Self, SimError> {
        let mut plan = FailurePlan::default();
        let servers = spec.cluster.gpus / spec.cluster.gpus_per_server.max(1);
        plan.backups = vec![Backup::Packets; spec.backup_servers as usize];
        if spec.failures.is_empty() {
            return Ok(plan);
        }
        refuse(spec)?;
        let regions = servers / region_servers.max(1);
        let mut pool = Pool { spec, region_servers, servers: vec![], gone: vec![] };
        plan.moves = vec![vec![]; spec.failures.len()];
        let mut order: Vec<usize> = (0..spec.failures.len()).collect();
        order.sort_by_key(|&index| spec.failures[index].at_ps);
        for index in order {
            let failure = &spec.failures[index];
            parts::within(failure, spec, regions)?;
            plan.moves[index] = pool.stand_in(failure)?;
        }
        let needed = pool.servers.len() as u32;
        if needed > spec.backup_servers && spec.backup_servers > 0 {
            return Err(SimError::Input(format!(
                "cluster.backup_servers = {}: the failures need {needed}; allowed: at least \
                 {needed}, or 0 for as many as they need",
                spec.backup_servers
            )));
        }
        let mut backups: Vec<Backup> = pool.servers.iter().map(|server| server.wired).collect();
        backups.resize(backups.len().max(plan.backups.len()), Backup::Packets);
        plan.backups = backups;
        Ok(plan)
    }

    /// The cluster with the servers that stand in.
    pub fn cluster(&self, job: &Cluster) -> Cluster {
        let more = self.backups.len() as u32 * job.gpus_per_server;
        Cluster { gpus: job.gpus.saturating_add(more), ..job.clone() }
    }

    /// The incidents for the engine; their events stay here, for the policy.
    ///
    /// # Errors
    /// If a part is not of this fabric.
    pub fn incidents(
        &mut self,
        failures: &[Failure],
        fabric: &Fabric,
        placement: &Placement,
        graph: &TaskGraph,
    ) -> Result<Vec<Incident>, SimError> {
        for (index, failure) in failures.iter().enumerate() {
            let Lost { nics, cuts } = parts::lost(failure, fabric)?;
            let moves = std::mem::take(&mut self.moves[index]);
            let (at, down, up) = (failure.at_ps, vec![], vec![]);
            let event =
                FailureEvent { at, failure: index, nics, cuts, down, up, breaks: true, moves };
            if let Some(at) = failure.until_ps {
                self.events.push(FailureEvent { at, breaks: false, ..event.clone() });
            }
            self.events.push(event);
        }
        // What heals and breaks at one time is broken.
        self.events.sort_by_key(|event| (event.at, event.breaks, event.failure));
        let mut network = Network::new(fabric);
        let mut incidents = Vec::with_capacity(self.events.len());
        for event in &mut self.events {
            let failure = &failures[event.failure];
            let mut incident = network.change(event, &failure.part);
            if event.breaks {
                network.check(failure, event)?;
            }
            let restore = failure.restore_ps;
            if restore > Time::ZERO && event.breaks {
                incident.hold = restore;
                incident.held = tasks_of(&event.moves, placement, graph);
            }
            event.down.clone_from(&incident.down);
            event.up.clone_from(&incident.up);
            incidents.push(incident);
        }
        Ok(incidents)
    }

    /// By region: servers beyond its own that its ranks move to.
    pub fn standing_in(&self, per_server: u32, region_servers: u32) -> BTreeMap<u32, Vec<u32>> {
        let mut servers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &(rank, to) in self.events.iter().flat_map(|event| &event.moves) {
            let region = servers.entry(rank / per_server / region_servers.max(1)).or_default();
            if !region.contains(&(to / per_server)) {
                region.push(to / per_server);
            }
        }
        servers
    }

    /// What a reader must know of who stands in.
    pub fn notes(&self, failures: &[Failure], cluster: &Cluster) -> Vec<String> {
        let per_server = cluster.gpus_per_server;
        let first = cluster.servers() - self.backups.len() as u32;
        let mut notes = Vec::new();
        for event in self.events.iter().filter(|event| !event.moves.is_empty()) {
            let mut servers: Vec<u32> =
                event.moves.iter().map(|&(_, to)| to / per_server).collect();
            servers.dedup();
            let wired = |server: u32| match self.backups.get((server - first) as usize) {
                Some(Backup::Circuits(region)) => format!("on the circuits of region {region}"),
                _ => "on packet switches".into(),
            };
            let by: Vec<String> =
                servers.iter().map(|&s| format!("server {s} ({})", wired(s))).collect();
            notes.push(format!("{} stands in for {}", by.join(", "), failures[event.failure].name));
        }
        if !self.backups.is_empty() {
            let count = self.backups.len();
            notes.push(format!("servers beyond the job's, in the bill too: {count}"));
        }
        notes
    }
}

/// Refuses what came too late to matter.
///
/// # Errors
/// Names the failure and the end of the iteration.
pub(crate) fn all_happened(failures: &[Failure], end: Time) -> Result<(), SimError> {
    match failures.iter().find(|failure| failure.at_ps >= end) {
        Some(late) => Err(SimError::Input(format!(
            "failures: {}: at {}, but the iteration ends at {:.6} s; allowed: an earlier time",
            late.name,
            late.at_ps,
            end.as_secs_f64()
        ))),
        None => Ok(()),
    }
}

/// Servers that stand in, as they are needed.
struct Pool<'a> {
    spec: &'a Spec,
    region_servers: u32,
    servers: Vec<BackupServer>,
    /// GPUs that have failed.
    gone: Vec<u32>,
}

struct BackupServer {
    wired: Backup,
    taken: Vec<bool>,
}

impl Pool<'_> {
    /// Ranks that a failure moves, and where to.
    fn stand_in(&mut self, failure: &Failure) -> Result<Vec<(u32, u32)>, SimError> {
        let per_server = self.spec.cluster.gpus_per_server;
        let (server, ranks) = match failure.part {
            FailedPart::Gpu { server, gpu } => (server, vec![server * per_server + gpu]),
            FailedPart::Server { server } => {
                (server, (server * per_server..(server + 1) * per_server).collect())
            }
            _ => return Ok(vec![]),
        };
        let left: Vec<u32> = ranks.into_iter().filter(|rank| !self.gone.contains(rank)).collect();
        if left.is_empty() {
            return Err(SimError::Input(format!(
                "failures: {}: has failed already; allowed: to fail once",
                failure.name
            )));
        }
        self.gone.extend(&left);
        let whole = matches!(failure.part, FailedPart::Server { .. });
        let wired = match failure.backup {
            Wired::Ocs if !whole => Backup::Circuits(server / self.region_servers.max(1)),
            _ => Backup::Packets,
        };
        let slots: Vec<usize> = left.iter().map(|rank| (rank % per_server) as usize).collect();
        let same = |at: &BackupServer| slots.iter().all(|&slot| !at.taken[slot]);
        let room = |at: &BackupServer| at.taken.iter().filter(|&&t| !t).count() >= slots.len();
        let of_wiring = |fits: &dyn Fn(&BackupServer) -> bool| {
            self.servers.iter().position(|at| at.wired == wired && fits(at))
        };
        let found = of_wiring(&same).or_else(|| of_wiring(&room));
        let index = found.unwrap_or_else(|| {
            self.servers.push(BackupServer { wired, taken: vec![false; per_server as usize] });
            self.servers.len() - 1
        });
        let first = self.spec.cluster.gpus + index as u32 * per_server;
        let taken = &mut self.servers[index].taken;
        let mut moves = Vec::with_capacity(left.len());
        for (rank, slot) in left.into_iter().zip(slots) {
            let free = if taken[slot] { taken.iter().position(|&t| !t) } else { Some(slot) };
            let slot = free.expect("as many are free as move");
            taken[slot] = true;
            moves.push((rank, first + slot as u32));
        }
        Ok(moves)
    }
}

/// What the fabric and the engine cannot do.
fn refuse(spec: &Spec) -> Result<(), SimError> {
    let kind = spec.fabric.kind();
    let named = |can: fn(&FabricKind) -> bool| {
        let able = FABRICS.iter().filter(|kind| can(kind));
        able.map(|kind| format!("\"{}\"", kind.name())).collect::<Vec<_>>().join(", ")
    };
    if matches!(spec.engine, EngineSpec::Flit(_)) {
        let reason = "engine.kind = \"flit\": knows no failures; allowed: \"flow\", \"packet\"";
        return Err(SimError::Input(reason.into()));
    }
    let can = kind.can().failures;
    if can.is_empty() {
        return Err(SimError::Input(format!(
            "failures: fabric \"{}\" has no paths around them; allowed: {}",
            kind.name(),
            named(|kind| !kind.can().failures.is_empty())
        )));
    }
    for failure in &spec.failures {
        let part = failure.part.kind();
        if !can.contains(&part) {
            return Err(SimError::Input(format!(
                "failures: {}: kind {part} is not of fabric \"{}\"; allowed there: {}",
                failure.name,
                kind.name(),
                can.join(", ")
            )));
        }
        if failure.backup == Wired::Ocs && !kind.can().regions {
            return Err(SimError::Input(format!(
                "failures: {}: fabric \"{}\" has no optical switches; allowed: {}",
                failure.name,
                kind.name(),
                named(|kind| kind.can().regions)
            )));
        }
    }
    Ok(())
}

/// The tasks of the blocks that ranks are part of.
fn tasks_of(moves: &[(u32, u32)], placement: &Placement, graph: &TaskGraph) -> Vec<u32> {
    let mut blocks: Vec<_> = moves.iter().map(|&(rank, _)| placement.block_of(rank)).collect();
    blocks.dedup();
    let of_a_stage = |kind| matches!(kind, TaskKind::DenseGradient | TaskKind::ExpertGradient);
    let held = |&task: &u32| {
        let at = task as usize;
        let mine = |block: &lightloom_workload::BlockId| {
            (graph.replica[at], graph.stage[at]) == (block.replica, block.stage)
        };
        !of_a_stage(graph.kind[at]) && blocks.iter().any(mine)
    };
    (0..graph.len() as u32).filter(held).collect()
}
