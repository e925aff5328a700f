//! What each of the examples does.

use crate::balancer::away::{self, Away};
use crate::kinds::one_switch::{self, OneSwitch};
use crate::predict::trend::Trend;
use crate::rule::heaviest_first::HeaviestFirst;
use lightloom_circuits::predict::{Auto, Forecaster, Window, candidates};
use lightloom_circuits::{CircuitCounts, Rates, ServerDemand};
use lightloom_decide::{Rule, RuleInput};
use lightloom_fabric::{ClosSpec, FabricSpec, FatTree, Splitting, conformance::check};
use lightloom_packet::{Balancer, Choice, Heard, Next, PathChooser};
use lightloom_sim::{Beside, Run, Spec, TraceCounts, Work, Workload};
use lightloom_units::{BitRate, Time};
use lightloom_workload::Job;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Mixtral 8x7B with two layers, on 64 GPUs of two replicas at 400 Gbps.
fn spec() -> Spec {
    let text = include_str!("../../../../tests/golden/core-mixtral-8x7b-mixnet.json");
    let mut spec: Value = serde_json::from_str(text).expect("JSON");
    spec["model"]["layers"] = 2.into();
    spec["cluster"]["gpus"] = 64.into();
    spec["parallelism"] = json!({"tp": 4, "cp": 1, "ep": 8, "pp": 1, "dp": 2});
    spec["training"]["micro_batches"] = 2.into();
    Spec::from_json(&spec.to_string()).expect("the golden specification")
}

fn run(spec: &Spec, beside: Beside<'_>) -> Run {
    let counts: Vec<u32> = (0..4 * 2 * 8 * 8).map(|at: u32| 1 + at * at * 31 % 97).collect();
    let trace = TraceCounts { counts: &counts, shape: [4, 2, 8, 8] };
    let workload = Workload::new(spec, trace).expect("a workload");
    workload.run_beside(spec, beside, &mut |_| true).expect("a run")
}

#[test]
fn a_fabric() {
    check(&one_switch::KIND);
    let (rate, delay) = (BitRate::from_gbps(400), Time::from_us(1));
    let on = |fabric: FabricSpec| run(&Spec { fabric, ..spec() }, Beside::default()).iteration;
    let one = on(OneSwitch { link_bps: rate, link_delay_ps: delay }.into());
    let tree = on(FabricSpec::fat_tree(rate, delay));
    // The same rates, and fewer links on the way.
    assert!(one < tree && one.as_secs_f64() > 0.99 * tree.as_secs_f64(), "{one} against {tree}");
}

/// A balancer of its own for each sub-flow, as the engine keeps those of its list.
#[derive(Debug, Default)]
struct Each(Mutex<HashMap<u64, Away>>);

impl PathChooser for Each {
    fn path(&self, choice: &Choice<'_>) -> Result<i64, String> {
        let mut flows = self.0.lock().expect("no run panics");
        let paths = choice.queues.len() as u16;
        let away = flows.entry(choice.flow).or_insert_with(|| away(4, paths, choice.flow));
        choice.heard.iter().for_each(|&heard| away.acked(heard));
        let &Choice { turn, in_flight, now, .. } = choice;
        Ok(away.path(Next { turn, in_flight, now }).into())
    }
}

fn away(marks: u32, paths: u16, hash: u64) -> Away {
    Away::new(&serde_json::from_value(json!({"marks": marks})).expect("its keys"), paths, hash)
}

#[test]
fn a_balancer() {
    let keys = away::KIND.keys.iter().map(|key| key.name);
    assert_eq!(keys.collect::<Vec<_>>(), ["marks"]);
    let mut away = away(2, 64, 1);
    let mut heard = |path, marked| {
        away.acked(Heard { path, marked, round_trip: 1, now: 0 });
        away.path(Next { turn: 0, in_flight: 0, now: 0 })
    };
    let first = heard(64, false);
    // Marks in a row count, those of this path.
    assert!([true, false, true].iter().all(|&marked| heard(first, marked) == first));
    assert_eq!(heard(first + 1, true), first);
    let second = heard(first, true);
    assert!(second != first && first.max(second) < 64);

    // A small iteration of packets, which fluids that share all paths ideally surpass.
    let mut spec = spec();
    let Work::Training(training) = &mut spec.work else { panic!("the golden job") };
    let Job { model, training, .. } = &mut training.job;
    (model.hidden, model.expert_intermediate, model.vocabulary) = (512, 512, 1000);
    training.sequence_length = 512;
    (training.micro_batch, training.micro_batches) = (1, 1);
    let mut tree = ClosSpec::new(BitRate::from_gbps(400), Time::from_us(1));
    spec.fabric = FatTree(tree.clone()).into();
    let fluid = run(&spec, Beside::default()).iteration;
    tree.splitting = Splitting::Ecmp;
    spec.fabric = FatTree(tree).into();
    spec.engine = serde_json::from_value(json!({
        "kind": "packet", "mtu": 4096, "header": 64, "scale_up_mtu": 32768, "ack_every": 1, "train": 1,
        "dark": "hold", "sample_period": 0,
        "transport": {"kind": "spray", "window": null, "target_delay": null, "increase": 4.0,
            "decrease": 0.5, "least_window": 0.25, "retransmit_after": 4_000_000_000u64},
        "balancer": {"kind": "flowlets", "timeout": 50_000_000},
        "switch": {"queue": 655_360, "ecn_low": 131_072, "ecn_high": 524_288,
            "ecn_probability": 1.0, "overflow": {"kind": "trim"}},
    }))
    .expect("an engine");
    let balancer: Arc<dyn PathChooser> = Arc::new(Each::default());
    let packets = run(&spec, Beside { balancer: Some(&balancer), ..Beside::default() }).iteration;
    assert!(
        packets > fluid && packets.as_secs_f64() < 2.0 * fluid.as_secs_f64(),
        "{packets} {fluid}"
    );
}

/// The cases are those of the same decision in Python.
#[test]
fn a_decision() {
    let cases: Value = serde_json::from_str(include_str!("heaviest_first.json")).expect("JSON");
    for case in cases.as_array().expect("a list") {
        let rows = |key: &str| -> Vec<Vec<u64>> {
            serde_json::from_value(case[key].clone()).expect("rows of numbers")
        };
        let ports: Vec<u32> = serde_json::from_value(case["ports"].clone()).expect("numbers");
        let n = ports.len();
        let demand = ServerDemand { n, bytes: rows("demand").concat() };
        let input = RuleInput {
            demand: &demand,
            standing: &CircuitCounts::dark(n),
            ports: &ports,
            rates: &Rates { optical_bps: 1, packet_bps: 1, packet_nics: 1, share_eps: false },
            keep_going: true,
        };
        let circuits = HeaviestFirst.fit(&input).expect("circuits");
        let row = |a| (0..n).map(|b| u64::from(circuits.get(a, b))).collect();
        assert_eq!((0..n).map(row).collect::<Vec<Vec<u64>>>(), rows("circuits"), "{case}");
    }
    let rule: Arc<dyn Rule> = Arc::new(HeaviestFirst);
    let asked = run(&spec(), Beside { rule: Some(&rule), recorded: true, ..Beside::default() });
    assert!(!asked.kept.expect("it is kept").answered.rounds.is_empty());
}

/// What a layer's loads change by is always the same, so whoever goes on with the change is right.
#[test]
fn a_predictor() {
    let mut candidates = candidates();
    candidates.push(Box::new(Trend));
    let mut auto = Forecaster::new(Box::new(Auto::new(candidates)), 1, 2, Window::default());
    let load = |pass: u32| [100.0 - f64::from(pass), f64::from(pass)];
    for pass in 0..40 {
        let said = auto.predict(0);
        if pass > 20 {
            assert_eq!(said.by, "trend");
            // All the others are wrong by a hundredth at least.
            assert!((said.rows[0][1] - load(pass)[1] / 100.0).abs() < 0.01, "{said:?}");
        }
        auto.observe(0, &load(pass));
    }
}
