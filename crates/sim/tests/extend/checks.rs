//! What each of the examples does.

use crate::balancer::away::{self, Away};
use crate::kinds::one_switch::{self, OneSwitch};
use crate::rule::heaviest_first::HeaviestFirst;
use lightloom_circuits::{CircuitCounts, Rates, ServerDemand};
use lightloom_decide::{Asked, Rule};
use lightloom_fabric::{FabricSpec, conformance::check};
use lightloom_packet::{Balancer, Heard, Next};
use lightloom_sim::{Beside, Run, Spec, TraceCounts, Workload};
use lightloom_units::{BitRate, Time};
use serde_json::{Value, json};
use std::sync::Arc;

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

/// The suite of the packet engine takes every balancer of the list; here, what each of them promises.
#[test]
fn a_balancer() {
    let settings = json!({"marks": 2});
    let kind = &away::KIND;
    assert!(kind.keys.iter().all(|key| settings.get(key.name).is_some()));
    let settings = serde_json::from_value(settings).expect("its keys");
    let mut away = Away::new(&settings, 64, 1);
    let next = Next { turn: 0, in_flight: 0, now: 0 };
    let mut heard = |path, marked| {
        away.acked(Heard { path, marked, round_trip: 1, now: 0 });
        away.path(next)
    };
    let first = heard(64, false);
    assert!(first < 64);
    // Marks in a row count, those of this path.
    assert!([true, false, true].iter().all(|&marked| heard(first, marked) == first));
    assert_eq!(heard(first + 1, true), first);
    let second = heard(first, true);
    assert!(second != first && second < 64);
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
        let asked = Asked {
            demand: &demand,
            standing: &CircuitCounts::dark(n),
            ports: &ports,
            rates: &Rates { optical_bps: 1, packet_bps: 1, packet_nics: 1, share_eps: false },
            keep_going: true,
        };
        let circuits = HeaviestFirst.fit(&asked).expect("circuits");
        let row = |a| (0..n).map(|b| u64::from(circuits.get(a, b))).collect();
        assert_eq!((0..n).map(row).collect::<Vec<Vec<u64>>>(), rows("circuits"), "{case}");
    }
    let rule: Arc<dyn Rule> = Arc::new(HeaviestFirst);
    let asked = run(&spec(), Beside { rule: Some(&rule), recorded: true, ..Beside::default() });
    assert!(!asked.kept.expect("it is kept").answered.rounds.is_empty());
}
