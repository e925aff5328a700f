//! One small job, nearly all communication, on both engines: the packet engine takes longer by headers
//! and acknowledgements (3 % of the bytes) and by what its transport does not use, 10 % in all at most,
//! and is never faster. 64 GPUs fill their switches evenly: where switches are filled unevenly a
//! physical fat-tree is not what the fluid of the flow engine sees.

use lightloom_sim::{Spec, TraceCounts, Workload};

const JOB: &str = r#"
 "seed": 7,
 "model": {"name": "small", "layers": 1, "dense_layers": 0, "hidden": 1024, "vocabulary": 8000,
   "attention": {"kind": "gqa", "heads": 16, "kv_heads": 4, "head_dim": 64},
   "experts": 8, "top_k": 2, "expert_intermediate": 2048, "shared_experts": 0,
   "shared_intermediate": 0, "dense_intermediate": 0},
 "parallelism": {"tp": 4, "cp": 1, "ep": 8, "dp": 2, "pp": 1},
 "training": {"sequence_length": 4096, "micro_batch": 3, "micro_batches": 1, "schedule": "1f1b",
   "virtual_stages": 1, "activation_bytes": 2, "gradient_bytes": 2, "dispatch_bytes": 2,
   "overlap_gradients": true},
 "compute": {"gpu": "H100", "peak_flops": 989000000000000,
   "memory_bandwidth_bytes_per_s": 3350000000000, "matmul_efficiency": 0.5,
   "memory_efficiency": 0.8, "optimizer_bytes_per_parameter": 28, "measured": []},
 "gating": {"redraw": "micro-batch"},
 "cluster": {"gpus": 64, "gpus_per_server": 8, "nics_per_server": 8, "numa_nodes": 2,
   "scale_up_bps": 3600000000000, "scale_up_delay_ps": 500000},
 "record": {"replicas": 1}"#;

const CLOS: &str = r#""link_bps": 100000000000, "link_delay_ps": 1000000, "tiers": 3,
   "radix": null, "splitting": "SPLITTING", "oversubscription": 1.0"#;

const PACKETS: &str = r#"{"kind": "packet", "mtu": 4096, "header": 64, "scale_up_mtu": 32768,
   "ack_every": 1, "dark": "hold", "sample_period": 0,
   "transport": {"kind": "spray", "window": null, "target_delay": null, "increase": 4.0,
     "decrease": 0.5, "least_window": 0.25, "retransmit_after": 4000000000},
   "balancer": {"kind": "round-robin"},
   "switch": {"queue": 655360, "ecn_low": 131072, "ecn_high": 524288, "ecn_probability": 1.0,
     "overflow": {"kind": "trim"}}}"#;

fn iteration(fabric: &str, engine: &str, splitting: &str) -> f64 {
    let fabric = fabric.replace("SPLITTING", splitting);
    let text = format!(r#"{{{JOB}, "fabric": {fabric}, "engine": {engine}}}"#);
    let spec = Spec::from_json(&text).expect("a valid spec");
    // Counts that differ by rank and expert.
    let counts: Vec<u32> = (0..2 * 64).map(|at: u32| 50 + at * 37 % 41).collect();
    let trace = TraceCounts { counts: &counts, shape: [2, 1, 8, 8] };
    let workload = Workload::new(&spec, trace).expect("a valid workload");
    let mut last = 0.0;
    let run = workload.run(&spec, &mut |share| {
        assert!((last..1.0).contains(&share), "{share} after {last}");
        last = share;
        true
    });
    let run = run.expect("the run finishes");
    let parts = run.breakdown;
    let sum = parts.compute + parts.all_to_all + parts.other + parts.reconfiguration;
    assert_eq!(sum, run.iteration);
    run.iteration.as_secs_f64()
}

#[test]
fn packets_agree_with_flows() {
    let mixnet = format!(
        r#"{{"kind": "mixnet", "optical_nics": 6, "eps": {{{CLOS}}},
   "ocs": {{"link_bps": 100000000000, "link_delay_ps": 1000000, "device": "fast", "ports": 64,
     "delay": {{"kind": "fixed", "ps": 100000000}}}},
   "reconfigure": {{"first_forward": "block", "second_forward": "hide", "backward": "hide"}},
   "decision": "algorithm-1", "hysteresis": false, "greedy_continue": true, "share_eps": false}}"#
    );
    let flow = r#"{"kind": "flow", "tolerance": 0.0}"#;
    for (name, fabric) in [
        ("fat-tree", format!(r#"{{"kind": "fat-tree", {CLOS}}}"#)),
        ("rail-optimized", format!(r#"{{"kind": "rail-optimized", {CLOS}}}"#)),
        ("mixnet", mixnet),
    ] {
        let flows = iteration(&fabric, flow, "ideal");
        let ratio = iteration(&fabric, PACKETS, "ecmp") / flows;
        assert!((1.0..1.1).contains(&ratio), "{name}: {ratio:.4} of the flow engine's time");
    }
}
