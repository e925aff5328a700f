//! Prints how long the task graph of one iteration takes to build.
//!
//! `cargo run --release -p lightloom-workload --example build_time`

use lightloom_workload::{Gating, Job, WorkloadError, build, example};
use std::time::Instant;

fn main() -> Result<(), WorkloadError> {
    println!("model              GPUs    tasks     edges    gating     graph");
    for job in [
        example::mixtral_8x7b(),
        example::mixtral_8x22b(),
        example::llama_moe(),
        example::qwen_moe(),
        example::deepseek_r1(),
        grown(example::mixtral_8x7b(), 8),
        grown(example::mixtral_8x7b(), 32),
    ] {
        let shape = [20, 8, job.parallelism.ep as usize, job.model.experts as usize];
        let counts: Vec<u32> =
            (0..shape.iter().product::<usize>()).map(|i| i as u32 % 97 + 1).collect();
        let start = Instant::now();
        let gating = Gating::new(&counts, shape, &job.model, &job.parallelism, &job.training, 1)?;
        let fitted = start.elapsed();
        let start = Instant::now();
        let graph = build(&job, &gating)?;
        let built = start.elapsed();
        println!(
            "{:16} {:6} {:8} {:9} {fitted:>9.1?} {built:>9.1?}",
            job.model.name,
            job.parallelism.gpus(),
            graph.len(),
            graph.successors.targets.len(),
        );
    }
    Ok(())
}

/// The same job with so many times the replicas.
fn grown(mut job: Job, factor: u32) -> Job {
    job.parallelism.dp *= factor;
    job
}
