//! All-to-alls on the flow engine, where closed forms are exact.

use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const CHUNK: u64 = 32 << 10;

fn spec(domains: u32, gpus: u32, scheme: &str) -> RailsSpec {
    let scheme = match scheme {
        "rails" => r#"{"kind": "rails", "chunk": 32768, "queue_pairs": 64, "deal": "lpt"}"#.into(),
        "reps" => r#"{"kind": "reps", "paths": 64}"#.into(),
        kind => format!(r#"{{"kind": "{kind}"}}"#),
    };
    RailsSpec::from_json(&format!(
        r#"{{"seed": 3, "domains": {domains}, "gpus_per_domain": {gpus},
        "link_bps": 400000000000, "link_delay_ps": 500000, "scale_up_bps": 3600000000000,
        "scale_up_delay_ps": 200000, "engine": {{"kind": "flow", "tolerance": 0.0}},
        "scheme": {scheme}}}"#
    ))
    .expect("a spec of the right shape")
}

fn one(spec: &RailsSpec, demand: &[u64]) -> Collective {
    rails(spec, demand, &mut |_| true).expect("it runs").collectives.remove(0)
}

/// Bytes from each GPU to each, by a rule.
fn matrix(gpus: u32, bytes: impl Fn(u32, u32) -> u64) -> Vec<u64> {
    (0..gpus * gpus).map(|at| bytes(at / gpus, at % gpus)).collect()
}

/// Half of each domain's GPUs receive: landing on all rails is twice as fast as on own NICs.
#[test]
fn rails_gain_what_sparsity_allows() {
    let (domains, gpus) = (4, 4);
    let demand = matrix(16, |i, j| if j % 4 < 2 && i / 4 != j / 4 { 4 * MIB } else { 0 });
    let rails = one(&spec(domains, gpus, "rails"), &demand);
    let ecmp = one(&spec(domains, gpus, "ecmp"), &demand);
    let ratio = rails.bus_bandwidth_bps / ecmp.bus_bandwidth_bps;
    // Above 2 is what ECMP loses where hashes meet on a spine; chunks and delays cost a little.
    assert!(ratio > 1.9, "{ratio}");
    assert_eq!(rails.inter_domain_bytes, ecmp.inter_domain_bytes);
    assert!(rails.sender_mse < 1e-6 && rails.receiver_mse < 1e-3, "{rails:?}");
    assert!((ecmp.receiver_mse - 0.25).abs() < 1e-12, "half have all");
}

/// Uniform: each NIC carries its share over the leaf; time is share over rate, two links, and the last
/// chunk forwarded. (The rail's own GPU keeps it busy while the first ones are.)
#[test]
fn a_uniform_all_to_all_takes_its_closed_form() {
    let demand = matrix(8, |i, j| if i / 2 == j / 2 { 0 } else { 4 * CHUNK });
    let spec = spec(4, 2, "rails");
    let got = one(&spec, &demand);
    let share = Bytes::new(6 * 4 * CHUNK);
    let chunk = spec.scale_up_bps.time_for(Bytes::new(CHUNK)) + spec.scale_up_delay_ps * 2;
    let ideal = spec.link_bps.time_for(share) + spec.link_delay_ps * 2 + chunk;
    assert!(got.completion.abs_diff(ideal) < Time::from_ps(100), "{} {ideal}", got.completion);
    assert!(got.sent.iter().chain(&got.received).all(|&load| load == share.get()));
    assert_eq!((got.sender_mse, got.receiver_mse), (0.0, 0.0));
    assert_eq!(got.pairs[4], got.completion);
}

trait AbsDiff {
    fn abs_diff(self, other: Self) -> Time;
}
impl AbsDiff for Time {
    fn abs_diff(self, other: Time) -> Time {
        Time::from_ps(self.ps().abs_diff(other.ps()))
    }
}

/// What stays inside a domain takes no NIC and is no bus bandwidth.
#[test]
fn bytes_inside_a_domain_are_carried_there() {
    let demand = matrix(4, |i, j| if i / 2 == j / 2 { MIB } else { 0 });
    let spec = spec(2, 2, "rails");
    let got = one(&spec, &demand);
    assert_eq!((got.inter_domain_bytes, got.bus_bandwidth_bps), (0, 0.0));
    assert_eq!(got.pairs, [Time::ZERO; 5]);
    let ideal = spec.scale_up_bps.time_for(Bytes::new(MIB)) + spec.scale_up_delay_ps * 2;
    assert!(got.completion.abs_diff(ideal) < Time::from_ps(10));
}

fn packets(spec: RailsSpec) -> RailsSpec {
    let engine = r#"{"kind": "packet", "mtu": 4096, "header": 64, "scale_up_mtu": 32768,
        "ack_every": 1, "train": 1, "dark": "hold", "sample_period": 0, "balancer": {"kind": "ecmp"},
        "transport": {"kind": "spray", "window": null, "target_delay": null, "increase": 4.0,
            "decrease": 0.5, "least_window": 0.25, "retransmit_after": 4000000000},
        "switch": {"queue": 262144, "ecn_low": 25000, "ecn_high": 100000, "ecn_probability": 1.0,
            "overflow": {"kind": "trim"}}}"#;
    RailsSpec { engine: serde_json::from_str(engine).expect("a packet engine"), ..spec }
}

/// Half of the GPUs receive, packet by packet: all of it arrives, all NICs send under schemes that
/// spread, and the order is the one that NIC loads make.
#[test]
fn packets_arrive_under_every_scheme() {
    let demand = matrix(64, |i, j| if j % 4 < 2 && i / 4 != j / 4 { 32 << 10 } else { 0 });
    let total: u64 = demand.iter().sum();
    let run = |scheme| {
        let run = rails(&packets(spec(16, 4, scheme)), &demand, &mut |_| true).expect(scheme);
        let counts = run.packets.expect("counted");
        let resent = counts.iter().find(|count| count.0 == "resent").expect("named").1;
        let one = run.collectives.into_iter().next().expect("one all-to-all");
        assert_eq!(one.inter_domain_bytes, total);
        let sent: u64 = one.sent.iter().sum();
        assert!(sent >= total && sent <= total + resent * 4096, "{scheme}: {sent} of {total}");
        one
    };
    let [rails, reps, min_rtt, ecmp] = ["rails", "reps", "min-rtt", "ecmp"].map(run);
    for spread in [&rails, &reps, &min_rtt] {
        assert!(spread.sender_mse < 0.01, "{}", spread.sender_mse);
    }
    for other in [&reps, &min_rtt, &ecmp] {
        assert!(rails.bus_bandwidth_bps > 1.5 * other.bus_bandwidth_bps);
    }
}

#[test]
fn what_cannot_be_run_is_named() {
    let error = |spec: &RailsSpec, demand: &[u64]| match rails(spec, demand, &mut |_| true) {
        Err(SimError::Input(message)) => message,
        other => panic!("{other:?}"),
    };
    let good = spec(2, 2, "rails");
    assert!(error(&good, &[0; 15]).contains("15 entries"));
    assert!(error(&good, &[u64::MAX; 16]).contains("more than 2^63"));
    let few = RailsSpec { domains: 1, ..good.clone() };
    assert!(error(&few, &[0; 4]).contains("domains = 1"));
    let tiny = r#"{"kind": "rails", "chunk": 1, "queue_pairs": 1, "deal": "lpt"}"#;
    let tiny = RailsSpec { scheme: serde_json::from_str(tiny).expect("rails"), ..good.clone() };
    assert!(error(&tiny, &matrix(4, |_, _| 1 << 40)).contains("chunk = 1 bytes"));
    let stopped = rails(&good, &matrix(4, |_, _| MIB), &mut |_| false);
    assert!(matches!(stopped, Err(SimError::Run(EngineError::Interrupted))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Bytes are conserved under every scheme; RailS's senders are within a chunk of the best there
    /// is; and none is faster than its own most loaded NIC.
    #[test]
    fn loads_are_what_they_should_be(
        bytes in prop::collection::vec(prop_oneof![Just(0), 0u64..4 * MIB], 144),
        scheme in prop::sample::select(vec!["rails", "reps", "min-rtt", "ecmp"]),
    ) {
        let spec = spec(3, 4, scheme);
        let got = one(&spec, &bytes);
        let across = |at: &usize| at / 12 / 4 != at % 12 / 4;
        let total: u64 = (0..144).filter(across).map(|at| bytes[at]).sum();
        prop_assert_eq!(got.inter_domain_bytes, total);
        prop_assert_eq!(got.received.iter().sum::<u64>(), total);
        let sent: u64 = got.sent.iter().sum();
        prop_assert!(sent.abs_diff(total) <= 144 * 4, "{} of {}", sent, total);
        if scheme == "rails" {
            for domain in 0..3 {
                let row: u64 =
                    (0..144).filter(across).filter(|at| at / 48 == domain).map(|at| bytes[at]).sum();
                let most = got.sent[domain * 4..][..4].iter().max().copied().unwrap_or(0);
                prop_assert!(most <= row / 4 + CHUNK);
            }
        }
        let most = got.sent.iter().chain(&got.received).max().copied().unwrap_or(0);
        let least = spec.link_bps.time_for(Bytes::new(most)).ps();
        prop_assert!(got.completion.ps() as f64 >= least as f64 * (1.0 - 1e-6));
        prop_assert!(got.pairs[1..].is_sorted());
    }
}

const GBPS: u64 = 1_000_000_000;

/// Half the rate at one NIC: by equal loads everything waits for it; by what it gave, its rail takes what it
/// can, and the domain's time is that of 3.5 NICs in place of 4.
#[test]
fn rails_that_are_slow_take_less_once_they_were_heard_of() {
    let demand = matrix(16, |i, j| if i / 4 == j / 4 { 0 } else { 16 * CHUNK });
    let rounds = demand.repeat(6);
    let mut spec = spec(4, 4, "rails");
    let base = one(&spec, &demand).completion.as_secs_f64();
    spec.nic_bps.insert(5, BitRate::from_bps(200 * GBPS));
    let times = |spec: &RailsSpec| -> Vec<f64> {
        let run = rails(spec, &rounds, &mut |_| true).expect("it runs");
        run.collectives.iter().map(|one| one.completion.as_secs_f64() / base).collect()
    };
    let blind = times(&spec);
    assert!(blind.iter().all(|&time| time > 1.9), "{blind:?}");
    spec.feedback = true;
    let heard = times(&spec);
    assert_eq!(heard[0], blind[0]);
    assert!(heard[1..].iter().all(|&time| time < 1.1 * 4.0 / 3.5), "{heard:?}");
}

/// With rails that are alike feedback changes nothing, whatever the demand.
#[test]
fn feedback_does_no_harm_where_rails_are_alike() {
    let gates = [3u64, 7, 11, 23];
    let demand: Vec<u64> = gates
        .iter()
        .flat_map(|&k| {
            let bytes = move |i: u32, j: u32| (u64::from(i) * k + u64::from(j) * 5) % 9 * CHUNK / 2;
            matrix(12, move |i, j| if i / 3 == j / 3 { 0 } else { bytes(i, j) })
        })
        .collect();
    let mut spec = spec(4, 3, "rails");
    let blind = rails(&spec, &demand, &mut |_| true).expect("it runs");
    spec.feedback = true;
    let heard = rails(&spec, &demand, &mut |_| true).expect("it runs");
    for (blind, heard) in blind.collectives.iter().zip(&heard.collectives) {
        let ratio = heard.completion.as_secs_f64() / blind.completion.as_secs_f64();
        assert!(ratio < 1.02, "{ratio}");
    }
}

/// A NIC that is down carries nothing, and the rest of its domain all, on every fabric.
#[test]
fn nics_that_are_down_carry_nothing() {
    let demand = matrix(16, |i, j| if i / 4 == j / 4 { 0 } else { 16 * CHUNK });
    for scheme in ["rails", "ecmp", "reps"] {
        for fabric in [RailsFabric::RailOptimized, RailsFabric::LeafSpine, RailsFabric::FatTree] {
            let mut spec = spec(4, 4, scheme);
            spec.fabric = fabric;
            let base = one(&spec, &demand);
            spec.nic_bps.insert(5, BitRate::from_bps(0));
            let got = one(&spec, &demand);
            assert_eq!(got.received[5], 0, "{scheme}");
            assert_eq!(got.received.iter().sum::<u64>(), base.received.iter().sum::<u64>());
            assert_eq!(got.sent.iter().sum::<u64>(), base.sent.iter().sum::<u64>());
            if scheme != "reps" {
                assert_eq!(got.sent[5], 0, "{scheme}");
            }
            // On trees flows also meet on spines, by hashes.
            if scheme == "rails" && fabric == RailsFabric::RailOptimized {
                let ratio = got.completion.as_secs_f64() / base.completion.as_secs_f64();
                assert!((1.3..1.42).contains(&ratio), "{ratio}, closed form 4/3");
            }
        }
    }
    let mut spec = spec(2, 2, "rails");
    spec.nic_bps = [(0, BitRate::from_bps(0)), (3, BitRate::from_bps(0))].into();
    let error = rails(&spec, &matrix(4, |_, _| 1), &mut |_| true).expect_err("no rail in common");
    assert_eq!(error.to_string(), "domains 0 and 1: no rail works at both");
    spec.nic_bps = [(0, BitRate::from_bps(0)), (1, BitRate::from_bps(0))].into();
    spec.scheme = serde_json::from_str(r#"{"kind": "ecmp"}"#).expect("a balancer");
    let error = rails(&spec, &matrix(4, |_, _| 1), &mut |_| true).expect_err("no NIC");
    assert_eq!(error.to_string(), "domain 0: none of its NICs works");
}

/// One slow spine holds up what crosses rails, and not what keeps to one.
#[test]
fn spines_have_a_number_and_a_rate() {
    // Each GPU to its neighbour in the next domain: all of it crosses rails.
    let demand = matrix(4, |i, j| if i / 2 != j / 2 && i % 2 != j % 2 { 4 * MIB } else { 0 });
    let with = |count, gbps| RailsSpec {
        spines: Some(Spines { count, bps: BitRate::from_gbps(gbps) }),
        ..spec(2, 2, "ecmp")
    };
    let completion = |spec: &RailsSpec| one(spec, &demand).completion;
    let (wide, narrow) = (completion(&with(1, 800)), completion(&with(1, 200)));
    let ratio = narrow.as_secs_f64() / wide.as_secs_f64();
    assert!((3.8..4.0).contains(&ratio), "two flows of 400 over 800, and over 200 Gbps: {ratio}");
    let rails = RailsSpec { spines: with(1, 200).spines, ..spec(2, 2, "rails") };
    assert!(one(&rails, &demand).completion <= wide + Time::from_us(5));
    let why = |spec: &RailsSpec| rails_of(spec, &demand);
    let allowed = "must be 1 to 2, as many as domains, at 1 bit/s or more";
    assert!(why(&with(0, 1)).ends_with(allowed) && why(&with(3, 1)).ends_with(allowed));
}

fn rails_of(spec: &RailsSpec, demand: &[u64]) -> String {
    rails(spec, demand, &mut |_| true).map_or_else(|why| why.to_string(), |_| "ok".into())
}
