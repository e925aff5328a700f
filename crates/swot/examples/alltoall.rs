//! How near its bound a non-uniform all-to-all comes: `cargo run --release --example alltoall`.
//!
//! Prints, for demands of several kinds, completion over bound and CPU time of both ways to switch.

use lightloom_swot::Planes;
use lightloom_swot::alltoall::{Demand, bound, completion, matchings, ports};
use lightloom_units::{BitRate, Time};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Instant;

/// Rows that each sum to `per_node` bytes.
fn demand(kind: &str, n: usize, per_node: f64, rng: &mut ChaCha8Rng) -> Demand {
    let popularity: Vec<f64> = (0..n).map(|i| 1.0 / (1.0 + i as f64)).collect();
    let mut bytes = vec![0u64; n * n];
    for i in 0..n {
        let mut row: Vec<f64> = (0..n)
            .map(|j| match kind {
                "zipf" => popularity[j] * rng.random_range(0.5..1.5),
                "log-normal" => {
                    let normal = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
                    normal.exp()
                }
                "sparse" => f64::from(rng.random::<f64>() < 0.25) * rng.random_range(0.5..1.5),
                _ => 1.0,
            })
            .collect();
        row[i] = 0.0;
        let sum: f64 = row.iter().sum::<f64>().max(1e-9);
        for (j, share) in row.iter().enumerate() {
            bytes[i * n + j] = (share / sum * per_node) as u64;
        }
    }
    Demand::new(n as u32, bytes).expect("valid")
}

fn main() {
    println!(
        "{:12} {:>4} {:>2} {:>7} {:>12} {:>8} {:>7} {:>9} {:>7}",
        "demand", "n", "k", "t_r us", "bound us", "ports", "s", "matchings", "s"
    );
    for (n, k) in [(32, 4), (64, 4), (128, 8)] {
        for kind in ["uniform", "zipf", "log-normal", "sparse"] {
            for dark in [1, 20, 200] {
                let planes = Planes {
                    planes: k,
                    rate_bps: BitRate::from_bps(800_000_000_000 / u64::from(k)),
                    reconfiguration_ps: Time::from_us(dark),
                    latency_ps: Time::from_us(5),
                };
                let mut rng = ChaCha8Rng::seed_from_u64(11);
                let demand = demand(kind, n, 64e6, &mut rng);
                let least = bound(&planes, &demand).ps() as f64;
                let began = Instant::now();
                let single = completion(&ports(&planes, &demand)).ps() as f64 / least;
                let single_s = began.elapsed().as_secs_f64();
                let began = Instant::now();
                let whole = completion(&matchings(&planes, &demand)).ps() as f64 / least;
                let whole_s = began.elapsed().as_secs_f64();
                println!(
                    "{kind:12} {n:4} {k:2} {dark:7} {:12.1} {single:8.4} {single_s:7.3} {whole:9.4} {whole_s:7.3}",
                    least / 1e6
                );
            }
        }
    }
}
