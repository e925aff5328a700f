//! The resolved specification: every value present, every unit an integer. Python resolves defaults
//! and presets; here the result is parsed once, and anything unknown is an error.

use crate::error::SimError;
use crate::failures::spec::Failure;
use lightloom_circuits::CircuitCounts;
use lightloom_fabric::{Cluster, FabricSpec, Gradients, MixNetSpec};
use lightloom_flit::FlitEngine;
use lightloom_packet::PacketSpec;
use lightloom_workload::collective::Primitive;
use lightloom_workload::{
    Compute, GroupLimit, Job, Model, Parallelism, Training as TrainingSettings,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Everything that makes a run, but for a gating trace's counts or a collective's demand.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Seeds every random draw.
    pub seed: u64,
    /// What is sent.
    pub work: Work,
    /// Servers, GPUs and NICs.
    pub cluster: Cluster,
    /// The network between servers.
    pub fabric: FabricSpec,
    /// Which engine, and how exact.
    pub engine: EngineSpec,
    /// What to keep of the run.
    pub record: Record,
    /// What fails, and when.
    pub failures: Vec<Failure>,
    /// Servers beyond the job's that stand in for what fails; 0: as many as it takes.
    pub backup_servers: u32,
}

/// What a run sends.
#[derive(Clone, Debug)]
pub enum Work {
    /// An iteration of training.
    Training(Box<Training>),
    /// One collective.
    Collective(CollectiveWork),
}

/// An iteration of training.
#[derive(Clone, Debug)]
pub struct Training {
    /// What the task graph is built from.
    pub job: Job,
    /// How iterations of the trace are drawn.
    pub gating: GatingSpec,
}

/// One collective, each of whose ranks is a GPU, from the first on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveWork {
    /// Ranks; the last server may have GPUs to spare.
    pub ranks: u32,
    /// What it is for.
    pub primitive: Primitive,
    /// `direct` (an all-to-all of all pairs at once), `program`, or an algorithm's name.
    pub algorithm: String,
    /// Of a rank's buffer, as nccl-tests count it: what it holds before, or after an all-gather.
    pub size_bytes: u64,
    /// Circuits that stand from the beginning to the end: server, server, how many.
    #[serde(default)]
    pub circuits: Option<Vec<(u32, u32, u32)>>,
}

/// A specification of training, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTraining {
    seed: u64,
    model: Model,
    parallelism: Parallelism,
    training: TrainingSettings,
    compute: Compute,
    gating: GatingSpec,
    cluster: Cluster,
    fabric: FabricSpec,
    engine: EngineSpec,
    record: Record,
    #[serde(default)]
    failures: Vec<Failure>,
    #[serde(default)]
    backup_servers: u32,
}

/// A specification of a collective, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfCollective {
    seed: u64,
    collective: CollectiveWork,
    cluster: Cluster,
    fabric: FabricSpec,
    engine: EngineSpec,
    #[serde(default)]
    failures: Vec<Failure>,
    #[serde(default)]
    backup_servers: u32,
}

/// What tells the two apart.
#[derive(Deserialize)]
struct Either {
    collective: Option<IgnoredAny>,
}

/// How iterations of the trace are drawn.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatingSpec {
    /// What draws an iteration of its own.
    pub redraw: Redraw,
    /// Whether the trace's loads were counted under the model's limit of groups.
    #[serde(default)]
    pub group_limit: GroupLimit,
}

/// What draws an iteration of its own.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Redraw {
    /// Every micro-batch of every replica.
    MicroBatch,
}

/// Which engine runs the scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum EngineSpec {
    /// Max-min fair flows.
    Flow {
        /// See [`lightloom_flow::FlowEngine::tolerance`].
        tolerance: f64,
    },
    /// Packets, queues, transports.
    Packet(Box<PacketSpec>),
    /// Routers, virtual channels, credits.
    Flit(FlitEngine),
}

/// What to keep of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Tasks of this many replicas are kept, from the first.
    pub replicas: u32,
}

impl EngineSpec {
    /// The `kind` by which a specification asks for it.
    pub const fn name(&self) -> &'static str {
        match self {
            EngineSpec::Flow { .. } => "flow",
            EngineSpec::Packet(_) => "packet",
            EngineSpec::Flit(_) => "flit",
        }
    }
}

impl From<OfTraining> for Spec {
    fn from(spec: OfTraining) -> Self {
        let OfTraining { seed, model, parallelism, training, compute, gating, .. } = spec;
        let job = Job { model, parallelism, training, compute };
        Spec {
            seed,
            work: Work::Training(Box::new(Training { job, gating })),
            cluster: spec.cluster,
            fabric: spec.fabric,
            engine: spec.engine,
            record: spec.record,
            failures: spec.failures,
            backup_servers: spec.backup_servers,
        }
    }
}

impl From<OfCollective> for Spec {
    fn from(spec: OfCollective) -> Self {
        Spec {
            seed: spec.seed,
            work: Work::Collective(spec.collective),
            cluster: spec.cluster,
            fabric: spec.fabric,
            engine: spec.engine,
            record: Record { replicas: 1 },
            failures: spec.failures,
            backup_servers: spec.backup_servers,
        }
    }
}

impl Spec {
    /// Parses the JSON that Python made.
    ///
    /// # Errors
    /// A message that names the key.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let either = serde_json::from_str(text);
        let parsed = match either.is_ok_and(|either: Either| either.collective.is_some()) {
            true => serde_json::from_str::<OfCollective>(text).map(Spec::from),
            false => serde_json::from_str::<OfTraining>(text).map(Spec::from),
        };
        parsed.map_err(|error| format!("the resolved specification: {error}"))
    }

    /// Degrees of parallelism; the ranks of a collective are one block.
    pub fn parallelism(&self) -> Parallelism {
        match &self.work {
            Work::Training(training) => training.job.parallelism,
            Work::Collective(collective) => {
                Parallelism { tp: 1, cp: 1, ep: collective.ranks, etp: None, dp: 1, pp: 1 }
            }
        }
    }

    /// Servers that hold one block; 1 if a server holds several. Of a dense job whose gradients take
    /// circuits, servers of a pipeline stage.
    pub fn region_servers(&self) -> u32 {
        let parallelism = self.parallelism();
        let replicas = if self.rings_of_stages() { parallelism.dp } else { 1 };
        let gpus = parallelism.block_size().saturating_mul(replicas);
        gpus.div_ceil(self.cluster.gpus_per_server.max(1)).max(1)
    }

    /// Whether circuits join all replicas of a stage: there is no all-to-all to join a block for.
    pub(crate) fn rings_of_stages(&self) -> bool {
        let asked = self.fabric.keys::<MixNetSpec>().map(|spec| spec.reconfigure.gradients);
        let dense = matches!(&self.work, Work::Training(it) if it.job.model.experts == 0);
        dense && asked.is_some_and(|gradients| gradients != Gradients::Off)
    }

    /// Circuits between servers that are given, no more than `ports` at each.
    ///
    /// # Errors
    /// Names the circuit that cannot be.
    pub(crate) fn given_circuits(&self, ports: u32) -> Result<Option<CircuitCounts>, SimError> {
        let Work::Collective(CollectiveWork { circuits: Some(given), .. }) = &self.work else {
            return Ok(None);
        };
        let fail = |what: String| Err(SimError::Input(format!("collective.circuits: {what}")));
        let servers = self.cluster.servers();
        let mut counts = CircuitCounts::dark(servers as usize);
        for &(a, b, circuits) in given {
            if a == b || a.max(b) >= servers || !(1..=ports).contains(&circuits) {
                return fail(format!(
                    "{circuits} from server {a} to {b}: allowed: 1 to {ports} between two of \
                     servers 0 to {}",
                    servers - 1
                ));
            }
            (0..circuits).for_each(|_| counts.join(a as usize, b as usize));
        }
        match (0..servers).find(|&server| counts.degree(server as usize) > ports) {
            Some(server) => fail(format!(
                "{} at server {server}; allowed: {ports}, a port each",
                counts.degree(server as usize)
            )),
            None => Ok(Some(counts)),
        }
    }
}
