//! Prints how long decisions take: MixNet's for one all-to-all, TopoOpt's for a job.
//!
//! `cargo run --release -p lightloom-circuits --example decide_time`

use lightloom_circuits::topoopt::{AllReduceGroup, TopoOptInput, find};
use lightloom_circuits::{
    Layout, PortMap, Prospect, Rates, RouteOptions, Router, ServerDemand, allocate, assign, choose,
    settle,
};
use lightloom_units::Time;
use std::time::{Duration, Instant};

fn main() {
    println!(
        "servers  EP  entries    allocate      choose      settle      assign       route  \
         (EPS shared)   legs, hops"
    );
    for (servers, slices) in [(2, 1), (4, 4), (8, 8), (8, 1), (16, 1), (64, 8), (64, 1)] {
        one_all_to_all(servers, slices);
    }
    println!("\nservers  regions of  stages      design  circuits  crossings");
    for (region, stages, replicas) in [(4, 4, 8), (8, 16, 1), (4, 4, 64), (8, 16, 8), (64, 16, 1)] {
        one_job(region, stages, replicas);
    }
}

/// Numbers without a pattern, the same each time.
fn noise(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    1_000_000 + (mixed >> 40)
}

fn timed<T>(mut decide: impl FnMut(u64) -> T) -> Duration {
    let start = Instant::now();
    let mut runs = 0;
    while runs < 10 || start.elapsed() < Duration::from_millis(200) {
        std::hint::black_box(decide(runs));
        runs += 1;
    }
    start.elapsed() / runs as u32
}

/// Servers of eight GPUs; GPUs of the same one of `slices` exchange.
fn one_all_to_all(servers: u32, slices: u32) {
    let ranks = servers * 8 / slices;
    let all_to_all = |seed: u64| -> Vec<(u32, u32, u64)> {
        let pairs = (0..ranks).flat_map(|i| (0..ranks).map(move |j| (i, j)));
        pairs
            .filter(|(i, j)| i != j)
            .flat_map(|(i, j)| {
                let bytes = noise(seed << 32 | u64::from(i * ranks + j));
                (0..slices).map(move |slice| (i * slices + slice, j * slices + slice, bytes))
            })
            .collect()
    };
    let layout = Layout {
        servers: servers as u16,
        gpus_per_server: 8,
        packet_nics: vec![0, 4],
        optical_nics: vec![1, 2, 3, 5, 6, 7],
        nic_gpu: (0..8).collect(),
    };
    let numa = [0, 0, 0, 1, 1, 1];
    let draws: Vec<_> = (0..4).map(all_to_all).collect();
    let n = servers as usize;
    let of = |draw: &Vec<_>| ServerDemand::from_gpu_demand(n, 8, draw.iter().copied());
    let demands: Vec<_> = draws.iter().map(of).collect();
    let ports = vec![6; n];
    let counts: Vec<_> = demands.iter().map(|demand| allocate(demand, &ports, true)).collect();
    let mut map = PortMap::dark(n, 6);
    let allocating = timed(|run| allocate(&demands[run as usize % 4], &ports, true));
    let standing = allocate(&ServerDemand { n, bytes: vec![1; n * n] }, &ports, true);
    let bps = 400_000_000_000;
    let rates = Rates { optical_bps: bps, packet_bps: bps, packet_nics: 2, share_eps: false };
    let choosing = timed(|run| choose(&demands[run as usize % 4], &standing, &ports, &rates));
    // Half of what a change takes is hidden.
    let (dark, hidden) = (Time::from_us(200), Time::from_us(100));
    let prospect = Prospect { uses: 2, hidden, later: 0, usual: &[], again: None };
    let settling = timed(|run| {
        settle(&demands[run as usize % 4], &standing, &ports, &rates, |_| dark, prospect)
    });
    let assigning = timed(|run| map = assign(&counts[run as usize % 4], &map, &numa));
    let mut router = Router::default();
    let mut routing = |share_eps| {
        let (optical_bps, packet_bps) = (400_000_000_000, 400_000_000_000);
        let rates = RouteOptions { share_eps, optical_bps, packet_bps };
        timed(|run| router.route(&draws[run as usize % 4], &map, &layout, &rates).exchange.len())
    };
    let (alone, shared) = (routing(false), routing(true));
    let rates = RouteOptions { share_eps: false, optical_bps: 1, packet_bps: 1 };
    let plan = router.route(&draws[0], &map, &layout, &rates);
    println!(
        "{servers:7} {ranks:3} {:8} {allocating:>11.2?} {choosing:>11.2?} \
         {settling:>11.2?} {assigning:>11.2?} {alone:>11.2?} \
         {shared:>13.2?}   {}, {}",
        draws[0].len(),
        plan.gather.len() + plan.local.len() + plan.scatter.len(),
        plan.exchange.len()
    );
}

/// Replicas of stages of regions, pipelines outermost; experts' and dense gradients.
fn one_job(region: u32, stages: u32, replicas: u32) {
    let servers = region * stages * replicas;
    let at = |stage: u32, replica: u32, server: u32| (stage * replicas + replica) * region + server;
    let (mut mp, mut all_reduce) = (Vec::new(), Vec::new());
    for stage in 0..stages {
        for replica in 0..replicas {
            for a in 0..region {
                for b in (0..region).filter(|&b| b != a) {
                    let (a, b) = (at(stage, replica, a), at(stage, replica, b));
                    mp.push((a, b, 10_000 * noise(u64::from(a * servers + b))));
                }
                if stage + 1 < stages {
                    mp.push((at(stage, replica, a), at(stage + 1, replica, a), 1 << 31));
                }
            }
        }
        for server in 0..region {
            let servers = (0..replicas).map(|replica| at(stage, replica, server)).collect();
            all_reduce.push(AllReduceGroup { servers, bytes: 1 << 33 });
        }
        let servers = (0..replicas * region).map(|server| at(stage, 0, server)).collect();
        all_reduce.push(AllReduceGroup { servers, bytes: 1 << 32 });
    }
    let input = TopoOptInput { servers: servers as usize, degree: 8, all_reduce, mp };
    let start = Instant::now();
    let design = find(&input);
    println!(
        "{servers:7} {region:11} {stages:7} {:>11.2?} {:9} {:10}",
        start.elapsed(),
        design.circuits.len(),
        design.crossings
    );
    assert!(design.connected);
}
