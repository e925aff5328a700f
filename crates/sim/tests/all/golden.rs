//! What the model says of one small job on every fabric, as a table: a change of the model shows as
//! a difference in `golden.txt`. After a change that is meant, copy the table that the failing test
//! prints.

use lightloom_sim::{Beside, Run, Spec, TraceCounts, Workload};
use std::fmt::Write;

/// 128 GPUs: two replicas of two stages, EP 8 x TP 4, so a block spans four servers of eight.
pub(super) const JOB: &str = r#"
 "seed": 7,
 "model": {"name": "small", "layers": 4, "dense_layers": 0, "hidden": 1024, "vocabulary": 8000,
   "attention": {"kind": "gqa", "heads": 16, "kv_heads": 4, "head_dim": 64},
   "experts": 8, "top_k": 2, "expert_intermediate": 2048, "shared_experts": 0,
   "shared_intermediate": 0, "dense_intermediate": 0},
 "parallelism": {"tp": 4, "cp": 1, "ep": 8, "dp": 2, "pp": 2},
 "training": {"sequence_length": 2048, "micro_batch": 2, "micro_batches": 4, "schedule": "1f1b",
   "virtual_stages": 1, "activation_bytes": 2, "gradient_bytes": 2, "dispatch_bytes": 2,
   "overlap_gradients": true},
 "compute": {"gpu": "H100", "peak_flops": 989000000000000,
   "memory_bandwidth_bytes_per_s": 3350000000000, "matmul_efficiency": 0.5,
   "memory_efficiency": 0.8, "optimizer_bytes_per_parameter": 28, "measured": []},
 "gating": {"redraw": "micro-batch"},
 "cluster": {"gpus": 128, "gpus_per_server": 8, "nics_per_server": 8, "numa_nodes": 2,
   "scale_up_bps": 3600000000000, "scale_up_delay_ps": 500000},
 "record": {"replicas": 1}"#;

pub(super) const FLOW: &str = r#"{"kind": "flow", "tolerance": 0.0}"#;

const CLOS: &str = r#""link_bps": 100000000000, "link_delay_ps": 1000000, "tiers": 3,
   "radix": null, "splitting": "ideal""#;

pub(super) fn mixnet(first: &str, share_eps: bool) -> String {
    format!(
        r#"{{"kind": "mixnet", "optical_nics": 6, "eps": {{{CLOS}, "oversubscription": 1.0}},
   "ocs": {{"link_bps": 100000000000, "link_delay_ps": 1000000, "device": "fast", "ports": 64,
     "delay": {{"kind": "fixed", "ps": 100000000}}}},
   "reconfigure": {{"first_forward": "{first}", "second_forward": "hide", "backward": "hide"}},
   "decision": "algorithm-1", "hysteresis": false, "greedy_continue": true, "share_eps": {share_eps}}}"#
    )
}

/// Eight planes, one for each NIC.
fn planes(dark_ps: u64) -> String {
    format!(
        r#"{{"kind": "planes", "ocs": {{"link_bps": 100000000000, "link_delay_ps": 1000000,
   "device": "fast", "ports": 16, "delay": {{"kind": "fixed", "ps": {dark_ps}}}}}}}"#
    )
}

pub(super) fn clos(kind: &str, ratio: &str) -> String {
    format!(r#"{{"kind": "{kind}", {CLOS}, "oversubscription": {ratio}}}"#)
}

fn fabrics() -> Vec<(&'static str, String)> {
    let ecmp = clos("fat-tree", "1.0").replace("ideal", "ecmp");
    let panel = r#"{"kind": "topoopt", "link_bps": 100000000000, "link_delay_ps": 1000000,
        "degree": 8, "panel": "flat", "panel_ports": 1008}"#;
    vec![
        ("fat-tree", clos("fat-tree", "1.0")),
        ("fat-tree ecmp", ecmp),
        ("fat-tree 3:1", clos("fat-tree", "3.0")),
        ("rail-optimized", clos("rail-optimized", "1.0")),
        ("topoopt", panel.into()),
        ("mixnet block", mixnet("block", false)),
        ("mixnet reuse", mixnet("reuse", false)),
        ("mixnet hide", mixnet("hide", false)),
        ("mixnet hide shared", mixnet("hide", true)),
        ("planes at once", planes(0)),
        ("planes 10 us", planes(10_000_000)),
        ("planes 200 us", planes(200_000_000)),
    ]
}

/// Skewed counts, different at every iteration and layer.
fn counts() -> Vec<u32> {
    let mut counts = Vec::new();
    for at in 0..5 * 4 * 8u32 {
        for expert in 0..8u32 {
            counts.push(1 + (at * 37 + expert * 101) % 97 * ((at + expert) % 5 + 1));
        }
    }
    counts
}

fn text(fabric: &str) -> String {
    format!(r#"{{{JOB}, "engine": {FLOW}, "fabric": {fabric}}}"#)
}

/// Three replicas, which go by themselves until they sum gradients where nothing but servers' links binds.
#[test]
fn threads_change_nothing() {
    let job = JOB.replace("\"dp\": 2", "\"dp\": 3").replace("\"gpus\": 128", "\"gpus\": 192");
    let counts = counts();
    let trace = TraceCounts { counts: &counts, shape: [5, 4, 8, 8] };
    for (name, fabric) in fabrics() {
        let fabric = fabric.replace("\"ports\": 16", "\"ports\": 24");
        let text = format!(r#"{{{job}, "engine": {FLOW}, "fabric": {fabric}}}"#);
        let spec = Spec::from_json(&text).expect("a valid spec");
        let workload = Workload::new(&spec, trace).expect("a valid workload");
        let run = |threads| {
            let beside = Beside { threads, ..Beside::default() };
            let run = workload.run_beside(&spec, beside, &mut |_| true);
            format!("{:?}", run.expect("the run finishes"))
        };
        let alone = run(1);
        for threads in [2, 3, 5] {
            assert!(run(threads) == alone, "{name} on {threads} threads");
        }
    }
}

fn run(fabric: &str) -> Run {
    let spec = Spec::from_json(&text(fabric)).expect("a valid spec");
    let counts = counts();
    let trace = TraceCounts { counts: &counts, shape: [5, 4, 8, 8] };
    let workload = Workload::new(&spec, trace).expect("a valid workload");
    workload.run(&spec, &mut |_| true).expect("the run finishes")
}

#[test]
fn every_fabric_as_it_was() {
    let mut table = format!(
        "{:<20}{:>13}{:>13}{:>13}{:>13}{:>13}{:>9}{:>9}\n",
        "fabric [us]", "iteration", "compute", "all-to-all", "other", "dark", "flows", "changes"
    );
    for (name, fabric) in fabrics() {
        let run = run(&fabric);
        let split = run.breakdown;
        let us = |time: lightloom_units::Time| time.ps() as f64 / 1e6;
        let figure = |name: &str| {
            run.figures.iter().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, v)| *v)
        };
        writeln!(
            table,
            "{name:<20}{:>13.3}{:>13.3}{:>13.3}{:>13.3}{:>13.3}{:>9}{:>9}",
            us(run.iteration),
            us(split.compute),
            us(split.all_to_all),
            us(split.other),
            us(split.reconfiguration),
            figure("flows"),
            figure("reconfigurations"),
        )
        .expect("a string takes everything");
        let parts = split.compute + split.all_to_all + split.other + split.reconfiguration;
        assert_eq!(parts, run.iteration, "{name}");
    }
    assert_eq!(table, include_str!("golden.txt"), "the table is now:\n{table}");
}

/// Planes that change at once are a network without a bottleneck, and share the load of a server's
/// GPUs over its NICs as rails do.
#[test]
fn planes_that_change_at_once_are_like_a_fabric_without_a_bottleneck() {
    let iteration = |fabric: &str| run(fabric).iteration.ps() as f64;
    let rails = iteration(&fabrics()[3].1);
    let at_once = iteration(&planes(0));
    assert!((0.85..1.05).contains(&(at_once / rails)), "{}", at_once / rails);
    assert!(iteration(&planes(10_000_000)) > at_once);
}

#[test]
fn another_workload_is_refused_and_progress_can_stop_a_run() {
    let text = text(&fabrics()[0].1);
    let spec = Spec::from_json(&text).expect("a valid spec");
    let counts = counts();
    let trace = TraceCounts { counts: &counts, shape: [5, 4, 8, 8] };
    let workload = Workload::new(&spec, trace).expect("a valid workload");
    let other = Spec::from_json(&text.replace("\"seed\": 7", "\"seed\": 8")).expect("a valid spec");
    let error = workload.run(&other, &mut |_| true).expect_err("another seed");
    assert!(error.to_string().contains("another workload"), "{error}");
    let misfit =
        Spec::from_json(&text.replace("\"gpus\": 128", "\"gpus\": 64")).expect("valid JSON");
    let error = workload.run(&misfit, &mut |_| true).expect_err("too few GPUs");
    assert!(error.to_string().contains("cluster.gpus = 64"), "{error}");
    let error = Spec::from_json(&text.replace("\"seed\"", "\"sead\"")).expect_err("unknown key");
    assert!(error.contains("sead"), "{error}");
}
