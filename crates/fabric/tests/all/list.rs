//! Kinds of fabrics as specifications ask for them.

use lightloom_fabric::conformance::check;
use lightloom_fabric::{
    FABRICS, FabricSpec, GraphLink, MixNetSpec, ReconfigurationDelay, ReconfigurePolicy,
};
use lightloom_units::BitRate;
use serde_json::json;
use std::collections::HashSet;

#[test]
fn every_kind_has_a_name_of_its_own_and_holds() {
    let names: HashSet<&str> = FABRICS.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), FABRICS.len());
    FABRICS.iter().for_each(|kind| check(kind));
}

#[test]
fn a_kind_that_is_not_in_the_list_is_refused() {
    let message = |asked| serde_json::from_value::<FabricSpec>(asked).expect_err("bad").to_string();
    let unknown = message(json!({"kind": "loom"}));
    assert!(unknown.starts_with(r#"fabric.kind = "loom": allowed: fat-tree, leaf"#), "{unknown}");
    assert_eq!(message(json!({})), "missing field `kind`");
}

#[test]
fn the_mixnet_table_as_python_writes_it() {
    let text = r#"{"kind": "mixnet", "optical_nics": 6,
        "eps": {"link_bps": 100000000000, "link_delay_ps": 1000000, "tiers": 3,
                "oversubscription": 1.0, "radix": null, "splitting": "ideal"},
        "ocs": {"link_bps": 400000000000, "link_delay_ps": 1000000, "device": "polatis",
                "ports": 576, "delay": {"kind": "lognormal", "pairs": [1, 4],
                "mean_ps": [41440000000, 42440000000], "p99_ps": [60000000000, 62000000000]}},
        "reconfigure": {"first_forward": "block", "second_forward": "hide",
                        "backward": "reuse"},
        "decision": "algorithm-1", "hysteresis": false,
         "greedy_continue": true, "share_eps": false}"#;
    let spec: FabricSpec = serde_json::from_str(text).expect("valid");
    let spec: &MixNetSpec = spec.keys().expect("of the kind asked for");
    assert_eq!(spec.eps.link_bps, BitRate::from_gbps(100));
    assert_eq!(spec.reconfigure.backward, ReconfigurePolicy::Reuse);
    let ReconfigurationDelay::Lognormal { pairs, .. } = &spec.ocs.delay else {
        panic!("another delay");
    };
    assert_eq!(pairs, &[1, 4]);
}

#[test]
fn a_graph_link_has_one_lane_unless_told() {
    let text = r#"{"a": "x", "b": "y", "rate_bps": 1, "delay_ps": 2}"#;
    assert_eq!(serde_json::from_str::<GraphLink>(text).expect("valid").lanes, 1);
}
