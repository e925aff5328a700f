//! What fails during a run, when, and what stands in for it (MixNet, Section 5.4).
//!
//! Modelled, by part:
//! - `nic`, `link`, `ocs-port`: a NIC, its cable, the optical switch's port of it. The network sees the
//!   same: nothing goes over that NIC until it heals;
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
pub(crate) mod spec;

pub(crate) use health::{FailureEvent, Health};
pub(crate) use moved::Moved;
pub use spec::{FailedPart, Failure, Wired};

use crate::error::SimError;
use crate::spec::{EngineSpec, Spec};

use lightloom_engine::Incident;
use lightloom_fabric::{
    Backup, Cluster, FABRICS, Fabric, FabricKind, LinkClass, LinkId, NicId, ServerId,
};
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
            within(failure, spec, regions)?;
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
            let nics = nics_of(failure, fabric)?;
            let moves = std::mem::take(&mut self.moves[index]);
            let event =
                FailureEvent { at: failure.at_ps, failure: index, nics, breaks: true, moves };
            if let Some(at) = failure.until_ps {
                self.events.push(FailureEvent { at, breaks: false, ..event.clone() });
            }
            self.events.push(event);
        }
        // What heals and breaks at one time is broken.
        self.events.sort_by_key(|event| (event.at, event.breaks, event.failure));
        // A link is down while any failure of it lasts.
        let mut causes: BTreeMap<LinkId, u32> = BTreeMap::new();
        let mut incidents = Vec::with_capacity(self.events.len());
        let mut broken: BTreeMap<NicId, u32> = BTreeMap::new();
        let mut left: Vec<ServerId> = Vec::new();
        for event in &self.events {
            for &nic in &event.nics {
                let causes = broken.entry(nic).or_default();
                *causes = if event.breaks { *causes + 1 } else { *causes - 1 };
            }
            let failure = &failures[event.failure];
            if let FailedPart::Server { server } = failure.part {
                left.push(ServerId(server));
            }
            let works = |&nic: &NicId| broken.get(&nic).is_none_or(|&causes| causes == 0);
            reachable(failure, &event.nics, fabric, works, &left)?;
            let mut incident = Incident { at: event.at, ..Incident::default() };
            // What is in flight from and to a GPU or server that fails arrives.
            let cut = event.moves.is_empty();
            for link in event.nics.iter().filter(|_| cut).flat_map(|&nic| cable(fabric, nic)) {
                let causes = causes.entry(link).or_default();
                if event.breaks {
                    *causes += 1;
                    incident.down.extend((*causes == 1).then_some(link));
                } else {
                    *causes -= 1;
                    incident.up.extend((*causes == 0).then_some(link));
                }
            }
            let restore = failure.restore_ps;
            if restore > Time::ZERO && event.breaks {
                incident.hold = restore;
                incident.held = tasks_of(&event.moves, placement, graph);
            }
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
    if !kind.can().failures {
        return Err(SimError::Input(format!(
            "failures: fabric \"{}\" has no paths around them; allowed: {}",
            kind.name(),
            named(|kind| kind.can().failures)
        )));
    }
    for failure in &spec.failures {
        let optical = matches!(failure.part, FailedPart::OcsPort { .. } | FailedPart::Ocs { .. })
            || failure.backup == Wired::Ocs;
        if optical && !kind.can().regions {
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

/// Whether a failure names what there is.
fn within(failure: &Failure, spec: &Spec, regions: u32) -> Result<(), SimError> {
    let cluster = &spec.cluster;
    let servers = cluster.gpus / cluster.gpus_per_server.max(1);
    let (what, index, count) = match failure.part {
        FailedPart::Nic { server, nic }
        | FailedPart::Link { server, nic }
        | FailedPart::OcsPort { server, nic }
            if server < servers =>
        {
            ("NICs of a server", nic, cluster.nics_per_server)
        }
        FailedPart::Gpu { server, gpu } if server < servers => {
            ("GPUs of a server", gpu, cluster.gpus_per_server)
        }
        FailedPart::Nic { server, .. }
        | FailedPart::Link { server, .. }
        | FailedPart::OcsPort { server, .. }
        | FailedPart::Eps { server }
        | FailedPart::Gpu { server, .. }
        | FailedPart::Server { server } => ("servers", server, servers),
        FailedPart::Ocs { region } => ("regions", region, regions),
    };
    if index < count {
        return Ok(());
    }
    Err(SimError::Input(format!(
        "failures: {}: there are {count} {what}; allowed: 0 to {}",
        failure.name,
        count.saturating_sub(1)
    )))
}

/// NICs that a failure takes.
fn nics_of(failure: &Failure, fabric: &Fabric) -> Result<Vec<NicId>, SimError> {
    let cluster = fabric.cluster();
    let on = |server: u32, locals: &[u32]| -> Vec<NicId> {
        locals.iter().map(|&local| cluster.nic(ServerId(server), local)).collect()
    };
    Ok(match failure.part {
        FailedPart::Nic { server, nic } | FailedPart::Link { server, nic } => on(server, &[nic]),
        FailedPart::OcsPort { server, nic } => {
            let optical = fabric.optical_nics(ServerId(server));
            if !optical.contains(&nic) {
                let names: Vec<String> = optical.iter().map(u32::to_string).collect();
                return Err(SimError::Input(format!(
                    "failures: {}: NIC {nic} is on packet switches; allowed: {}",
                    failure.name,
                    names.join(", ")
                )));
            }
            on(server, &[nic])
        }
        FailedPart::Eps { server } => on(server, fabric.packet_nics(ServerId(server))),
        FailedPart::Ocs { region } => fabric
            .servers()
            .filter(|&server| fabric.region_of(server) == Some(region))
            .flat_map(|server| on(server.0, fabric.optical_nics(server)))
            .collect(),
        FailedPart::Gpu { server, gpu } => {
            let gpu = cluster.gpu(ServerId(server), gpu);
            let own = |&local: &u32| cluster.gpu_of(cluster.nic(ServerId(server), local)) == gpu;
            // In a host NICs hang on switches, and outlive GPUs.
            let nics = if cluster.host.is_none() { cluster.nics_per_server } else { 0 };
            on(server, &(0..nics).filter(own).collect::<Vec<_>>())
        }
        // No rank is left there; what is in flight still leaves and arrives over packet switches.
        FailedPart::Server { server } => on(server, fabric.optical_nics(ServerId(server))),
    })
}

/// A NIC's links, to what it is plugged into and back.
fn cable(fabric: &Fabric, nic: NicId) -> Vec<LinkId> {
    if let (Some(tx), Some(rx)) = (fabric.circuit_tx(nic), fabric.circuit_rx(nic)) {
        return vec![tx, rx];
    }
    let node = fabric.nic_node(nic);
    let links = fabric.links().iter().enumerate();
    let own = links.filter(|(_, link)| {
        link.class == LinkClass::Host && (link.from == node || link.to == node)
    });
    own.map(|(at, _)| LinkId(at as u32)).collect()
}

/// Whether each server that loses NICs keeps a path to the others, if only over circuits to a server that
/// has NICs on packet switches. Servers that have failed as a whole need none.
fn reachable(
    failure: &Failure,
    nics: &[NicId],
    fabric: &Fabric,
    works: impl Fn(&NicId) -> bool,
    left: &[ServerId],
) -> Result<(), SimError> {
    let cluster = fabric.cluster();
    let any = |server: ServerId, locals: &[u32]| {
        locals.iter().any(|&local| works(&cluster.nic(server, local)))
    };
    let on_packets = |server| any(server, fabric.packet_nics(server));
    let on_circuits = |server| any(server, fabric.optical_nics(server));
    let mut servers: Vec<ServerId> = nics.iter().map(|&nic| cluster.server_of_nic(nic)).collect();
    servers.dedup();
    for server in servers.into_iter().filter(|server| !left.contains(server)) {
        let peer = |&other: &ServerId| {
            other != server
                && fabric.region_of(other) == fabric.region_of(server)
                && !left.contains(&other)
                && on_packets(other)
                && on_circuits(other)
        };
        // Of a switch that fails only servers without packet NICs suffer.
        let over_a_peer = on_circuits(server) && fabric.servers().any(|other| peer(&other));
        if !on_packets(server) && !over_a_peer {
            return Err(SimError::Input(format!(
                "failures: {}: server {} has no path to the others then; allowed: what leaves it a NIC \
                 on packet switches, or a circuit to a server that has one, or server:server{} itself",
                failure.name, server.0, server.0
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
