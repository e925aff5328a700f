//! What a model's shape comes to: parameters, FLOPs, and what a GPU runs of it.

use crate::errors::refused;
use crate::json::{read, text};
use lightloom_workload::{
    Component, Compute, Holds, Job, Kernel, Memory, Model, Parallelism, Pass, Precision, Product,
    Rates, Scores, StageMemory, Training,
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parameters in all, those that a token meets, and those of the input embedding.
#[pyfunction]
pub(crate) fn model_parameters(model_json: &str) -> PyResult<(u64, u64, u64)> {
    let model: Model = read(model_json)?;
    model.validate().map_err(refused)?;
    Ok((model.parameters(), model.active_parameters(), model.embedding_parameters()))
}

/// What of a specification says what a GPU computes.
#[derive(Deserialize)]
struct OfJob {
    model: Model,
    parallelism: Parallelism,
    training: Training,
    compute: Compute,
}

impl OfJob {
    /// The job of a specification.
    fn read(spec_json: &str) -> PyResult<Job> {
        let OfJob { model, parallelism, training, compute } = read(spec_json)?;
        let job = Job { model, parallelism, training, compute };
        job.validate().map_err(refused)?;
        Ok(job)
    }
}

/// FLOPs that a token needs in all passes of a job: causal, and as if it saw its whole sequence.
#[pyfunction]
pub(crate) fn token_flops(spec_json: &str) -> PyResult<[f64; 2]> {
    Ok(OfJob::read(spec_json)?.token_flops())
}

/// About how long an iteration takes \[s\] where a GPU sends `near_bps` inside its server of so many GPUs and
/// `far_bps` out of it.
#[pyfunction]
pub(crate) fn job_estimate(
    spec_json: &str,
    per_server: u32,
    near_bps: f64,
    far_bps: f64,
) -> PyResult<f64> {
    let rates = Rates { per_server: per_server.max(1), near_bps, far_bps };
    OfJob::read(spec_json)?.estimate(rates).map_err(refused)
}

/// How a specification counts memory.
#[derive(Deserialize)]
struct OfMemory {
    memory: Memory,
}

/// What the GPUs of a stage hold \[B\].
#[derive(Serialize)]
struct Held {
    stage: u32,
    in_flight: u32,
    total: u64,
    parts: BTreeMap<&'static str, u64>,
}

/// What the GPUs of a job hold.
#[derive(Serialize)]
struct AllHeld {
    /// What is computed anew, where the specification leaves it open, too.
    recompute: &'static str,
    fits: bool,
    fullest: u32,
    stages: Vec<Held>,
}

/// What the GPUs of a job hold, by stage and component, and whether it fits.
#[pyfunction]
pub(crate) fn job_memory(spec_json: &str) -> PyResult<String> {
    let job = OfJob::read(spec_json)?;
    let OfMemory { memory } = read(spec_json)?;
    memory.validate().map_err(refused)?;
    let found = job.memory(&memory);
    let held = |stage: &StageMemory| Held {
        stage: stage.stage,
        in_flight: stage.in_flight,
        total: stage.total(),
        parts: Holds::ALL.iter().map(|&holds| (holds.as_str(), stage.bytes(holds))).collect(),
    };
    text(&AllHeld {
        recompute: found.recompute.as_str(),
        fits: found.fits(&memory),
        fullest: found.fullest().stage,
        stages: found.stages.iter().map(held).collect(),
    })
}

/// A kernel of a component in a pass, its sizes by their names in a compute table.
#[derive(Serialize)]
struct Listed {
    component: &'static str,
    pass: &'static str,
    load: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    matmul: Option<Product>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attention: Option<Scores>,
    flops: f64,
    /// By its shape, where the specification says how; else 0.
    seconds: f64,
    origin: &'static str,
}

/// What a GPU runs of a job for one micro-batch: each component's kernels, in both passes, experts at
/// each of `loads`, which are multiples of an even one.
#[pyfunction]
pub(crate) fn job_kernels(spec_json: &str, loads: Vec<f64>) -> PyResult<String> {
    let job = OfJob::read(spec_json)?;
    let even = job.assignments_per_rank() as f64;
    let mut parts = vec![Component::Attention, Component::Head];
    if job.model.moe_layers() > 0 {
        parts.extend([Component::Gate, Component::Expert]);
    }
    if job.model.shared_experts > 0 {
        parts.push(Component::SharedExpert);
    }
    if job.model.dense_mlp_layers() > 0 {
        parts.push(Component::DenseMlp);
    }
    let mut found = Vec::new();
    for component in parts {
        for pass in [Pass::Forward, Pass::Backward] {
            let own = if component == Component::Expert { &loads[..] } else { &[1.0] };
            for &load in own {
                let assignments = (even * load).round().max(1.0) as u64;
                let all = job.kernels(component, pass, assignments).kernels;
                found.extend(all.iter().map(|kernel| listed(&job, component, pass, load, kernel)));
            }
        }
    }
    text(&found)
}

fn listed(job: &Job, component: Component, pass: Pass, load: f64, kernel: &Kernel) -> Listed {
    let by_shape = job.compute.products.efficiency.by_shape();
    let (seconds, origin) = match by_shape {
        true => job.compute.kernel_s(kernel),
        false => (0.0, lightloom_workload::Origin::Roofline),
    };
    let (matmul, attention) = match *kernel {
        Kernel::Product(product) => (Some(product), None),
        Kernel::Scores(scores) => (None, Some(scores)),
    };
    Listed {
        component: component.as_str(),
        pass: pass.as_str(),
        load,
        matmul,
        attention,
        flops: kernel.flops(),
        seconds,
        origin: origin.as_str(),
    }
}

/// Seconds of matrix products (m, n, k, groups, whether at 8 bits) by their shapes, and where they come
/// from, on the GPU that the compute table of a specification says.
#[pyfunction]
pub(crate) fn product_times(
    compute_json: &str,
    products: Vec<(u64, u64, u64, u64, bool)>,
) -> PyResult<Vec<(f64, &'static str)>> {
    let compute: Compute = read(compute_json)?;
    compute.validate().map_err(refused)?;
    let times = products.into_iter().map(|(m, n, k, groups, eight)| {
        let precision = if eight { Precision::Fp8 } else { Precision::Bf16 };
        let product = Product { m, n, k, groups, precision, out_bytes: 2.0 };
        let (seconds, origin) = compute.kernel_s(&Kernel::Product(product));
        (seconds, origin.as_str())
    });
    Ok(times.collect())
}
