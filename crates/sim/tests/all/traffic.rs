//! What other traffic takes is measured, and decisions that follow it come to rest.

use lightloom_decide::Traffic;
use lightloom_sim::{Beside, Spec, TraceCounts, Work, Workload};

/// Mixtral 8x7B on 128 GPUs at 100 Gbps, two replicas of two stages, with the preset's hysteresis and a
/// switch of 1 ms.
fn spec() -> Spec {
    let text = include_str!("../../../../tests/golden/core-mixtral-8x7b-mixnet.json");
    let mut json: serde_json::Value = serde_json::from_str(text).expect("JSON");
    json["cluster"]["gpus"] = 128.into();
    json["parallelism"]["pp"] = 2.into();
    json["parallelism"]["dp"] = 2.into();
    json["training"]["micro_batches"] = 4.into();
    json["fabric"]["eps"]["link_bps"] = 100_000_000_000u64.into();
    json["fabric"]["ocs"]["link_bps"] = 100_000_000_000u64.into();
    json["fabric"]["ocs"]["delay"]["ps"] = 1_000_000_000u64.into();
    Spec::from_json(&json.to_string()).expect("the golden specification")
}

fn counts(shape: [usize; 4]) -> Vec<u32> {
    let count = |at: usize| 10 + (at * at * 31 % 997) as u32 * u32::from(at % 7 != 0);
    (0..shape.iter().product()).map(count).collect()
}

/// The share of the record's time and NICs that other traffic took, by region: busiest server.
fn shares(traffic: &[Vec<Vec<Traffic>>]) -> Vec<f64> {
    // Two NICs of 100 Gbps [B/ps].
    let capacity = 2.0 * 100e9 / 8e12;
    let busiest = |servers: &Vec<Vec<Traffic>>| {
        let share = |records: &Vec<Traffic>| {
            let last = records.last().expect("a record");
            let bytes: u64 = last
                .passes
                .iter()
                .map(|pass| pass.pp.out.max(pass.pp.into) + pass.dp.out.max(pass.dp.into))
                .sum();
            let under_way: u64 = last.passes.iter().map(|pass| pass.under_way.ps()).sum();
            bytes as f64 / (under_way as f64 * capacity)
        };
        servers.iter().map(share).fold(0.0, f64::max)
    };
    traffic.iter().map(busiest).collect()
}

#[test]
fn decisions_that_follow_what_is_measured_come_to_rest() {
    let spec = spec();
    let Work::Training(training) = &spec.work else { panic!("the golden job") };
    let model = &training.job.model;
    let shape = [16, model.layers as usize, 8, model.experts as usize];
    let counts = counts(shape);
    let workload =
        Workload::new(&spec, TraceCounts { counts: &counts, shape }).expect("a workload");
    let mut earlier: Vec<Vec<Vec<Traffic>>> = Vec::new();
    let (mut times, mut taken) = (Vec::new(), Vec::new());
    for iteration in 1..=9 {
        let beside = Beside { earlier: &earlier, ..Beside::default() };
        let run = workload.run_beside(&spec, beside, &mut |_| true).expect("a run");
        times.push(run.iteration.as_secs_f64());
        taken.push(shares(&run.traffic));
        for record in run.traffic.iter().flatten().flatten() {
            assert!(record.iteration <= iteration);
        }
        earlier = run.traffic;
        for records in earlier.iter_mut().flatten() {
            assert_eq!(records.last().map(|record| record.iteration), Some(iteration));
            if records.len() > 5 {
                records.remove(0);
            }
        }
    }
    // The task graph and the first measurements may differ; from then on every iteration is as long, and
    // what a region measures moves by less than a step of what decisions take from it.
    assert!(times[6..].iter().all(|&time| time == times[6]), "{times:?}");
    let near =
        |shares: &[f64]| shares.iter().zip(&taken[6]).all(|(a, b)| (a - b).abs() < 1.0 / 16.0);
    assert!(taken[6..].iter().all(|shares| near(shares)), "{taken:?}");
    assert!(taken[6].iter().all(|&share| share > 0.01 && share < 0.5), "{taken:?}");
    // Four micro-batches pass forward and backward; gradients are summed from the last pass on.
    let last = |records: &Vec<Traffic>| records.last().expect("a record").passes.clone();
    let passes: Vec<_> = earlier.iter().flatten().map(last).collect();
    assert!(passes.iter().all(|passes| passes.len() == 8));
    let sums = |pass: usize| passes.iter().map(|passes| passes[pass].dp.out).sum::<u64>();
    assert!((0..7).all(|pass| sums(pass) == 0) && sums(7) > 0);
}
