//! From a specification to what came out: build the fabric, let the policy decide, run the engine,
//! and put the outcome into tables.

use crate::beside::{Beside, Kept};
use crate::bound::{Bounds, bounds};
use crate::carried;
use crate::collective::{Given, Parts};
use crate::critical::{Breakdown, attribute};
use crate::demand::Demand;
use crate::error::SimError;
use crate::failures::{FailurePlan, Health, all_happened};
use crate::marks::Marks;
use crate::medium::{self, Decided, Job, MediumKind, Setting};
use crate::pace::Pace;
use crate::packets::{queues_table, reorder_table, with_packets};
use crate::record::{Progress, Recorder};
use crate::sender::Sender;
use crate::spec::{EngineSpec, Spec, Work};
use crate::table::Table;
use crate::tables::{
    busiest_table, circuits_table, demand_table, figures, links_table, messages_table,
    reconfigurations_table, tasks_table, transfers_table,
};
use lightloom_decide::Traffic;
use lightloom_engine::{Engine, Outcome, Patch, Patches, Scenario, Tasks};
use lightloom_fabric::{Cluster, Fabric, FabricKind, ServerId, Site, build_at};
use lightloom_flow::FlowEngine;
use lightloom_packet::PacketEngine;
use lightloom_units::{BitRate, Time};
use lightloom_workload::{ComputeOrigin, Gating, Parallelism, Placement, TaskGraph, build};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Counts of a gating trace: `[iteration, layer, source, expert]`, row-major.
#[derive(Clone, Copy, Debug)]
pub struct TraceCounts<'a> {
    /// Token assignments, row by row.
    pub counts: &'a [u32],
    /// Iterations, layers, sources, experts.
    pub shape: [usize; 4],
}

/// The workload of a specification: built once, run on as many fabrics as one likes.
#[derive(Debug)]
pub struct Workload {
    job: String,
    pub(crate) placement: Placement,
    pub(crate) gating: Gating,
    pub(crate) graph: TaskGraph,
    origins: Vec<ComputeOrigin>,
    pub(crate) notes: Vec<String>,
    /// GPUs of a server, as the first specification had them.
    per_server: u32,
    marks: Mutex<HashMap<(u32, BitRate, Time), Arc<Marks>>>,
}

/// What a specification is run on, without what is sent.
pub(crate) struct Ground {
    pub plan: FailurePlan,
    pub decided: Decided,
    pub fabric: Fabric,
}

/// What a run left.
#[derive(Clone, Debug)]
pub struct Run {
    /// The iteration's time, by cause.
    pub breakdown: Breakdown,
    /// The iteration's time.
    pub iteration: Time,
    /// What carried all-to-alls between servers, the most frequent first; none without any.
    pub carrier: String,
    /// The topology that was found for the job; none if it was given.
    pub topology: String,
    /// Single figures, by name.
    pub figures: Vec<(&'static str, f64)>,
    /// tasks, links, transfers, demand, reconfigurations, queues, reorder.
    pub tables: Vec<Table>,
    /// What a reader must know: waived limits, reused layers.
    pub notes: Vec<String>,
    /// What a reader must not overlook.
    pub warnings: Vec<String>,
    /// On fabrics whose circuits change, by region and server: what other traffic took of packet NICs in
    /// earlier iterations, or should take by the task graph, and, last, what it took in this one.
    pub traffic: Vec<Vec<Vec<Traffic>>>,
    /// Of a collective: what no schedule could beat.
    pub bounds: Option<Bounds>,
    /// What the first region's controller was asked and did, if that was to be kept.
    pub kept: Option<Kept>,
}

impl Workload {
    /// Builds the task graph and the demand matrices of an iteration of training.
    ///
    /// # Errors
    /// [`SimError::Input`] if the parts do not fit together, or the specification is of a collective.
    pub fn new(spec: &Spec, trace: TraceCounts<'_>) -> Result<Self, SimError> {
        let input = |error: lightloom_workload::WorkloadError| SimError::Input(error.to_string());
        let Work::Training(training) = &spec.work else {
            return Err(SimError::Input("a collective has no gating trace".into()));
        };
        let job = &training.job;
        let gating = Gating::under(
            trace.counts,
            trace.shape,
            (&job.model, &job.parallelism, &job.training),
            spec.seed,
            training.gating.group_limit,
        )
        .map_err(input)?;
        let graph = build(job, &gating).map_err(input)?;
        let origins = job.profile().map_err(input)?.origins().to_vec();
        let notes = gating.notes().to_vec();
        Ok(Workload {
            job: identity(spec),
            placement: job.placement(),
            gating,
            graph,
            origins,
            notes,
            per_server: spec.cluster.gpus_per_server,
            marks: Mutex::default(),
        })
    }

    /// Builds the task graph of a collective, from its algorithm or from what is given.
    ///
    /// # Errors
    /// [`SimError::Input`] if there is no such algorithm for the primitive and so many ranks, or what is
    /// given does not fit.
    pub fn collective(spec: &Spec, given: Given<'_>) -> Result<Self, SimError> {
        let Work::Collective(collective) = &spec.work else {
            return Err(SimError::Input("a job is no collective".into()));
        };
        let Parts { graph, gating, notes } = collective.parts(given)?;
        let placement = Placement::new(spec.parallelism());
        let per_server = spec.cluster.gpus_per_server;
        let origins = vec![];
        let marks = Mutex::default();
        let job = identity(spec);
        Ok(Workload { job, placement, gating, graph, origins, notes, per_server, marks })
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
        crate::traffic::table(&self.graph, &self.placement, (&self.gating, self.per_server))
    }

    /// Runs one iteration on the fabric and engine of `spec`.
    ///
    /// # Errors
    /// [`SimError::Input`] if the fabric cannot be built or the spec is of another workload;
    /// [`SimError::Run`] if the run fails or `progress` says `false`.
    pub fn run(&self, spec: &Spec, progress: &mut Progress<'_>) -> Result<Run, SimError> {
        self.run_beside(spec, Beside::default(), progress)
    }

    /// As [`Workload::run`], with what no specification holds.
    ///
    /// # Errors
    /// As [`Workload::run`].
    pub fn run_beside(
        &self,
        spec: &Spec,
        beside: Beside<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Run, SimError> {
        let kind = spec.fabric.kind();
        let Ground { mut plan, decided, fabric } = self.ground(spec)?;
        let job = Job { graph: &self.graph, placement: &self.placement, gating: &self.gating };
        let carriers = carried::allowed(spec)?;
        let incidents = plan.incidents(&spec.failures, &fabric, &self.placement, &self.graph)?;
        can_run(kind, spec.engine.name())?;
        beside.is_asked(spec, &fabric)?;
        let setting = Setting {
            spec,
            fabric: &fabric,
            job,
            plan: &plan,
            decided: &decided,
            carriers,
            beside,
            regions: (0..fabric.regions()).collect(),
        };
        let medium = (medium::of(kind).begin)(&setting)?;
        let circuits = medium.standing();
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
        let mut health = Health::new(&fabric, kind.can().rails, plan.events.clone());
        let standing = Patches { patches: circuits.clone(), ..Patches::default() };
        health.patched(&standing, Time::ZERO);
        let tokens = (&self.placement, &self.gating);
        let mut sender = Sender::new(&fabric, &self.graph, tokens, medium, health, spec);
        let mut recorder = Recorder::new(&self.graph.kind, progress);
        if let EngineSpec::Packet(packet) = &spec.engine {
            let per_server = spec.cluster.gpus_per_server;
            let demand = Demand::new(&self.placement, &self.gating, per_server);
            recorder = recorder.by_packets(Pace::new(&self.graph, &demand, per_server, packet));
        }
        let outcome = engine(spec, beside).run(&scenario, &mut sender, &mut recorder)?;
        all_happened(&spec.failures, outcome.makespan)?;
        Ok(self.collect(
            spec,
            &fabric,
            Ended { notes, sender, recorder, outcome, circuits: &circuits },
        ))
    }

    /// What a specification is run on.
    ///
    /// # Errors
    /// [`SimError::Input`] if the fabric cannot be built or the specification is of another workload.
    pub(crate) fn ground(&self, spec: &Spec) -> Result<Ground, SimError> {
        self.is_of(spec)?;
        let plan = FailurePlan::new(spec, spec.region_servers())?;
        let job = Job { graph: &self.graph, placement: &self.placement, gating: &self.gating };
        let kind = medium::of(spec.fabric.kind());
        takes_circuits(spec, kind)?;
        carried::allowed(spec)?;
        let decided = (kind.decide)(spec, plan.backups.len() as u32, Some(&job))?;
        let fabric = fabric_of(spec, &plan, &decided)?;
        Ok(Ground { plan, decided, fabric })
    }

    /// What of the task graph holds for every fabric on such servers.
    pub(crate) fn marks(&self, cluster: &Cluster) -> Arc<Marks> {
        let (per_server, (rate, delay)) = (cluster.gpus_per_server, cluster.inside());
        let job = Job { graph: &self.graph, placement: &self.placement, gating: &self.gating };
        let mut kept = self.marks.lock().expect("no one panics with it");
        let made = kept
            .entry((per_server, rate, delay))
            .or_insert_with(|| Arc::new(Marks::new(job, per_server)));
        Arc::clone(made)
    }

    /// Whether a specification is of this workload.
    ///
    /// # Errors
    /// [`SimError::Input`] if it is not.
    pub(crate) fn is_of(&self, spec: &Spec) -> Result<(), SimError> {
        match identity(spec) == self.job {
            true => Ok(()),
            false => Err(SimError::Input("this specification is of another workload".into())),
        }
    }

    /// What a run left, as tables and figures.
    fn collect(&self, spec: &Spec, fabric: &Fabric, ended: Ended<'_, '_>) -> Run {
        let Ended { notes: of_failures, mut sender, recorder, outcome, circuits } = ended;
        let (breakdown, share) = attribute(&self.graph, &outcome);
        let mut notes = fabric.notes().to_vec();
        notes.extend(of_failures);
        notes.extend(sender.medium.note());
        notes.extend(sender.carrier_note(spec));
        let top_k = match &spec.work {
            Work::Training(training) => training.job.model.top_k,
            Work::Collective(_) => 0,
        };
        notes.extend(sender.copies_note(top_k));
        notes.extend(self.notes.iter().cloned());
        sender.records.sort_by_key(|record| record.replica); // each replica's in order
        let mut tables = vec![
            tasks_table(&self.graph, &outcome, &share, spec.record.replicas),
            with_packets(links_table(fabric, &outcome), fabric, &outcome),
            transfers_table(&recorder),
            demand_table(&sender.records),
            reconfigurations_table(&self.graph, &outcome),
            circuits_table(fabric, circuits),
            queues_table(fabric, &outcome),
            reorder_table(&outcome),
        ];
        let bounds = match &spec.work {
            Work::Training(_) => None,
            Work::Collective(work) => {
                tables.push(messages_table(&self.graph, &outcome));
                tables.push(busiest_table(fabric, &outcome));
                let per_server = fabric.cluster().gpus_per_server;
                let demand = Demand::new(&self.placement, &self.gating, per_server);
                Some(bounds(work, fabric, (&self.graph, &demand)))
            }
        };
        let mut figures = figures(fabric, &outcome, &recorder);
        figures.extend(sender.copies_figures());
        Run {
            breakdown,
            iteration: outcome.makespan,
            carrier: sender.carrier(),
            topology: sender.medium.topology().unwrap_or_else(|| "none".into()),
            figures,
            tables,
            notes,
            traffic: sender.medium.traffic(),
            bounds,
            kept: sender.medium.kept(),
            warnings: outcome.packets.map_or_else(Vec::new, |packets| packets.notes),
        }
    }
}

/// An iteration that has been run.
struct Ended<'a, 'p> {
    /// Of failures.
    notes: Vec<String>,
    sender: Sender<'a>,
    recorder: Recorder<'p>,
    outcome: Outcome,
    /// That stood from the beginning.
    circuits: &'a [Patch],
}

/// Whether circuits that are given, if any are, have a place.
fn takes_circuits(spec: &Spec, medium: &MediumKind) -> Result<(), SimError> {
    let given = matches!(&spec.work, Work::Collective(work) if work.circuits.is_some());
    if given && !["circuits", "panel"].contains(&medium.name) {
        return Err(SimError::Input(format!(
            "collective.circuits: fabric \"{}\" has none to give; allowed: mixnet, topoopt",
            spec.fabric.kind().name()
        )));
    }
    Ok(())
}

/// Whether an engine can run a kind of fabric.
pub(crate) fn can_run(kind: &FabricKind, engine: &str) -> Result<(), SimError> {
    let Some(why) = kind.refuses(engine) else { return Ok(()) };
    let able = ["flow", "packet", "flit"].into_iter().filter(|name| kind.refuses(name).is_none());
    let able: Vec<String> = able.map(|name| format!("\"{name}\"")).collect();
    Err(SimError::Input(format!(
        "engine.kind = \"{engine}\": fabric \"{}\" {why}; allowed: {}",
        kind.name(),
        able.join(", ")
    )))
}

pub(crate) fn engine(spec: &Spec, beside: Beside<'_>) -> Box<dyn Engine> {
    match &spec.engine {
        &EngineSpec::Flow { tolerance } => {
            Box::new(FlowEngine { tolerance, threads: beside.threads })
        }
        EngineSpec::Flit(flit) => Box::new(flit.clone()),
        EngineSpec::Packet(packet) => {
            let chooser = beside.balancer.cloned();
            let threads = beside.threads.max(1);
            let engine = PacketEngine::new((**packet).clone(), spec.seed);
            Box::new(PacketEngine { chooser, threads, ..engine })
        }
    }
}

/// Counts what the network of `spec` is made of.
///
/// # Errors
/// [`SimError::Input`] if the fabric cannot be built.
pub fn fabric_without_circuits(spec: &Spec) -> Result<Fabric, SimError> {
    carried::allowed(spec)?;
    let plan = FailurePlan::new(spec, spec.region_servers())?;
    let backups = plan.backups.len() as u32;
    fabric_of(spec, &plan, &(medium::of(spec.fabric.kind()).decide)(spec, backups, None)?)
}

/// What two specifications must share for one workload to serve both.
fn identity(spec: &Spec) -> String {
    match &spec.work {
        Work::Training(training) => {
            format!("{} {:?} {:?}", spec.seed, training.job, training.gating)
        }
        Work::Collective(collective) => format!("{} {collective:?}", spec.seed),
    }
}

/// What the GPUs of a block are, in degrees of parallelism.
fn block_text(parallelism: Parallelism) -> &'static str {
    match parallelism.etp {
        None => "tp * cp * ep",
        Some(_) => "lcm(tp * cp, etp * ep)",
    }
}

/// Whether a job's blocks fill servers.
pub(crate) fn fills(cluster: &Cluster, parallelism: Parallelism) -> Result<(), SimError> {
    let (gpus, wanted) = (cluster.gpus, Placement::new(parallelism).gpus());
    if gpus != wanted {
        return Err(SimError::Input(format!(
            "cluster.gpus = {gpus}: must be {} * dp * pp = {wanted}",
            block_text(parallelism)
        )));
    }
    let (block, server) = (parallelism.block_size(), cluster.gpus_per_server);
    if server == 0 || (block % server != 0 && server % block != 0) {
        return Err(SimError::Input(format!(
            "cluster.gpus_per_server = {server}: must divide, or be a multiple of, \
             {} = {block}",
            block_text(parallelism)
        )));
    }
    Ok(())
}

fn fabric_of(spec: &Spec, plan: &FailurePlan, decided: &Decided) -> Result<Fabric, SimError> {
    if let Work::Training(training) = &spec.work {
        fills(&spec.cluster, training.job.parallelism)?;
    }
    let pairs = decided.panel.iter().flat_map(|design| &design.circuits);
    let panel: Vec<_> = pairs.map(|&(a, b)| (ServerId(a), ServerId(b))).collect();
    let cluster = plan.cluster(&spec.cluster);
    let site = Site {
        cluster: &cluster,
        region_servers: spec.region_servers(),
        backups: &plan.backups,
        panel: &panel,
        layout: decided.layout.as_ref(),
    };
    build_at(&site, decided.fabric.as_ref().unwrap_or(&spec.fabric))
        .map_err(|error| SimError::Input(error.to_string()))
}
