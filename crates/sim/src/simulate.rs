//! From a specification to what came out: build the fabric, let the policy decide, run the engine,
//! and put the outcome into tables.

use crate::critical::{Breakdown, attribute};
use crate::optical::Optical;
use crate::panel::Panel;
use crate::record::{Progress, Recorder};
use crate::sender::{Demand, DemandRecord, Sender, Way};
use crate::spec::{EngineSpec, Spec};
use crate::tables::Table;
use lightloom_engine::{Engine, EngineError, Outcome, Scenario, Tasks};
use lightloom_fabric::{Fabric, FabricSpec, ServerId};
use lightloom_flow::FlowEngine;
use lightloom_schedule::topoopt::{self, AllReduceGroup, Design, TopoOptInput};
use lightloom_units::{Bytes, Time};
use lightloom_workload::{Comm, ComputeOrigin, Gating, Placement, TaskGraph, TaskKind, build};
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
    /// tasks, links, transfers, demand, reconfigurations.
    pub tables: Vec<Table>,
    /// What a reader must know: waived limits, reused layers.
    pub notes: Vec<String>,
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
        let fabric = fabric_of(spec, panel.as_ref().map_or(&[], |design| &design.circuits))?;
        let way = match (&spec.fabric, &panel) {
            (FabricSpec::MixNet(mixnet), _) => Way::Circuits(Optical::new(
                &fabric,
                &self.graph,
                &self.placement,
                mixnet,
                region_servers(spec),
                spec.seed,
            )),
            (_, Some(design)) => Way::Panel(Panel::new(design)),
            _ => Way::Packets,
        };
        let circuits = match &way {
            Way::Circuits(optical) => optical.standing(),
            _ => Vec::new(),
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
        };
        let mut sender = Sender::new(
            &fabric,
            &self.graph,
            &self.placement,
            &self.gating,
            way,
            spec.seed,
            spec.record.replicas,
        );
        let mut recorder = Recorder::new(&self.graph.kind, progress);
        let EngineSpec::Flow { tolerance } = spec.engine;
        let outcome = FlowEngine { tolerance }.run(&scenario, &mut sender, &mut recorder)?;
        let (breakdown, share) = attribute(&self.graph, &outcome);
        let mut notes: Vec<String> = fabric.notes().to_vec();
        notes.extend(self.gating.notes().iter().cloned());
        Ok(Run {
            breakdown,
            iteration: outcome.makespan,
            figures: figures(&outcome, &recorder),
            tables: vec![
                tasks_table(&self.graph, &outcome, &share, spec.record.replicas),
                links_table(&fabric, &outcome),
                transfers_table(&recorder),
                demand_table(&sender.records),
                reconfigurations_table(&self.graph, &outcome),
            ],
            notes,
        })
    }
}

/// Counts what the network of `spec` is made of.
///
/// # Errors
/// [`SimError::Input`] if the fabric cannot be built.
pub fn fabric_without_circuits(spec: &Spec) -> Result<Fabric, SimError> {
    fabric_of(spec, &[])
}

/// What two specifications must share for one workload to serve both.
fn identity(spec: &Spec) -> String {
    format!("{} {:?} {:?}", spec.seed, spec.job(), spec.gating)
}

fn fabric_of(spec: &Spec, panel: &[(u32, u32)]) -> Result<Fabric, SimError> {
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
    let panel: Vec<_> = panel.iter().map(|&(a, b)| (ServerId(a), ServerId(b))).collect();
    lightloom_fabric::build(&spec.cluster, &spec.fabric, region_servers(spec), &panel)
        .map_err(|error| SimError::Input(error.to_string()))
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
    let FabricSpec::TopoOpt(topoopt) = &spec.fabric else { return Ok(None) };
    let per_server = spec.cluster.gpus_per_server.max(1);
    let mut between: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut add = |from: u32, to: u32, bytes: u64| {
        let (a, b) = (from / per_server, to / per_server);
        if a != b {
            *between.entry((a.min(b), a.max(b))).or_default() += bytes;
        }
    };
    let mut sums: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
    let demand = Demand { placement, gating };
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
                    let members = group.len() as u64;
                    let mut servers: Vec<u32> = group.iter().map(|gpu| gpu / per_server).collect();
                    servers.dedup();
                    if servers.len() > 1 {
                        *sums.entry(servers).or_default() += bytes_per_gpu * members;
                    }
                }
            }
            Comm::Collective { .. } => {}
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

fn figures(outcome: &Outcome, recorder: &Recorder<'_>) -> Vec<(&'static str, f64)> {
    let hidden = |kind: TaskKind| &recorder.histograms[kind as usize];
    let dispatch = hidden(TaskKind::Dispatch);
    vec![
        ("tasks", outcome.end.len() as f64),
        ("flows", outcome.flows as f64),
        ("events", outcome.events as f64),
        ("solves", outcome.solves as f64),
        ("reconfigurations", outcome.reconfigurations.len() as f64),
        ("waited_s", outcome.waited.iter().copied().sum::<Time>().as_secs_f64()),
        ("bytes", outcome.bytes.iter().copied().sum::<Bytes>().get() as f64),
        ("dispatch_flow_p50_s", dispatch.percentile(0.5).as_secs_f64()),
        ("dispatch_flow_p99_s", dispatch.percentile(0.99).as_secs_f64()),
    ]
}

fn tasks_table(graph: &TaskGraph, outcome: &Outcome, share: &[Time], replicas: u32) -> Table {
    let rows: Vec<usize> = (0..graph.len()).filter(|&t| graph.replica[t] < replicas).collect();
    let rows = || rows.iter().copied();
    Table::new("tasks")
        .integers("task", rows().map(|t| t as i64))
        .names("kind", rows().map(|t| graph.kind[t].as_str()))
        .integers("replica", rows().map(|t| i64::from(graph.replica[t])))
        .integers("stage", rows().map(|t| i64::from(graph.stage[t])))
        .integers("layer", rows().map(|t| i64::from(graph.layer[t])))
        .integers("micro_batch", rows().map(|t| i64::from(graph.micro_batch[t])))
        .names("pass", rows().map(|t| graph.pass[t].as_str()))
        .integers("start_ps", rows().map(|t| outcome.start[t].ps() as i64))
        .integers("end_ps", rows().map(|t| outcome.end[t].ps() as i64))
        .integers("waited_ps", rows().map(|t| outcome.waited[t].ps() as i64))
        .integers("bytes", rows().map(|t| outcome.bytes[t].get() as i64))
        .integers("critical_ps", rows().map(|t| share[t].ps() as i64))
}

fn links_table(fabric: &Fabric, outcome: &Outcome) -> Table {
    struct Class {
        links: i64,
        rate: u64,
        bytes: u64,
        utilization: f64,
        fullest: f64,
    }
    let mut classes: BTreeMap<String, Class> = BTreeMap::new();
    let seconds = outcome.makespan.as_secs_f64();
    for (link, bytes) in fabric.links().iter().zip(&outcome.link_bytes) {
        let share = bytes.get() as f64 * 8.0 / (link.rate.bps().max(1) as f64 * seconds.max(1e-12));
        let class = classes.entry(link.class.to_string()).or_insert(Class {
            links: 0,
            rate: 0,
            bytes: 0,
            utilization: 0.0,
            fullest: 0.0,
        });
        class.links += i64::from(link.lanes);
        class.rate += link.rate.bps();
        class.bytes += bytes.get();
        class.utilization += share * link.rate.bps() as f64;
        class.fullest = class.fullest.max(share);
    }
    let all = || classes.values();
    Table::new("links")
        .names("class", classes.keys())
        .integers("links", all().map(|c| c.links))
        .integers("capacity_bps", all().map(|c| c.rate as i64))
        .integers("bytes", all().map(|c| c.bytes as i64))
        .numbers("mean_utilization", all().map(|c| c.utilization / c.rate.max(1) as f64))
        .numbers("max_utilization", all().map(|c| c.fullest))
}

fn transfers_table(recorder: &Recorder<'_>) -> Table {
    let kinds: Vec<TaskKind> = recorder
        .kinds
        .iter()
        .copied()
        .collect::<std::collections::HashSet<_>>()
        .into_iter()
        .collect();
    let mut kinds: Vec<TaskKind> =
        kinds.into_iter().filter(|&k| recorder.histograms[k as usize].count() > 0).collect();
    kinds.sort_by_key(|&kind| kind as usize);
    let flows = || kinds.iter().map(|&kind| &recorder.histograms[kind as usize]);
    Table::new("transfers")
        .names("kind", kinds.iter().map(|kind| kind.as_str()))
        .integers("count", flows().map(|h| h.count() as i64))
        .integers("bytes", kinds.iter().map(|&kind| recorder.bytes[kind as usize] as i64))
        .integers("p50_ps", flows().map(|h| h.percentile(0.5).ps() as i64))
        .integers("p99_ps", flows().map(|h| h.percentile(0.99).ps() as i64))
        .integers("max_ps", flows().map(|h| h.max().ps() as i64))
}

fn demand_table(records: &[DemandRecord]) -> Table {
    let rows = || records.iter();
    Table::new("demand")
        .integers("replica", rows().map(|r| i64::from(r.replica)))
        .integers("stage", rows().map(|r| i64::from(r.stage)))
        .integers("layer", rows().map(|r| i64::from(r.layer)))
        .integers("micro_batch", rows().map(|r| i64::from(r.micro_batch)))
        .integers("source", rows().map(|r| i64::from(r.source)))
        .integers("destination", rows().map(|r| i64::from(r.destination)))
        .integers("bytes", rows().map(|r| r.bytes as i64))
        .integers("circuits", rows().map(|r| i64::from(r.circuits)))
}

fn reconfigurations_table(graph: &TaskGraph, outcome: &Outcome) -> Table {
    let rows = || outcome.reconfigurations.iter();
    Table::new("reconfigurations")
        .integers("task", rows().map(|r| i64::from(r.task)))
        .integers("replica", rows().map(|r| i64::from(graph.replica[r.task as usize])))
        .integers("stage", rows().map(|r| i64::from(graph.stage[r.task as usize])))
        .integers("at_ps", rows().map(|r| r.at.ps() as i64))
        .integers("ready_ps", rows().map(|r| r.ready.ps() as i64))
        .integers("ports", rows().map(|r| i64::from(r.patches)))
}
