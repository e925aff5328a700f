//! Loads a network of routers, flit by flit, and says what it cost: `cargo run --release -p lightloom-flit
//! --example load -- FILE LOAD [THREADS [CYCLES]]`. The file holds, as JSON, a network by its kind's keys, a
//! routing, a traffic and the settings of routers, as `benches/held.py` writes it. Prints, as JSON, flits over
//! channels crossed, CPU seconds without and with the building of the network, the busiest thread's, memory,
//! and a digest of all that was measured.

#[path = "../../../benches/measured.rs"]
#[allow(dead_code)] // each example measures what it needs
mod measured;

use lightloom_fabric::routers::NETWORKS;
use lightloom_flit::{Settings, Traffic, measure};
use lightloom_railx::RAILX;
use measured::{cpu_s, digest, peak_mb};
use serde_json::{Value, from_str, from_value};
use std::process::ExitCode;

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn traffic(asked: &Value, terminals: u32, seed: u64) -> Result<Traffic, Failed> {
    Ok(match asked["kind"].as_str() {
        Some("uniform") => Traffic::Uniform { to_self: asked["to_self"] == true },
        Some("all-to-all") => Traffic::AllToAll,
        Some("permutation") => Traffic::random_permutation(terminals, seed),
        Some("ring") => Traffic::Ring { order: (0..terminals).collect() },
        Some("hot-spot") => Traffic::HotSpot { terminals: vec![0], share: 0.1 },
        other => return Err(format!("traffic {other:?}").into()),
    })
}

fn run(arguments: &[String]) -> Result<(), Failed> {
    let [file, load, rest @ ..] = arguments else { return Err("FILE LOAD are needed".into()) };
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let mut asked: Value = from_str(&text)?;
    let mut settings: Settings = from_value(asked["settings"].take())?;
    let threads = rest.first().map_or(Ok(1), |text| text.parse())?;
    if let Some(cycles) = rest.get(1) {
        settings.cycles = cycles.parse()?;
        settings.warm_up = settings.cycles / 2;
    }
    let routing = asked["routing"].as_str().ok_or("no routing")?;
    let mut keys = asked["network"].as_object().ok_or("no network")?.clone();
    let name = keys.remove("kind").ok_or("no kind of network")?;
    let kind = std::iter::once(&RAILX).chain(NETWORKS.iter().copied());
    let kind = kind.into_iter().find(|kind| name == kind.about.name).ok_or("no such network")?;
    let (network, routing) = kind.read(keys.into())?.build(routing, settings.vcs)?;
    let terminals = network.terminals().len() as u32;
    let traffic = traffic(&asked["traffic"], terminals, settings.seed)?;
    let built = cpu_s();
    let load = load.parse()?;
    let measured =
        measure(&network, routing.as_ref(), &traffic, load, &settings, threads, &mut |_| true)?;
    let all = cpu_s();
    let hops = measured.flit_hops as f64 / 1e6;
    println!(
        r#"{{"terminals": {terminals}, "threads": {threads}, "million_flit_hops": {hops:.3}, "run_s": {:.2}, "all_s": {all:.2}, "million_a_s": {:.2}, "peak_mb": {}, "accepted": {:.4}, "latency": {:.3}, "digest": "{:016x}"}}"#,
        all - built,
        hops / (all - built),
        peak_mb(),
        measured.accepted,
        measured.mean_latency,
        digest(&measured),
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}
