//! Prints what MixNet's decisions cost, a line of JSON each: circuits for a demand, and a predictor's
//! fit. Loads and demands are noise around even ones, drawn anew for each decision.
//!
//! `cargo run --release -p lightloom-circuits --example circuits`; with `-- fit 64` twenty fits of 64
//! experts alone, and a digest of their bits.

use lightloom_circuits::predict::{Sample, Transition};
use lightloom_circuits::{CircuitCounts, Rates, ServerDemand, all_to_all_time, allocate, choose};
use std::time::{Duration, Instant};

const BPS: u64 = 400_000_000_000;
const RATES: Rates = Rates { optical_bps: BPS, packet_bps: BPS, packet_nics: 2, share_eps: false };
const NICS: u32 = 6;
const WINDOW: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [fit, experts] = arguments.as_slice() {
        let experts = experts.parse().ok().filter(|_| fit == "fit");
        return digest(experts.expect("fit, and how many experts"));
    }
    for servers in [8, 16, 32, 64] {
        circuits(servers);
    }
    for experts in [8, 16, 32, 64] {
        fit(experts);
    }
}

/// Between 0 and 1, the same each time.
fn noise(seed: u64) -> f64 {
    let mixed = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed >> 40) as f64 / (1u64 << 24) as f64
}

/// The mean of many decisions, and the longest of them.
fn timed<T>(mut decide: impl FnMut(usize) -> T) -> (f64, f64) {
    let (start, mut runs, mut longest) = (Instant::now(), 0, Duration::ZERO);
    while runs < 20 || start.elapsed() < Duration::from_millis(300) {
        let began = Instant::now();
        std::hint::black_box(decide(runs));
        longest = longest.max(began.elapsed());
        runs += 1;
    }
    (start.elapsed().as_secs_f64() * 1e6 / runs as f64, longest.as_secs_f64() * 1e6)
}

/// Demands that follow each other: circuits for one stand when the next comes.
fn circuits(n: usize) {
    let ports = vec![NICS; n];
    let demands: Vec<ServerDemand> = (0..8)
        .map(|draw| ServerDemand {
            n,
            bytes: (0..n * n)
                .map(|at| 1_000_000 + (noise(draw << 32 | at as u64) * 2e8) as u64)
                .collect(),
        })
        .collect();
    let printed: Vec<CircuitCounts> =
        demands.iter().map(|demand| allocate(demand, &ports, true)).collect();
    let (algorithm_1_us, _) = timed(|run| allocate(&demands[run % 8], &ports, true));
    let decide = |run: usize| choose(&demands[run % 8], &printed[(run + 7) % 8], &ports, &RATES);
    let (timed_us, longest_us) = timed(decide);
    let time = |counts: &CircuitCounts, at: usize| {
        all_to_all_time(&demands[at], counts, &RATES).as_secs_f64()
    };
    let before: f64 = (0..8).map(|at| time(&printed[at], at)).sum();
    let after: f64 = (0..8).map(|at| time(&decide(at), at)).sum();
    println!(
        "{{\"servers\": {n}, \"nics\": {NICS}, \"algorithm_1_us\": {algorithm_1_us:.2}, \
         \"timed_us\": {timed_us:.2}, \"timed_longest_us\": {longest_us:.2}, \
         \"timed_over_algorithm_1\": {:.3}}}",
        after / before
    );
}

/// Loads of two layers, iteration by iteration.
fn pairs(experts: usize) -> Vec<(Vec<f64>, Vec<f64>)> {
    let load = |seed: u64| -> Vec<f64> {
        let raw: Vec<f64> =
            (0..experts as u64).map(|at| 0.9 + 0.2 * noise(seed << 32 | at)).collect();
        let sum: f64 = raw.iter().sum();
        raw.iter().map(|value| value / sum).collect()
    };
    (0..40).map(|t| (load(2 * t), load(2 * t + 1))).collect()
}

/// The fit of a window that begins with one of them.
fn fitted(experts: usize, pairs: &[(Vec<f64>, Vec<f64>)], first: usize) -> Transition {
    let window = pairs[first % (pairs.len() - WINDOW)..][..WINDOW].iter().zip(0i32..);
    let weight = |t| 0.9f64.powi(WINDOW as i32 - 1 - t);
    let samples: Vec<Sample<'_>> =
        window.map(|((before, after), t)| Sample { before, after, weight: weight(t) }).collect();
    Transition::fit(experts, &samples, 1e-6)
}

/// Twenty fits, and FNV-1a of their matrices.
fn digest(experts: usize) {
    let (pairs, mut hash) = (pairs(experts), 0xcbf2_9ce4_8422_2325_u64);
    let mut steps = 0;
    for first in 0..20 {
        let fitted = fitted(experts, &pairs, first);
        steps += fitted.steps;
        for at in 0..experts * experts {
            let bits = fitted.get(at / experts, at % experts).to_bits();
            hash = (hash ^ bits).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!(
        "{{\"experts\": {experts}, \"fits\": 20, \"steps\": {steps}, \"digest\": \"{hash:016x}\"}}"
    );
}

fn fit(experts: usize) {
    let pairs = pairs(experts);
    let (mut steps, mut fits, mut gap) = (0, 0, 0.0f64);
    let (fit_us, longest_us) = timed(|run| {
        let fitted = fitted(experts, &pairs, run);
        gap = gap.max(fitted.gap / fitted.constant_objective);
        (steps, fits) = (steps + fitted.steps, fits + 1);
    });
    println!(
        "{{\"experts\": {experts}, \"window\": {WINDOW}, \"fit_ms\": {:.3}, \
         \"longest_ms\": {:.3}, \"steps\": {:.1}, \"gap\": {gap:.1e}}}",
        fit_us / 1e3,
        longest_us / 1e3,
        f64::from(steps) / f64::from(fits)
    );
}
