//! How good and how fast the SWOT scheduler is: `cargo run --release --example overlap`.
//!
//! Prints completion, bound, gap and CPU time over collectives at 800 Gbps a node.

use lightloom_swot::{Effort, Held, Planes, Problem, Step, ideal, lockstep, overlap};
use lightloom_units::{BitRate, Bytes, Time};
use std::time::Instant;

fn problem(volumes: Vec<(u32, u64)>, k: u32, latency_us: u64, dark_us: u64) -> Problem {
    let planes = Planes {
        planes: k,
        rate_bps: BitRate::from_bps(800_000_000_000 / u64::from(k)),
        reconfiguration_ps: Time::from_us(dark_us),
        latency_ps: Time::from_us(latency_us),
    };
    let steps = volumes
        .into_iter()
        .map(|(configuration, b)| Step { configuration, volume_bytes: Bytes::new(b) })
        .collect();
    Problem::new(planes, vec![Held::Configuration(0); k as usize], steps).expect("valid")
}

fn rabenseifner(nodes: u64, size: u64) -> Vec<(u32, u64)> {
    let block = size.div_ceil(nodes);
    let halving: Vec<(u32, u64)> =
        (1..=nodes.ilog2()).map(|i| (i - 1, block * (nodes >> i))).collect();
    halving.iter().copied().chain(halving.iter().rev().copied()).collect()
}

fn pairwise(nodes: u64, size: u64) -> Vec<(u32, u64)> {
    (0..nodes as u32 - 1).map(|s| (s, size.div_ceil(nodes))).collect()
}

fn bruck(nodes: u64, size: u64) -> Vec<(u32, u64)> {
    (0..nodes.ilog2()).map(|s| (s, size.div_ceil(nodes) * nodes / 2)).collect()
}

fn main() {
    const MB: u64 = 1_000_000;
    let cases: Vec<(&str, Problem, f64)> = vec![
        ("all-reduce 64 nodes 64 MB", problem(rabenseifner(64, 64 * MB), 4, 5, 200), 2392.5),
        ("all-reduce 256 nodes 64 MB", problem(rabenseifner(256, 64 * MB), 4, 5, 200), 2525.0),
        ("all-reduce 256 nodes 256 MB", problem(rabenseifner(256, 256 * MB), 4, 5, 200), 7052.5),
        ("pairwise 10 nodes 64 MB", problem(pairwise(10, 64 * MB), 4, 5, 200), 1465.0),
        ("pairwise 256 nodes 256 MB", problem(pairwise(256, 256 * MB), 4, 5, 200), 15725.0),
        ("pairwise 256 nodes 1 GB", problem(pairwise(256, 1000 * MB), 4, 5, 200), 33638.0),
        ("bruck 256 nodes 64 MB", problem(bruck(256, 64 * MB), 4, 5, 200), 4000.0),
        ("all-reduce 512 nodes 64 MB", problem(rabenseifner(512, 64 * MB), 4, 5, 200), 2728.75),
        ("all-reduce 512 nodes 64 MB k 8", problem(rabenseifner(512, 64 * MB), 8, 5, 200), 0.0),
        ("all-reduce 256 nodes 256 KB k 8", problem(rabenseifner(256, 256_000), 8, 1, 200), 245.6),
        ("all-reduce 512 nodes 40 MB 1us", problem(rabenseifner(512, 40 * MB), 4, 1, 200), 0.0),
        ("all-reduce 64 nodes 40 MB 1us", problem(rabenseifner(64, 40 * MB), 4, 1, 200), 0.0),
        ("pairwise 512 nodes 1 GB k 8", problem(pairwise(512, 1000 * MB), 8, 5, 200), 0.0),
        ("pairwise 5 nodes 32 MB 1us", problem(pairwise(5, 32 * MB), 4, 1, 200), 0.0),
        ("pairwise 10 nodes 32 MB 1us", problem(pairwise(10, 32 * MB), 4, 1, 200), 0.0),
    ];
    let effort = match std::env::args().nth(1).as_deref() {
        None | Some("normal") => Effort::Normal,
        Some("quick") => Effort::Quick,
        Some("thorough") => Effort::Thorough,
        Some(other) => panic!("{other}: quick, normal or thorough"),
    };
    println!(
        "{:34} {:>10} {:>10} {:>10} {:>10} {:>7} {:>7} {:>7} {:>6}",
        "", "lockstep", "ideal", "found", "bound", "gap %", "known %", "less %", "s"
    );
    for (name, problem, known) in cases {
        let start = Instant::now();
        let found = overlap(&problem, effort);
        let took = start.elapsed().as_secs_f64();
        let us = |t: Time| t.ps() as f64 / 1e6;
        let lock = us(lockstep(&problem).completion_ps);
        let at = us(found.schedule.completion_ps);
        println!(
            "{name:34} {lock:10.1} {:10.1} {at:10.3} {:10.1} {:7.2} {:7.3} {:7.2} {took:6.2}",
            us(ideal(&problem)),
            us(found.bound_ps),
            100.0 * found.gap(),
            if known > 0.0 { 100.0 * (at / known - 1.0) } else { 0.0 },
            100.0 * (1.0 - at / lock),
        );
    }
}
