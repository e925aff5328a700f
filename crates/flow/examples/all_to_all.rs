//! Times random all-to-alls on the flow engine: `cargo run --release -p lightloom-flow --example
//! all_to_all -- [ranks] [how many] [tolerance] [slices]`. Prints flows, computations of rates, and
//! seconds. Each rank is a server of as many GPUs as there are slices, which all send the same.

use lightloom_engine::conformance::{Graph, Script, Work, one_phase};
use lightloom_engine::{Engine, Scenario, Silent};
use lightloom_fabric::{Cluster, FabricSpec, build};
use lightloom_flow::FlowEngine;
use lightloom_units::{BitRate, Time};
use std::time::Instant;

fn main() {
    let argument = |at: usize, default: f64| {
        std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let ranks = argument(1, 8.0).max(2.0) as u32;
    let times = argument(2, 2000.0).max(1.0) as u32;
    let engine = FlowEngine { tolerance: argument(3, 0.0) };
    let slices = argument(4, 1.0).max(1.0) as u32;
    let cluster = Cluster {
        gpus: ranks * slices,
        gpus_per_server: slices,
        nics_per_server: slices,
        numa_nodes: 1,
        scale_up_bps: BitRate::from_gbps(3600),
        scale_up_delay_ps: Time::from_ns(500),
    };
    let spec = FabricSpec::leaf_spine(BitRate::from_gbps(400), Time::from_us(1));
    let fabric = build(&cluster, &spec, 1, &[]).expect("a valid fabric");
    let mut state = 1u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 10_000_000 + 1_000_000
    };
    let transfers: Vec<_> = (0..times)
        .map(|_| {
            let pairs = (0..ranks).flat_map(|a| (0..ranks).map(move |b| (a, b)));
            let flows: Vec<_> = pairs
                .filter(|(a, b)| a != b)
                .map(|(a, b)| (a * slices, b * slices, random()))
                .flat_map(|(a, b, bytes)| (0..slices).map(move |s| (a + s, b + s, bytes)))
                .collect();
            one_phase(&fabric, &flows)
        })
        .collect();
    let work = (0..times).map(Work::Send).collect();
    let graph = Graph::new(work, (1..times).map(|task| (task - 1, task)).collect());
    let scenario =
        Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut script = Script { transfers, at_end: vec![] };
    let started = Instant::now();
    let outcome = engine.run(&scenario, &mut script, &mut Silent).expect("the run finishes");
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{ranks} ranks: {} flows, {} solves, {seconds:.3} s, {:.2} M flows/s, ends at {}",
        outcome.flows,
        outcome.solves,
        outcome.flows as f64 / seconds / 1e6,
        outcome.makespan
    );
}
