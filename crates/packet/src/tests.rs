//! What the engine must do, by hand calculation and by invariants, for every transport.

use crate::{
    BALANCERS, Choice, Dark, PacketEngine, PacketSpec, PathChooser, TRANSPORTS, any_settings,
    engine, settings,
};
use lightloom_engine::conformance::{Graph, Script, Work, joined, mixnet, over_the_circuit};
use lightloom_engine::{
    Engine, EngineError, Observer, Orders, Outcome, Policy, Scenario, Silent, TaskId,
};
use lightloom_fabric::{
    ClosSpec, Cluster, Fabric, FabricSpec, FatTree, GpuId, LeafSpineSpec, LinkClass, LinkId,
    RailOptimized, Splitting, build,
};
use lightloom_units::{BitRate, Bytes, Time};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

pub(crate) const RATE: BitRate = BitRate::from_gbps(100);

/// Settings as JSON, with one of them changed.
fn with<T: serde::de::DeserializeOwned>(json: &str, from: &str, to: &str) -> T {
    assert!(json.contains(from), "{json}");
    serde_json::from_str(&json.replace(from, to)).expect("settings of the right shape")
}

pub(crate) fn names<C>(family: &lightloom_units::kind::Family<C>) -> Vec<&'static str> {
    family.kinds.iter().map(|kind| kind.name).collect()
}

/// Hosts of one GPU and one NIC on leaves and spines of eight ports, or a fat-tree.
pub(crate) fn hosts(count: u32, tiers: u8) -> Fabric {
    let cluster = Cluster {
        gpus: count,
        gpus_per_server: 1,
        nics_per_server: 1,
        numa_nodes: 1,
        scale_up_bps: BitRate::from_gbps(3600),
        scale_up_delay_ps: Time::from_ns(500),
        host: None,
        nic_parts: 1,
    };
    let spec = match tiers {
        2 => FabricSpec::from(LeafSpineSpec {
            link_bps: RATE,
            link_delay_ps: Time::from_us(1),
            oversubscription: 1.0,
            radix: Some(8),
            splitting: Splitting::Ecmp,
        }),
        _ => FatTree(ClosSpec {
            splitting: Splitting::Ecmp,
            ..ClosSpec::new(RATE, Time::from_us(1))
        })
        .into(),
    };
    build(&cluster, &spec, 1, &[]).expect("a valid fabric")
}

pub(crate) fn orders(fabric: &Fabric, flows: impl IntoIterator<Item = (u32, u32, u64)>) -> Orders {
    let mut orders = Orders::default();
    for (from, to, bytes) in flows {
        fabric.route(GpuId(from), GpuId(to), u64::from(from), orders.path()).expect("hosts");
        orders.flow(Bytes::new(bytes));
    }
    orders.end_phase(Time::ZERO);
    orders
}

#[derive(Default)]
struct Ends(Vec<(u64, Time)>);
impl Observer for Ends {
    fn flow_finished(&mut self, _: TaskId, bytes: Bytes, _: Time, end: Time) {
        self.0.push((bytes.get(), end));
    }
}

pub(crate) fn run(
    engine: &PacketEngine,
    fabric: &Fabric,
    orders: Orders,
) -> (Outcome, Vec<(u64, Time)>) {
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let scenario = Scenario { fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut script = Script { transfers: vec![orders], at_end: vec![] };
    let mut ends = Ends::default();
    let outcome = engine.run(&scenario, &mut script, &mut ends).expect("the run finishes");
    (outcome, ends.0)
}

/// n packets over h links of rate C and delay d, store and forward: h d + (n + h - 1) packets' times,
/// but for the last packet, which is shorter.
#[test]
fn one_flow_by_hand_to_the_picosecond() {
    let fabric = hosts(8, 2);
    let wire = |payload: u64| (payload + 64) * 80; // 80 ps a byte at 100 Gbps
    for transport in names(&TRANSPORTS) {
        for (bytes, hops) in [(1u64, 4u64), (4096, 4), (4097, 4), (10 * 4096 + 100, 4)] {
            let (outcome, _) =
                run(&engine(transport, "ecmp"), &fabric, orders(&fabric, [(0, 7, bytes)]));
            let (full, rest) = (bytes / 4096, bytes % 4096);
            // The last packet leaves the sender when all are out; a short one catches up behind the
            // full one before it, link by link, and never passes it.
            let ideal = match (full, rest) {
                (0, rest) => hops * wire(rest),
                (full, 0) => (full + hops - 1) * wire(4096),
                (full, rest) => (full + hops - 1) * wire(4096) + wire(rest),
            } + hops * 1_000_000;
            // Its second packet waits for leave to come, which rivals.rs calculates.
            if transport == "credit" && full + u64::from(rest > 0) > 1 {
                continue;
            }
            assert_eq!(outcome.makespan.ps(), ideal, "{transport}, {bytes} B");
            let packets = outcome.packets.expect("counted");
            assert_eq!(packets.data, bytes.div_ceil(4096));
            let carried: u64 = outcome.link_bytes.iter().map(|b| b.get()).sum();
            assert!(carried >= hops * (bytes + 64 * packets.data));
        }
    }
}

/// Eight to one: the receiver's link is never idle, whatever the transport; fair shares, but for
/// pauses, which are fair to ports and not to the flows behind them; no loss where the network is
/// lossless.
#[test]
fn incast() {
    let fabric = hosts(32, 3);
    for (transport, limit) in [("spray", 1.10), ("ndp", 1.12), ("roce", 1.04), ("dctcp", 1.25)] {
        let flows = (0..8).map(|i| (3 * i + 1, 31, 4_000_000));
        let mut engine = engine(transport, "ecmp");
        if transport == "dctcp" {
            // Eight full windows at once would overflow the queue.
            let json = crate::transport_settings(transport);
            engine.spec.transport = with(&json, r#""window": null"#, r#""window": 41600"#);
        }
        let (outcome, ends) = run(&engine, &fabric, orders(&fabric, flows));
        let ideal = RATE.time_for(Bytes::new(32_000_000)).as_secs_f64();
        let took = outcome.makespan.as_secs_f64();
        assert!(took > ideal && took < limit * ideal, "{transport}: {:.3}", took / ideal);
        let first = ends.iter().map(|e| e.1).min().expect("eight flows").as_secs_f64();
        let fair = if transport == "roce" { 0.4 } else { 0.55 };
        assert!(first > fair * took, "{transport}: the first ended at {:.2}", first / took);
        let packets = outcome.packets.expect("counted");
        if transport == "roce" {
            assert_eq!((packets.drops, packets.trims, packets.resent), (0, 0, 0));
            assert!(packets.pauses > 0 && packets.links.iter().any(|l| l.paused > Time::ZERO));
        }
        if transport == "ndp" {
            assert!(packets.trims > 0 && packets.drops == 0);
        }
    }
}

/// Two long DCQCN flows, one of which comes late, share a link evenly in the end (Zhu et al., Section
/// 5: fair shares for long flows).
#[test]
fn dcqcn_is_fair_to_long_flows() {
    let fabric = hosts(8, 2);
    let graph = Graph::new(
        vec![Work::Send(0), Work::Compute(Time::from_ms(2)), Work::Send(1)],
        vec![(1, 2)],
    );
    let (first, second) = (200_000_000u64, 100_000_000u64);
    let transfers = vec![orders(&fabric, [(0, 7, first)]), orders(&fabric, [(1, 7, second)])];
    let scenario =
        Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut script = Script { transfers, at_end: vec![] };
    let outcome =
        engine("dcqcn", "ecmp").run(&scenario, &mut script, &mut Silent).expect("it finishes");
    // Fair: from 2 ms on half each, so the late one takes twice its own time.
    let alone = RATE.time_for(Bytes::new(second)).as_secs_f64();
    let took = (outcome.end[2] - outcome.start[2]).as_secs_f64();
    assert!(took / alone > 1.4 && took / alone < 3.0, "{:.2} times its time alone", took / alone);
    let packets = outcome.packets.expect("counted");
    assert!(packets.marks > 0);
    assert_eq!(packets.drops, 0);
}

/// PFC loses nothing, whoever sends to whom; everything else delivers all the same.
#[test]
fn lossless_means_no_drops() {
    let fabric = hosts(32, 3);
    for seed in 0..6u32 {
        let flows: Vec<_> = (0..32)
            .flat_map(|i| (0..4).map(move |j| (i, (i * 7 + j * (seed + 1) + 1) % 32)))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| (a, b, 300_000 + u64::from(a) * 1000))
            .collect();
        for transport in ["roce", "dcqcn"] {
            let (outcome, _) =
                run(&engine(transport, "ecmp"), &fabric, orders(&fabric, flows.clone()));
            let packets = outcome.packets.expect("counted");
            assert_eq!((packets.drops, packets.resent, packets.timeouts), (0, 0, 0), "{transport}");
        }
    }
}

/// Without room in the headroom PFC loses packets, and go-back-N brings them all the same.
#[test]
fn too_little_headroom_loses_packets_and_all_arrive() {
    let fabric = hosts(32, 3);
    let mut engine = engine("roce", "ecmp");
    let pfc = r#"{"kind": "pfc", "xoff": 20000, "xon": 10000, "headroom": 5000}"#;
    engine.spec.switch.overflow = serde_json::from_str(pfc).expect("its keys");
    let flows = (0..8).map(|i| (3 * i + 1, 31, 1_000_000));
    let (outcome, ends) = run(&engine, &fabric, orders(&fabric, flows));
    let packets = outcome.packets.expect("counted");
    assert!(packets.drops > 0 && packets.resent > 0);
    assert_eq!(ends.iter().map(|e| e.0).sum::<u64>(), 8_000_000);
}

/// Same seed, same bits; another seed, others; for every transport and balancer.
#[test]
fn one_seed_one_outcome() {
    let fabric = hosts(32, 3);
    let flows: Vec<_> =
        (0..32u32).flat_map(|i| [(i, (i + 9) % 32, 200_000), (i, (i + 17) % 32, 90_000)]).collect();
    for transport in names(&TRANSPORTS) {
        for balancer in names(&BALANCERS) {
            let run_with = |seed| {
                let engine = PacketEngine::new(settings(transport, balancer), seed);
                run(&engine, &fabric, orders(&fabric, flows.clone())).0
            };
            let (a, b) = (run_with(3), run_with(3));
            assert_eq!(a, b, "{transport}, {balancer}");
            assert_ne!(a, run_with(4), "{transport}, {balancer}");
        }
    }
}

/// Spraying makes no path busier than another; ECMP does.
#[test]
fn sprayed_flows_use_all_ways() {
    let fabric = hosts(16, 2);
    let spread = |balancer: &str| {
        let flows = (0..4).map(|i| (i, 12 + i, 4_000_000));
        let (outcome, _) = run(&engine("spray", balancer), &fabric, orders(&fabric, flows));
        let up: Vec<u64> = (0..fabric.links().len())
            .filter(|&l| matches!(fabric.links()[l].class, LinkClass::Uplink { .. }))
            .map(|l| outcome.link_bytes[l].get())
            .filter(|&bytes| bytes > 500_000) // not those that carry acknowledgements
            .collect();
        (up.len(), up.iter().max().copied().unwrap_or(0) as f64 / 4_160_000.0)
    };
    let (used, fullest) = spread("round-robin");
    assert_eq!(used, 8, "four up, four down");
    assert!(fullest < 1.05, "{fullest}");
    assert!(spread("reps").1 < 1.4);
}

/// Lanes of one flow share its bytes: two NICs send twice as fast as one.
#[test]
fn a_flow_of_two_lanes_goes_over_both() {
    let cluster =
        Cluster { gpus_per_server: 2, nics_per_server: 2, ..hosts(8, 2).cluster().clone() };
    let spec = RailOptimized(ClosSpec {
        splitting: Splitting::Ecmp,
        tiers: 2,
        ..ClosSpec::new(RATE, Time::from_us(1))
    });
    let fabric = build(&cluster, &spec.into(), 1, &[]).expect("a valid fabric");
    for balancer in ["min-rtt", "reps", "round-robin"] {
        let mut orders = Orders::default();
        for rail in 0..2 {
            let (from, to) = (lightloom_fabric::NicId(rail), lightloom_fabric::NicId(6 + rail));
            fabric.nic_route(from, to, 0, orders.path()).expect("NICs");
            orders.lane();
        }
        orders.flow(Bytes::new(20_000_001));
        orders.end_phase(Time::ZERO);
        let (outcome, ends) = run(&engine("spray", balancer), &fabric, orders);
        assert_eq!(ends.len(), 1);
        let ideal = RATE.time_for(Bytes::new(10_000_000)).as_secs_f64();
        let took = outcome.makespan.as_secs_f64();
        assert!(took > ideal && took < 1.1 * ideal, "{balancer}: {:.3}", took / ideal);
    }
}

/// A window is a flow's: three lanes of one do not send faster than it allows.
#[test]
fn lanes_of_a_flow_share_its_window() {
    let cluster =
        Cluster { gpus_per_server: 4, nics_per_server: 4, ..hosts(16, 2).cluster().clone() };
    let spec = RailOptimized(ClosSpec {
        splitting: Splitting::Ecmp,
        tiers: 2,
        ..ClosSpec::new(RATE, Time::from_us(1))
    });
    let fabric = build(&cluster, &spec.into(), 1, &[]).expect("a valid fabric");
    let took = |transport, balancer, lanes: u32| {
        let mut engine = engine(transport, balancer);
        let json = crate::transport_settings(transport);
        engine.spec.transport = with(&json, r#""window": null"#, r#""window": 20000"#);
        let mut orders = Orders::default();
        for nic in 1..=lanes {
            let (from, to) = (lightloom_fabric::NicId(nic), lightloom_fabric::NicId(12));
            fabric.nic_route(from, to, 0, orders.path()).expect("NICs");
            orders.lane();
        }
        orders.flow(Bytes::new(4_000_000));
        orders.end_phase(Time::ZERO);
        run(&engine, &fabric, orders).0.makespan.as_secs_f64()
    };
    for (transport, balancer) in
        [("spray", "reps"), ("spray", "min-rtt"), ("ndp", "reps"), ("dctcp", "min-rtt")]
    {
        let (one, three) = (took(transport, balancer, 1), took(transport, balancer, 3));
        assert!((three / one - 1.0).abs() < 0.05, "{transport} {balancer}: {one} {three}");
    }
}

// ---- circuits

/// The circuit of the conformance suite goes dark for a while under a running flow, `at` after it
/// started.
fn flicker(spec: PacketSpec, dark: Time) -> Outcome {
    let fabric = mixnet();
    let mut first = over_the_circuit(&fabric, 16 << 20);
    first.patches = joined(&fabric, Time::ZERO);
    let mut again = Orders::default();
    again.patches = joined(&fabric, dark);
    let graph = Graph::new(
        vec![Work::Send(0), Work::Compute(Time::from_us(100)), Work::Send(1)],
        vec![(1, 2)],
    );
    let scenario =
        Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut script = Script { transfers: vec![first, again], at_end: vec![] };
    PacketEngine::new(spec, 1).run(&scenario, &mut script, &mut Silent).expect("it finishes")
}

#[test]
fn dark_circuits_hold_or_lose_what_is_on_them() {
    let dark = Time::from_us(300);
    for transport in names(&TRANSPORTS) {
        let mut spec = settings(transport, "ecmp");
        let ideal = RATE.time_for(Bytes::new(16 << 20)).as_secs_f64();
        let held = flicker(spec.clone(), dark);
        let packets = held.packets.as_ref().expect("counted");
        assert_eq!(packets.drops, 0, "{transport}");
        let took = held.end[0].as_secs_f64();
        assert!(took >= ideal + dark.as_secs_f64(), "{transport}: dark time is not free");
        assert!(took < 1.05 * ideal + 1.1 * dark.as_secs_f64(), "{transport}: {took}");
        spec.dark = Dark::Lose;
        let lost = flicker(spec, dark);
        let packets = lost.packets.as_ref().expect("counted");
        assert!(packets.drops > 0 && packets.resent > 0, "{transport}");
        assert!(lost.end[0] > held.start[0], "{transport}: it arrives all the same");
    }
}

struct Mover {
    script: Script,
    to: Vec<LinkId>,
}
impl Policy for Mover {
    fn begin(
        &mut self,
        t: TaskId,
        name: u32,
        now: Time,
        orders: &mut Orders,
    ) -> Result<(), String> {
        self.script.begin(t, name, now, orders)
    }
    fn displaced(&mut self, _: TaskId, _: u32, _: Time, path: &mut Vec<LinkId>) -> bool {
        path.clone_from(&self.to);
        true
    }
}

/// A circuit is patched away under a flow: with another path from the policy no byte is lost.
#[test]
fn a_flow_moves_when_its_circuit_goes() {
    for transport in names(&TRANSPORTS) {
        let fabric = mixnet();
        let mut first = over_the_circuit(&fabric, 8 << 20);
        first.patches = joined(&fabric, Time::ZERO);
        let mut gone = joined(&fabric, Time::from_us(50));
        gone.patches.iter_mut().for_each(|patch| patch.rx = None);
        let mut again = Orders::default();
        again.patches = gone;
        let graph = Graph::new(
            vec![Work::Send(0), Work::Compute(Time::from_us(100)), Work::Send(1)],
            vec![(1, 2)],
        );
        let scenario =
            Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
        let mut to = Vec::new();
        fabric.route(GpuId(0), GpuId(4), 0, &mut to).expect("a path over packets");
        let script = Script { transfers: vec![first, again], at_end: vec![] };
        let mut ends = Ends::default();
        let outcome = engine(transport, "ecmp")
            .run(&scenario, &mut Mover { script, to }, &mut ends)
            .expect("it finishes");
        assert_eq!(ends.0, [(8 << 20, outcome.end[0])], "{transport}");
    }
}

/// A path of more links than a packet carries is looked up.
#[test]
fn long_paths() {
    let spec = FabricSpec::topoopt(2, RATE, Time::from_us(1));
    let cluster = Cluster { scale_up_bps: BitRate::from_gbps(3600), ..Cluster::of(96, 8) };
    let ring: Vec<_> = (0..12)
        .map(|s| (lightloom_fabric::ServerId(s), lightloom_fabric::ServerId((s + 1) % 12)))
        .collect();
    let fabric = build(&cluster, &spec, 1, &ring).expect("a valid fabric");
    let flows = orders(&fabric, [(0, 50, 3_000_000)]);
    assert!(flows.links(&flows.all_flows()[0]).len() > 10);
    let (outcome, _) = run(&engine("spray", "reps"), &fabric, flows);
    assert!(outcome.makespan > RATE.time_for(Bytes::new(3_000_000)));
}

#[test]
fn queues_are_sampled_and_narrow_windows_noted() {
    let fabric = hosts(8, 2);
    let mut engine = engine("spray", "reps");
    engine.spec.sample_period = Time::from_us(10);
    let flows = [(0, 7, 2_000_000), (1, 7, 2_000_000)];
    let packets = run(&engine, &fabric, orders(&fabric, flows)).0.packets.expect("counted");
    assert!(packets.samples.iter().any(|s| s.queued.get() > 10_000));
    assert!(packets.samples.windows(2).all(|w| (w[0].at, w[0].link) < (w[1].at, w[1].link)));
    assert!(packets.notes.is_empty());
    let json = crate::transport_settings("spray");
    engine.spec.transport = with(&json, r#""window": null"#, r#""window": 20000"#);
    let packets = run(&engine, &fabric, orders(&fabric, flows)).0.packets.expect("counted");
    assert!(packets.notes[0].contains("below the bandwidth-delay product"), "{:?}", packets.notes);
}

/// A kind's name in the list is the one that a specification is read by, and its keys are those of its
/// table, no more and no fewer.
#[test]
fn every_kind_is_read_by_its_name_and_keys() {
    fn check<C, T: serde::de::DeserializeOwned>(
        family: &'static lightloom_units::kind::Family<C>,
        name_of: impl Fn(&T) -> &'static str,
    ) {
        for name in names(family) {
            let json = any_settings(family, name);
            let read: T = serde_json::from_str(&json).expect(name);
            assert_eq!(name_of(&read), name);
            let more = json.replace('}', r#", "more": 1}"#);
            let error = serde_json::from_str::<T>(&more).err().expect(name).to_string();
            assert!(error.contains("unknown field `more`"), "{error}");
        }
    }
    check(&BALANCERS, |read: &crate::BalancerSpec| {
        assert_eq!(read.chunks().is_some(), read.kind().capabilities.nics == crate::Nics::Rails);
        read.kind().name
    });
    check(&TRANSPORTS, |read: &crate::TransportSpec| read.kind().name);
    check(&crate::OVERFLOWS, |read: &crate::OverflowSpec| {
        let able = read.kind().capabilities;
        assert_eq!(read.pause().is_some(), able.pauses);
        // One thing limits what waits.
        let limits = [able.limits_queue, able.pauses, read.buffer().is_some()];
        assert_eq!(limits.into_iter().filter(|&it| it).count(), 1, "{}", read.kind().name);
        read.kind().name
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever the switches' limits, all bytes arrive, no link carries more than it can, and what
    /// was sent is what arrived, was lost or was sent again.
    #[test]
    fn all_bytes_arrive(
        transport in prop::sample::select(names(&TRANSPORTS)),
        balancer in prop::sample::select(names(&BALANCERS)), seed in 0u64..1000, ack_every in 1u32..9,
        queue in 5_000u64..60_000,
        flows in prop::collection::vec((0u32..16, 1u32..16, 1u64..400_000), 1..40),
    ) {
        let fabric = hosts(16, 3);
        let mut spec = settings(transport, balancer);
        spec.switch.queue = Bytes::new(queue);
        spec.ack_every = ack_every;
        let flows: Vec<_> = flows.iter().map(|&(a, step, bytes)| (a, (a + step) % 16, bytes)).collect();
        let total: u64 = flows.iter().map(|f| f.2).sum();
        let (outcome, ends) = run(&PacketEngine::new(spec, seed), &fabric, orders(&fabric, flows));
        prop_assert_eq!(ends.iter().map(|e| e.0).sum::<u64>(), total);
        for (link, carried) in fabric.links().iter().zip(&outcome.link_bytes) {
            prop_assert!(link.rate.time_for(*carried) <= outcome.makespan + Time::from_us(1));
        }
        let packets = outcome.packets.expect("counted");
        prop_assert!(packets.resent >= packets.trims);
        prop_assert!(packets.data >= packets.resent);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Flows of several lanes, some of them over the same NIC, arrive whole over any balancer, whatever
    /// is lost.
    #[test]
    fn lanes_deliver_everything(
        transport in prop::sample::select(names(&TRANSPORTS)),
        balancer in prop::sample::select(names(&BALANCERS)), queue in 5_000u64..40_000,
        flows in prop::collection::vec((0u32..16, 0u32..16, 1u64..300_000, 1u32..5), 1..30),
    ) {
        let cluster = Cluster { gpus_per_server: 4, nics_per_server: 4, ..hosts(16, 2).cluster().clone() };
        let spec = RailOptimized(ClosSpec {
            splitting: Splitting::Ecmp,
            tiers: 2,
            ..ClosSpec::new(RATE, Time::from_us(1))
        });
        let fabric = build(&cluster, &spec.into(), 1, &[]).expect("a valid fabric");
        let mut spec = settings(transport, balancer);
        spec.switch.queue = Bytes::new(queue);
        let (mut orders, mut total) = (Orders::default(), 0);
        for &(from, to, bytes, lanes) in flows.iter().filter(|f| f.0 / 4 != f.1 / 4) {
            for lane in 0..lanes {
                // Every other lane from the flow's own NIC.
                let nic = if lane % 2 == 0 { from } else { from / 4 * 4 + lane % 4 };
                let (nic, to) = (lightloom_fabric::NicId(nic), lightloom_fabric::NicId(to));
                fabric.nic_route(nic, to, 0, orders.path()).expect("NICs");
                orders.lane();
            }
            orders.flow(Bytes::new(bytes));
            total += bytes;
        }
        orders.end_phase(Time::ZERO);
        let (outcome, ends) = run(&PacketEngine::new(spec, 5), &fabric, orders);
        prop_assert_eq!(ends.iter().map(|e| e.0).sum::<u64>(), total);
        for (link, carried) in fabric.links().iter().zip(&outcome.link_bytes) {
            prop_assert!(link.rate.time_for(*carried) <= outcome.makespan + Time::from_us(1));
        }
    }
}

#[test]
fn a_flow_that_nothing_can_carry_is_an_error() {
    // Everything is lost for ever: a queue too small for one packet.
    let fabric = hosts(8, 2);
    let mut engine = engine("dctcp", "ecmp");
    engine.spec.switch.queue = Bytes::new(100);
    let graph = Graph::new(vec![Work::Send(0)], vec![]);
    let scenario =
        Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
    let mut script = Script { transfers: vec![orders(&fabric, [(0, 7, 100_000)])], at_end: vec![] };
    let error = engine.run(&scenario, &mut script, &mut Silent);
    assert!(matches!(error, Err(EngineError::Unheard { task: 0, .. })), "{error:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Flows that change their path while they run overtake themselves: what looks lost is not, what is
    /// lost at the end shows no gap, and all of it arrives.
    #[test]
    fn flows_that_move_lose_nothing(
        rounds in 0u32..3, queue in 5_000u64..40_000, seed in 0u64..100,
        flows in prop::collection::vec((0u32..16, 1u32..16, 1u64..600_000), 8..60),
    ) {
        let fabric = hosts(16, 3);
        let mut spec = settings("dctcp", "ecmp");
        let plb = format!(r#"{{"kind": "plb", "marked_share": 0.1, "rounds": {rounds}, "rounds_busy": 1}}"#);
        spec.balancer = serde_json::from_str(&plb).expect("its keys");
        spec.switch.queue = Bytes::new(queue);
        (spec.switch.ecn_low, spec.switch.ecn_high) = (Bytes::new(4_000), Bytes::new(4_000));
        let flows: Vec<_> = flows.iter().map(|&(a, step, bytes)| (a, (a + step) % 16, bytes)).collect();
        let total: u64 = flows.iter().map(|f| f.2).sum();
        let (_, ends) = run(&PacketEngine::new(spec, seed), &fabric, orders(&fabric, flows));
        prop_assert_eq!(ends.iter().map(|e| e.0).sum::<u64>(), total);
    }
}

/// A permutation of so many hosts in which none sends to itself (Sattolo).
fn permutation(count: u32, state: &mut u64) -> Vec<u32> {
    let mut to: Vec<u32> = (0..count).collect();
    for i in (1..to.len()).rev() {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        to.swap(i, (*state >> 33) as usize % i);
    }
    to
}

/// The time of sprayed flows over that of payload and headers at line rate, and the links' delay, where
/// each host sends so many bytes by as many permutations.
fn over_ideal(fabric: &Fabric, permutations: &[Vec<u32>], bytes: u64) -> f64 {
    let flows =
        permutations.iter().flat_map(|to| (0..).zip(to).map(|(from, &to)| (from, to, bytes)));
    let took = run(&engine("spray", "round-robin"), fabric, orders(fabric, flows)).0.makespan;
    let sent = (bytes + 64 * bytes.div_ceil(4096)) * permutations.len() as u64;
    took.as_secs_f64() / (RATE.time_for(Bytes::new(sent)) + Time::from_us(6)).as_secs_f64()
}

/// Non-blocking is non-blocking, however full the last switches are: a permutation takes about as long
/// as on the best tree that is full.
#[test]
fn trees_of_any_size_are_non_blocking() {
    let took = |count| over_ideal(&hosts(count, 3), &[permutation(count, &mut 1)], 1_000_000);
    let best = [16, 54, 128].map(took).into_iter().fold(f64::MAX, f64::min);
    for count in [17, 32, 36, 65, 72, 129, 144] {
        let found = took(count);
        assert!(found <= (1.03 * best).min(1.15), "{count} hosts: {found:.3}, at best {best:.3}");
    }
}

/// ... and with however many flows a NIC: each takes all paths, also where a NIC serves as many flows in
/// turn as it has paths.
#[test]
fn non_blocking_with_any_number_of_flows() {
    let fabric = hosts(32, 2); // four uplinks a ToR
    let mut state = 1;
    let all: Vec<_> = (0..12).map(|_| permutation(32, &mut state)).collect();
    for flows in [1, 2, 3, 4, 5, 6, 8, 12] {
        let found = over_ideal(&fabric, &all[..flows], 2_400_000 / flows as u64);
        assert!(found <= 1.03, "{flows} flows a NIC: {found:.3}");
    }
}

/// A balancer from outside: round robin, and what it was told.
#[derive(Debug, Default)]
struct Rounds {
    refuses_at: Option<u64>,
    asked: AtomicU64,
    heard: AtomicU64,
    waited: AtomicU64,
    /// By sub-flow: the path of its next packet.
    next: Mutex<HashMap<u64, i64>>,
}

impl PathChooser for Rounds {
    fn path(&self, choice: &Choice<'_>) -> Result<i64, String> {
        let asked = self.asked.fetch_add(1, Relaxed);
        self.heard.fetch_add(choice.heard.len() as u64, Relaxed);
        self.waited.fetch_max(choice.queues.iter().copied().max().unwrap_or(0), Relaxed);
        assert!(choice.source != choice.destination);
        match self.refuses_at {
            Some(at) if asked == at => Err("no more".into()),
            Some(at) if asked == at / 2 && at > 1000 => Ok(choice.queues.len() as i64),
            _ => {
                let paths = choice.queues.len() as i64;
                let mut next = self.next.lock().expect("one thread");
                let next = next.entry(choice.flow).or_insert(i64::from(choice.turn) % paths);
                let path = *next;
                *next = (path + 1) % paths;
                Ok(path)
            }
        }
    }
}

#[test]
fn a_balancer_from_outside_runs_as_the_same_one_inside() {
    let fabric = hosts(16, 2);
    let flows: Vec<_> = (0..8).map(|i| (i, 8 + i / 2, 1_000_000)).collect();
    let inside = engine("spray", "round-robin");
    let rounds = Arc::new(Rounds::default());
    let outside = PacketEngine { chooser: Some(rounds.clone()), ..engine("spray", "reps") };
    let run_with = |engine: &PacketEngine| run(engine, &fabric, orders(&fabric, flows.clone())).0;
    assert_eq!(run_with(&inside), run_with(&outside));
    let (asked, heard) = (rounds.asked.load(Relaxed), rounds.heard.load(Relaxed));
    // 4096 bytes of payload a packet; what the last packets made be heard, no packet tells.
    assert!(asked >= 8 * 245 && heard > asked / 2 && heard <= asked, "{asked}, {heard}");
    assert!(rounds.waited.load(Relaxed) > 0, "queues are seen");
}

#[test]
fn a_balancer_from_outside_that_gives_no_path_ends_the_run() {
    let fabric = hosts(16, 2);
    for (refuses_at, why) in
        [(0, "no more"), (77, "no more"), (1200, "4 is no path; allowed: 0 to 3")]
    {
        let rounds = Arc::new(Rounds { refuses_at: Some(refuses_at), ..Rounds::default() });
        let outside = PacketEngine { chooser: Some(rounds.clone()), ..engine("spray", "reps") };
        let flows: Vec<_> = (0..8).map(|i| (i, 8 + i, 1_000_000)).collect();
        let orders = orders(&fabric, flows);
        let graph = Graph::new(vec![Work::Send(0)], vec![]);
        let scenario =
            Scenario { fabric: &fabric, tasks: graph.tasks(), circuits: &[], incidents: &[] };
        let mut script = Script { transfers: vec![orders], at_end: vec![] };
        let error = outside.run(&scenario, &mut script, &mut Silent).expect_err("no path");
        assert_eq!(error.to_string(), format!("task 0: balancer: {why}"));
        assert!(rounds.asked.load(Relaxed) <= refuses_at + 1, "none is asked for after it");
    }
}
