//! Runs one iteration of training and says what it cost: `cargo run --release -p lightloom-sim --example
//! iteration -- DIRECTORY [digest]`. The directory holds `spec.json` (a resolved specification) and a
//! gating trace, `shape.json` and `counts.bin` (32 bits a number), as `benches/held.py` writes them.
//! Prints, as JSON, how much work it was, CPU seconds and memory; and a digest of all that came out, but
//! for how often rates were computed.

use lightloom_sim::{Spec, TraceCounts, Workload};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

type Failed = Box<dyn std::error::Error>;

/// FNV-1a.
struct Digest(u64);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

/// CPU seconds of all threads of this process that are alive, and of those that were; 0 where the system
/// does not say.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

/// The most memory that this process has had \[MB\]; 0 where the system does not say.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|kb| kb.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn run(place: &Path, digested: bool) -> Result<(), Failed> {
    let read = |name: &str| std::fs::read(place.join(name)).map_err(|e| format!("{name}: {e}"));
    let spec = Spec::from_json(std::str::from_utf8(&read("spec.json")?)?)?;
    let shape: [usize; 4] = serde_json::from_slice(&read("shape.json")?)?;
    let counts = read("counts.bin")?;
    let number = |four: &[u8]| u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    let counts: Vec<u32> = counts.chunks_exact(4).map(number).collect();
    let began = cpu_s();
    let workload = Workload::new(&spec, TraceCounts { counts: &counts, shape })?;
    let (built, building_mb) = (cpu_s(), peak_mb());
    let mut run = workload.run(&spec, &mut |_| true)?;
    let (ran, running_mb) = (cpu_s(), peak_mb());
    let figure = |name: &str| run.figures.iter().find(|(known, _)| *known == name);
    let figure = |name: &str| figure(name).map_or(0.0, |&(_, value)| value);
    println!(
        r#"{{"tasks": {}, "flows": {}, "solves": {}, "iteration_ps": {}, "build_s": {:.2}, "run_s": {:.2}, "build_mb": {}, "peak_mb": {}}}"#,
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
        let mut digest = Digest(0xcbf2_9ce4_8422_2325);
        write!(digest, "{run:?}")?;
        println!(r#"{{"digest": "{:016x}"}}"#, digest.0);
    }
    Ok(())
}

fn main() -> ExitCode {
    let argument = |at: usize| std::env::args().nth(at).unwrap_or_default();
    match run(Path::new(&argument(1)), argument(2) == "digest") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("iteration: {error}");
            ExitCode::FAILURE
        }
    }
}
