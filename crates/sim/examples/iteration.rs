//! Runs one iteration of training and says what it cost: `cargo run --release -p lightloom-sim --example
//! iteration -- DIRECTORY [digest [threads]]`. The directory holds `spec.json` (a resolved specification)
//! and a gating trace, `shape.json` and `counts.bin` (32 bits a number), as `benches/held.py` writes them.
//! Prints, as JSON, how much work it was, seconds of CPUs and of the clock, and memory; and a digest of
//! all that came out, but for how often rates were computed.

#[path = "../../../benches/measured.rs"]
#[allow(dead_code)] // each example measures what it needs
mod measured;

use lightloom_sim::{Beside, Spec, TraceCounts, Workload};
use measured::{cpu_s, digest, peak_mb};
use std::path::Path;
use std::process::ExitCode;

type Failed = Box<dyn std::error::Error>;

fn run(place: &Path, digested: bool, threads: usize) -> Result<(), Failed> {
    let read = |name: &str| std::fs::read(place.join(name)).map_err(|e| format!("{name}: {e}"));
    let spec = Spec::from_json(std::str::from_utf8(&read("spec.json")?)?)?;
    let shape: [usize; 4] = serde_json::from_slice(&read("shape.json")?)?;
    let counts = read("counts.bin")?;
    let number = |four: &[u8]| u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    let counts: Vec<u32> = counts.chunks_exact(4).map(number).collect();
    let began = cpu_s();
    let workload = Workload::new(&spec, TraceCounts { counts: &counts, shape })?;
    let (built, building_mb) = (cpu_s(), peak_mb());
    let (beside, started) = (Beside { threads, ..Beside::default() }, std::time::Instant::now());
    let mut run = workload.run_beside(&spec, beside, &mut |_| true)?;
    let wall = started.elapsed().as_secs_f64();
    let (ran, running_mb) = (cpu_s(), peak_mb());
    let figure = |name: &str| run.figures.iter().find(|(known, _)| *known == name);
    let figure = |name: &str| figure(name).map_or(0.0, |&(_, value)| value);
    println!(
        r#"{{"tasks": {}, "flows": {}, "solves": {}, "iteration_ps": {}, "build_s": {:.2}, "run_s": {:.2}, "wall_s": {wall:.2}, "build_mb": {}, "peak_mb": {}}}"#,
        workload.tasks(),
        figure("flows"),
        figure("solves"),
        run.iteration.ps(),
        built - began,
        ran - built,
        building_mb,
        running_mb
    );
    if digested {
        run.figures.retain(|(name, _)| *name != "solves");
        println!(r#"{{"digest": "{:016x}"}}"#, digest(&run));
    }
    Ok(())
}

fn main() -> ExitCode {
    let argument = |at: usize| std::env::args().nth(at).unwrap_or_default();
    let threads = argument(3).parse().unwrap_or(1);
    match run(Path::new(&argument(1)), argument(2) == "digest", threads) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("iteration: {error}");
            ExitCode::FAILURE
        }
    }
}
