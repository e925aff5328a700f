//! One small job, nearly all communication, on both engines: the packet engine takes longer by headers
//! and acknowledgements (3 % of the bytes) and by what its transport does not use, 10 % in all at most,
//! and is never faster. 64 GPUs fill their switches evenly: where switches are filled unevenly a
//! physical fat-tree is not what the fluid of the flow engine sees.

use super::golden::{FLOW, JOB, clos, mixnet};
use lightloom_sim::{Spec, TraceCounts, Workload};

/// Of the golden tables' job: one layer, one stage, one micro-batch, more tokens.
fn job() -> String {
    let changes = [
        ("\"layers\": 4", "\"layers\": 1"),
        ("\"pp\": 2", "\"pp\": 1"),
        ("\"sequence_length\": 2048", "\"sequence_length\": 4096"),
        ("\"micro_batch\": 2", "\"micro_batch\": 3"),
        ("\"micro_batches\": 4", "\"micro_batches\": 1"),
        ("\"gpus\": 128", "\"gpus\": 64"),
    ];
    changes.iter().fold(JOB.into(), |job: String, (from, to)| job.replace(from, to))
}

pub(super) const PACKETS: &str = r#"{"kind": "packet", "mtu": 4096, "header": 64, "scale_up_mtu": 32768,
   "ack_every": 1, "train": 1, "dark": "hold", "sample_period": 0,
   "transport": {"kind": "spray", "window": null, "target_delay": null, "increase": 4.0,
     "decrease": 0.5, "least_window": 0.25, "retransmit_after": 4000000000},
   "balancer": {"kind": "round-robin"},
   "switch": {"queue": 655360, "ecn_low": 131072, "ecn_high": 524288, "ecn_probability": 1.0,
     "overflow": {"kind": "trim"}}}"#;

fn iteration(fabric: &str, engine: &str, splitting: &str) -> f64 {
    let (job, fabric) = (job(), fabric.replace("ideal", splitting));
    let text = format!(r#"{{{job}, "fabric": {fabric}, "engine": {engine}}}"#);
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
    for (name, fabric) in [
        ("fat-tree", clos("fat-tree", "1.0")),
        ("rail-optimized", clos("rail-optimized", "1.0")),
        ("mixnet", mixnet("block", false)),
    ] {
        let flows = iteration(&fabric, FLOW, "ideal");
        let ratio = iteration(&fabric, PACKETS, "ecmp") / flows;
        assert!((1.0..1.1).contains(&ratio), "{name}: {ratio:.4} of the flow engine's time");
    }
}
