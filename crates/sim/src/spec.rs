//! The resolved specification: every value present, every unit an integer. Python resolves defaults
//! and presets; here the result is parsed once, and anything unknown is an error.

use crate::failures::spec::Failure;
use lightloom_fabric::{Cluster, FabricSpec};
use lightloom_flit::FlitEngine;
use lightloom_packet::PacketSpec;
use lightloom_workload::{Compute, Job, Model, Parallelism, Training};
use serde::Deserialize;

/// Everything that makes a run, but for the gating trace's counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Seeds every random draw.
    pub seed: u64,
    /// The model's shape.
    pub model: Model,
    /// Degrees of parallelism.
    pub parallelism: Parallelism,
    /// Batches and the pipeline's schedule.
    pub training: Training,
    /// The GPU and measured times.
    pub compute: Compute,
    /// How iterations of the trace are drawn.
    pub gating: GatingSpec,
    /// Servers, GPUs and NICs.
    pub cluster: Cluster,
    /// The network between servers.
    pub fabric: FabricSpec,
    /// Which engine, and how exact.
    pub engine: EngineSpec,
    /// What to keep of the run.
    pub record: Record,
    /// What fails, and when.
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// Servers beyond the job's that stand in for what fails; 0: as many as it takes.
    #[serde(default)]
    pub backup_servers: u32,
}

/// How iterations of the trace are drawn.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatingSpec {
    /// What draws an iteration of its own.
    pub redraw: Redraw,
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

impl Spec {
    /// Parses the JSON that Python made.
    ///
    /// # Errors
    /// A message that names the key.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("the resolved specification: {error}"))
    }

    /// Servers that hold one block; 1 if a server holds several.
    pub fn region_servers(&self) -> u32 {
        (self.parallelism.block_size() / self.cluster.gpus_per_server.max(1)).max(1)
    }

    /// The job: what the task graph is built from.
    pub fn job(&self) -> Job {
        Job {
            model: self.model.clone(),
            parallelism: self.parallelism,
            training: self.training.clone(),
            compute: self.compute.clone(),
        }
    }
}
