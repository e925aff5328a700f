//! From a specification to what came out: build the fabric, let the policy decide, run the engine,
//! and put the outcome into tables.

use crate::critical::{Breakdown, attribute};
use crate::failures::{Health, Plan, all_happened};
use crate::mixnet::{Optical, check_inside};
use crate::pace::Pace;
use crate::packets::{queues_table, reorder_table, with_packets};
use crate::panel::Panel;
use crate::planes::Planes;
use crate::rails::flows::spreads;
use crate::railx;
use crate::record::{Progress, Recorder};
use crate::sender::{Demand, Sender, Way};
use crate::spec::{EngineSpec, Spec};
use crate::tables::{
    Table, demand_table, figures, links_table, reconfigurations_table, tasks_table, transfers_table,
};
use lightloom_circuits::topoopt::{self, AllReduceGroup, Design, TopoOptInput};
use lightloom_engine::{Engine, EngineError, Patches, Scenario, Tasks};
use lightloom_fabric::{
    Fabric, FabricKind, MixNetSpec, PlanesSpec, ServerId, Site, TopoOptSpec, build_at,
};
use lightloom_flow::FlowEngine;
use lightloom_packet::PacketEngine;
use lightloom_units::Time;
use lightloom_workload::{Comm, ComputeOrigin, Gating, Placement, TaskGraph, build};
use std::collections::BTreeMap;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The specification or the trace cannot be used; the message names the key.
    #[error("{0}")]
    Input(String),
    /// The run failed.
    #[error("{0}")]
    Run(#[from] EngineError),
}

/// Counts of a gating trace: `[iteration, layer, source, expert]`, row-major.
#[derive(Clone, Copy, Debug)]
pub struct TraceCounts<'a> {
    /// The counts.
    pub counts: &'a [u32],
    /// Iterations, layers, sources, experts.
    pub shape: [usize; 4],
}

/// The workload of a specification: built once, run on as many fabrics as one likes.
#[derive(Debug)]
pub struct Workload {
    job: String,
    placement: Placement,
    gating: Gating,
    graph: TaskGraph,
    origins: Vec<ComputeOrigin>,
}

/// What a run left.
#[derive(Clone, Debug)]
pub struct Run {
    /// The iteration's time, by cause.
    pub breakdown: Breakdown,
    /// The iteration's time.
    pub iteration: Time,
    /// Single figures, by name.
    pub figures: Vec<(&'static str, f64)>,
    /// tasks, links, transfers, demand, reconfigurations, queues, reorder.
    pub tables: Vec<Table>,
    /// What a reader must know: waived limits, reused layers.
    pub notes: Vec<String>,
    /// What a reader must not overlook.
    pub warnings: Vec<String>,
}

impl Workload {
    /// Builds the task graph and the demand matrices.
    ///
    /// # Errors
    /// [`SimError::Input`] if the parts do not fit together.
    pub fn new(spec: &Spec, trace: TraceCounts<'_>) -> Result<Self, SimError> {
        let input = |error: lightloom_workload::WorkloadError| SimError::Input(error.to_string());
        let job = spec.job();
        let gating = Gating::new(
            trace.counts,
            trace.shape,
            &spec.model,
            &spec.parallelism,
            &spec.training,
            spec.seed,
        )
        .map_err(input)?;
        let graph = build(&job, &gating).map_err(input)?;
        let origins = job.profile().map_err(input)?.origins().to_vec();
        let placement = Placement::new(spec.parallelism);
        Ok(Workload { job: identity(spec), placement, gating, graph, origins })
    }

    /// How many tasks an iteration has.
    pub fn tasks(&self) -> usize {
        self.graph.len()
    }

    /// Where each compute time comes from.
    pub fn origins(&self) -> &[ComputeOrigin] {
        &self.origins
    }

    /// What GPUs send each other in one iteration: rows of kind (`tp`, `cp`, `ep`, `pp`, `dp`),
    /// from, to and bytes.
    pub fn traffic(&self) -> Table {
        crate::traffic::table(&self.graph, &self.placement, &self.gating)
    }

    /// Runs one iteration on the fabric and engine of `spec`.
    ///
    /// # Errors
    /// [`SimError::Input`] if the fabric cannot be built or the spec is of another workload;
    /// [`SimError::Run`] if the run fails or `progress` says `false`.
    pub fn run(&self, spec: &Spec, progress: &mut Progress<'_>) -> Result<Run, SimError> {
        if identity(spec) != self.job {
            return Err(SimError::Input("this specification is of another workload".into()));
        }
        let panel = panel_design(spec, &self.graph, &self.placement, &self.gating)?;
        let mut plan = Plan::new(spec, region_servers(spec))?;
        let circuits = panel.as_ref().map_or(&[][..], |design| &design.circuits);
        let fabric = fabric_of(spec, &plan, circuits)?;
        let incidents = plan.incidents(&spec.failures, &fabric, &self.placement, &self.graph)?;
        let kind = spec.fabric.kind();
        can_run(kind, spec.engine.name())?;
        let way = match (kind.can.carrier, &panel) {
            ("circuits", _) => {
                let mixnet: &MixNetSpec = spec.fabric.keys().expect("regions are MixNet's");
                let by_flows = matches!(spec.engine, EngineSpec::Flow { .. });
                check_inside(mixnet, by_flows, !spec.failures.is_empty())
                    .map_err(SimError::Input)?;
                let optical = Optical::new(
                    &fabric,
                    &self.graph,
                    (&self.placement, &self.gating),
                    mixnet,
                    region_servers(spec),
                    &plan,
                    spec.seed,
                );
                Way::Circuits(Box::new(optical.map_err(SimError::Input)?))
            }
            ("planes", _) => {
                let planes: &PlanesSpec = spec.fabric.keys().expect("planes are of one kind");
                Way::Planes(Box::new(Planes::new(&fabric, planes).map_err(SimError::Input)?))
            }
            (_, Some(design)) => Way::Panel(Panel::new(design)),
            ("rails", _) => over_rails(&spec.engine),
            _ => Way::Packets,
        };
        let circuits = match &way {
            Way::Circuits(optical) => optical.standing(),
            _ => railx::standing(&fabric),
        };
        let scenario = Scenario {
            fabric: &fabric,
            tasks: Tasks {
                duration: &self.graph.duration,
                transfer: &self.graph.comm,
                offsets: &self.graph.successors.offsets,
                targets: &self.graph.successors.targets,
                predecessors: &self.graph.predecessors_count,
            },
            circuits: &circuits,
            incidents: &incidents,
        };
        let notes = plan.notes(&spec.failures, fabric.cluster());
        let mut health = Health::new(&fabric, kind.can.rails, std::mem::take(&mut plan.events));
        health.patched(&Patches { patches: circuits.clone(), delay: Time::ZERO }, Time::ZERO);
        let mut sender =
            Sender::new(&fabric, &self.graph, &self.placement, &self.gating, way, health, spec);
        let mut recorder = Recorder::new(&self.graph.kind, progress);
        if let EngineSpec::Packet(packet) = &spec.engine {
            let demand = Demand::new(&self.placement, &self.gating);
            let per_server = spec.cluster.gpus_per_server;
            recorder = recorder.by_packets(Pace::new(&self.graph, &demand, per_server, packet));
        }
        let outcome = engine(spec).run(&scenario, &mut sender, &mut recorder)?;
        all_happened(&spec.failures, outcome.makespan)?;
        let (breakdown, share) = attribute(&self.graph, &outcome);
        let mut notes: Vec<String> = fabric.notes().iter().cloned().chain(notes).collect();
        if let Way::Circuits(optical) = &sender.way {
            notes.extend(optical.predicted());
        }
        notes.extend(self.gating.notes().iter().cloned());
        Ok(Run {
            breakdown,
            iteration: outcome.makespan,
            figures: figures(&fabric, &outcome, &recorder),
            tables: vec![
                tasks_table(&self.graph, &outcome, &share, spec.record.replicas),
                with_packets(links_table(&fabric, &outcome), &fabric, &outcome),
                transfers_table(&recorder),
                demand_table(&sender.records),
                reconfigurations_table(&self.graph, &outcome),
                queues_table(&fabric, &outcome),
                reorder_table(&outcome),
            ],
            notes,
            warnings: outcome.packets.map_or_else(Vec::new, |packets| packets.notes),
        })
    }
}

/// Whether an engine can run a kind of fabric.
fn can_run(kind: &FabricKind, engine: &str) -> Result<(), SimError> {
    let Some(why) = kind.refuses(engine) else { return Ok(()) };
    let able = ["flow", "packet", "flit"].into_iter().filter(|name| kind.refuses(name).is_none());
    let able: Vec<String> = able.map(|name| format!("\"{name}\"")).collect();
    Err(SimError::Input(format!(
        "engine.kind = \"{engine}\": fabric \"{}\" {why}; allowed: {}",
        kind.name,
        able.join(", ")
    )))
}

fn engine(spec: &Spec) -> Box<dyn Engine> {
    match &spec.engine {
        &EngineSpec::Flow { tolerance } => Box::new(FlowEngine { tolerance }),
        EngineSpec::Flit(flit) => Box::new(flit.clone()),
        EngineSpec::Packet(packet) => {
            Box::new(PacketEngine { spec: (**packet).clone(), seed: spec.seed })
        }
    }
}

/// On a rail-optimized fabric: over all rails where the balancer chooses among them.
fn over_rails(engine: &EngineSpec) -> Way<'static> {
    match engine {
        EngineSpec::Packet(packet) if spreads(&packet.balancer) => {
            let scheme = packet.balancer;
            let unit = scheme.chunks().map_or(packet.mtu, |chunks| chunks.chunk);
            Way::Rails { scheme, unit }
        }
        _ => Way::Packets,
    }
}

/// Counts what the network of `spec` is made of.
///
/// # Errors
/// [`SimError::Input`] if the fabric cannot be built.
pub fn fabric_without_circuits(spec: &Spec) -> Result<Fabric, SimError> {
    fabric_of(spec, &Plan::new(spec, region_servers(spec))?, &[])
}

/// What two specifications must share for one workload to serve both.
fn identity(spec: &Spec) -> String {
    format!("{} {:?} {:?}", spec.seed, spec.job(), spec.gating)
}

fn fabric_of(spec: &Spec, plan: &Plan, panel: &[(u32, u32)]) -> Result<Fabric, SimError> {
    let (gpus, wanted) = (spec.cluster.gpus, Placement::new(spec.parallelism).gpus());
    if gpus != wanted {
        return Err(SimError::Input(format!(
            "cluster.gpus = {gpus}: must be tp * cp * ep * dp * pp = {wanted}"
        )));
    }
    let block = spec.parallelism.block_size();
    let server = spec.cluster.gpus_per_server;
    if server == 0 || (block % server != 0 && server % block != 0) {
        return Err(SimError::Input(format!(
            "cluster.gpus_per_server = {server}: must divide, or be a multiple of, \
             tp * cp * ep = {block}"
        )));
    }
    if let Some(railx) = spec.fabric.keys() {
        return railx::fabric(&spec.cluster, railx);
    }
    let panel: Vec<_> = panel.iter().map(|&(a, b)| (ServerId(a), ServerId(b))).collect();
    let cluster = plan.cluster(&spec.cluster);
    let (region_servers, backups) = (region_servers(spec), &plan.backups[..]);
    let site = Site { region_servers, backups, panel: &panel, ..Site::new(&cluster) };
    build_at(&site, &spec.fabric).map_err(|error| SimError::Input(error.to_string()))
}

fn region_servers(spec: &Spec) -> u32 {
    (spec.parallelism.block_size() / spec.cluster.gpus_per_server.max(1)).max(1)
}

/// TopoOpt's circuits for what the job sends in one iteration; none for other fabrics.
fn panel_design(
    spec: &Spec,
    graph: &TaskGraph,
    placement: &Placement,
    gating: &Gating,
) -> Result<Option<Design>, SimError> {
    let Some(topoopt) = spec.fabric.keys::<TopoOptSpec>() else { return Ok(None) };
    let per_server = spec.cluster.gpus_per_server.max(1);
    let mut between: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut add = |from: u32, to: u32, bytes: u64| {
        let (a, b) = (from / per_server, to / per_server);
        if a != b {
            *between.entry((a.min(b), a.max(b))).or_default() += bytes;
        }
    };
    let mut sums: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
    let demand = Demand::new(placement, gating);
    for comm in &graph.comms {
        match *comm {
            Comm::AllToAll { block, matrix, transposed, bytes_per_token } => {
                let a2a = crate::sender::AllToAll { block, matrix, transposed, bytes_per_token };
                demand.for_each(a2a, &mut add);
            }
            Comm::Send { from, to, bytes_per_gpu } => placement
                .block_gpus(from)
                .zip(placement.block_gpus(to))
                .for_each(|(from, to)| add(from, to, bytes_per_gpu)),
            Comm::AllReduce { stage, scope, bytes_per_gpu } => {
                for group in placement.gradient_groups(stage, scope) {
                    let mut servers: Vec<u32> = group.iter().map(|gpu| gpu / per_server).collect();
                    servers.sort_unstable();
                    servers.dedup();
                    // What the rings between servers carry, over all their hops.
                    let hops = servers.len().saturating_sub(1) as u64;
                    if hops > 0 {
                        *sums.entry(servers).or_default() += 2 * hops * bytes_per_gpu;
                    }
                }
            }
            Comm::Collective { block, over, bytes_per_gpu, .. } => {
                for group in placement.axis_groups(block, over) {
                    for (at, &from) in group.iter().enumerate() {
                        add(from, group[(at + 1) % group.len()], bytes_per_gpu);
                    }
                }
            }
        }
    }
    let input = TopoOptInput {
        servers: (spec.cluster.gpus / per_server) as usize,
        degree: topoopt.degree,
        all_reduce: sums
            .into_iter()
            .map(|(servers, bytes)| AllReduceGroup { servers, bytes })
            .collect(),
        mp: between.into_iter().map(|((a, b), bytes)| (a, b, bytes)).collect(),
    };
    let design = topoopt::find(&input);
    if !design.connected {
        return Err(SimError::Input(format!(
            "fabric.degree = {}: too few circuits to connect {} servers; at least 2 are needed",
            topoopt.degree, input.servers
        )));
    }
    Ok(Some(design))
}
