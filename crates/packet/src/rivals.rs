//! Credits from receivers, switches that choose ways, switches that share a buffer: by hand calculation.

use crate::tests::{RATE, hosts, orders, run};
use crate::{engine, settings, shared_buffer};
use lightloom_fabric::{Fabric, LeafSpineSpec, LinkClass, NodeKind, Splitting, build};
use lightloom_units::{Bytes, Time};
use proptest::prelude::*;

/// A full packet's time and a header's at 100 Gbps, 80 ps a byte; a link's delay \[ps\].
const PACKET: u64 = 4160 * 80;
const HEADER: u64 = 64 * 80;
const DELAY: u64 = 1_000_000;

/// The first packet of a flow crosses h links, its acknowledgement and then the first credit come back over
/// them, the second packet crosses them, and the others follow it at line rate.
#[test]
fn a_flow_by_credits_to_the_picosecond() {
    let fabric = hosts(8, 2);
    let (hops, there) = (4, 4 * (PACKET + DELAY));
    for packets in [2u64, 3, 100] {
        let flow = orders(&fabric, [(0, 7, packets * 4096)]);
        let (outcome, _) = run(&engine("credit", "ecmp"), &fabric, flow);
        let back = HEADER + hops * (HEADER + DELAY);
        assert_eq!(outcome.makespan.ps(), there + back + there + (packets - 2) * PACKET);
    }
    // With leave for all of it there is nothing to wait for.
    let mut free = engine("credit", "ecmp");
    let json = crate::transport_settings("credit").replace("null", "41600");
    free.spec.transport = serde_json::from_str(&json).expect("settings");
    let (outcome, _) = run(&free, &fabric, orders(&fabric, [(0, 7, 10 * 4096)]));
    assert_eq!(outcome.makespan.ps(), there + 9 * PACKET);
}

/// Many to one: besides the packets that ask, what comes is what was granted, at the rate of the link. So
/// the queue at the receiver holds no more than those, nothing is trimmed, and the link is never idle once
/// the first credit is answered.
#[test]
fn an_incast_by_credits_queues_one_packet_a_flow() {
    let fabric = hosts(32, 3);
    for senders in [1u64, 2, 7, 27] {
        let flows = (0..senders as u32).map(|from| (from, 31, 100 * 4096));
        let (outcome, ends) =
            run(&engine("credit", "round-robin"), &fabric, orders(&fabric, flows));
        let packets = outcome.packets.expect("counted");
        assert_eq!((packets.trims, packets.drops, packets.resent), (0, 0, 0));
        let peak = packets.links.iter().map(|link| link.peak_queue.get()).max().expect("links");
        assert!(peak <= (senders + 2) * 4160, "{senders}: {peak} B");
        let busy = senders * 100 * PACKET;
        let waits = 2 * 6 * (PACKET + DELAY) + 7 * (HEADER + DELAY);
        let took = outcome.makespan.ps();
        assert!(took >= busy && took <= busy + waits + 2 * senders * PACKET, "{senders}: {took}");
        // Flows take turns. The first to ask has had 1 + 1/2 + 1/3 ... turns more than the last when that asks.
        let ahead: f64 = (1..=senders).map(|asked| 1.0 / asked as f64).sum::<f64>() + 1.0;
        let first = ends.iter().map(|end| end.1.ps()).min().expect("flows");
        assert!((took - first) as f64 <= ahead * (senders * PACKET) as f64, "{senders}");
    }
}

/// What is lost without a word is sent again after a silence, one packet for each that comes.
#[test]
fn credits_that_are_lost_do_not_end_a_flow() {
    let fabric = hosts(32, 3);
    let mut lossy = engine("credit", "round-robin");
    // Two full packets: of 31 that ask at once most are dropped.
    lossy.spec.switch.overflow = serde_json::from_str(r#"{"kind": "drop"}"#).expect("settings");
    lossy.spec.switch.queue = Bytes::new(2 * 4160);
    let flows = (0..31).map(|from| (from, 31, 30 * 4096));
    let (outcome, ends) = run(&lossy, &fabric, orders(&fabric, flows));
    let packets = outcome.packets.expect("counted");
    assert!(packets.drops > 0 && packets.resent >= packets.drops);
    assert_eq!(ends.iter().map(|end| end.0).sum::<u64>(), 31 * 30 * 4096);
}

/// As many flows as ways: each packet finds an idle way, and all take as long as one flow by itself.
#[test]
fn switches_that_choose_let_nobody_wait_who_need_not() {
    let fabric = hosts(16, 2);
    let alone = 4 * (PACKET + DELAY) + 99 * PACKET;
    let took = |balancer: &str, seed| {
        let mut engine = engine("roce", balancer);
        engine.spec.transport = settings("spray", balancer).transport;
        engine.seed = seed;
        let flows = (0..4).map(|from| (from, 12 + from, 100 * 4096));
        let (outcome, _) = run(&engine, &fabric, orders(&fabric, flows));
        outcome.makespan.ps()
    };
    for seed in 0..8 {
        assert_eq!(took("adaptive", seed), alone, "seed {seed}");
    }
    // A hash does not see what is free.
    assert!((0..8).any(|seed| took("plb", seed) > alone));
}

/// Queues fill up to `alpha B / (1 + k alpha)` of a buffer B where k of them are full, to a packet.
#[test]
fn full_queues_share_a_buffer() {
    // All under one leaf: three or more senders at line rate for each receiver.
    let spec = LeafSpineSpec {
        link_bps: RATE,
        link_delay_ps: Time::from_us(1),
        oversubscription: 1.0,
        radix: Some(16),
        splitting: Splitting::Ecmp,
    };
    let fabric = build(hosts(16, 2).cluster(), &spec.into(), 1, &[]).expect("a valid fabric");
    for (alpha, full) in [(1.0, 1u32), (1.0, 2), (0.5, 1), (0.25, 2), (4.0, 1), (8.0, 2)] {
        let buffer = 1 << 20;
        let mut engine = engine("dctcp", "round-robin");
        engine.spec.switch.overflow = shared_buffer(buffer, alpha);
        (engine.spec.switch.ecn_low, engine.spec.switch.ecn_high) =
            (Bytes::new(1 << 40), Bytes::new(1 << 40));
        // Windows that never end.
        let json = crate::transport_settings("dctcp").replace("null", "1000000000");
        engine.spec.transport = serde_json::from_str(&json).expect("settings");
        engine.spec.sample_period = Time::from_us(1);
        let flows = (0..6).map(|from| (from, 6 + from % full, 1_000_000));
        let (outcome, _) = run(&engine, &fabric, orders(&fabric, flows));
        let packets = outcome.packets.expect("counted");
        assert!(packets.drops > 0 && packets.trims == 0);
        let fair = alpha * buffer as f64 / (1.0 + f64::from(full) * alpha);
        for receiver in 6..6 + full {
            // They are full while all send: a megabyte takes 83 us.
            let at = into(&fabric, receiver) as u32;
            let sent = Time::from_us(40)..Time::from_us(70);
            let samples =
                packets.samples.iter().filter(|it| it.link == at && sent.contains(&it.at));
            let held: Vec<f64> = samples.map(|it| it.queued.get() as f64).collect();
            assert_eq!(held.len(), 30);
            let off = held.iter().map(|held| (held - fair).abs()).fold(0.0, f64::max);
            assert!(off < 2.0 * 4160.0 * (1.0 + alpha), "{alpha}, {full}: {off} B off {fair}");
        }
    }
}

/// The link from a switch into a host.
fn into(fabric: &Fabric, host: u32) -> usize {
    let node = fabric.nic_node(lightloom_fabric::NicId(host));
    let from_switch = |node: lightloom_fabric::NodeId| {
        matches!(fabric.nodes()[node.index()].kind, NodeKind::Switch { .. })
    };
    let found = fabric.links().iter().position(|link| {
        link.to == node && from_switch(link.from) && link.class == LinkClass::Host
    });
    found.expect("a host has a link")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Whatever the buffer: all bytes arrive, and no switch holds more than there is.
    #[test]
    fn a_shared_buffer_holds_what_it_holds(
        transport in prop::sample::select(vec!["spray", "ndp", "dctcp", "credit"]),
        buffer in 10_000u64..200_000, alpha in 1.0..16.0f64, train in 1u32..5, seed in 0u64..100,
        flows in prop::collection::vec((0u32..16, 1u32..16, 1u64..300_000), 1..30),
    ) {
        let fabric = hosts(16, 3);
        let mut spec = settings(transport, "round-robin");
        spec.switch.overflow = shared_buffer(buffer, alpha);
        spec.train = train;
        spec.sample_period = Time::from_us(1);
        let flows = flows.into_iter().map(|(from, by, bytes)| (from, (from + by) % 16, bytes));
        let flows: Vec<_> = flows.collect();
        let sent: u64 = flows.iter().map(|flow| flow.2).sum();
        let (outcome, ends) = run(&crate::PacketEngine::new(spec, seed), &fabric, orders(&fabric, flows));
        prop_assert_eq!(ends.iter().map(|end| end.0).sum::<u64>(), sent);
        let packets = outcome.packets.expect("counted");
        let mut held = std::collections::HashMap::new();
        for sample in &packets.samples {
            let from = fabric.links()[sample.link as usize].from;
            if matches!(fabric.nodes()[from.index()].kind, NodeKind::Switch { .. }) {
                *held.entry((sample.at, from)).or_insert(0) += sample.queued.get();
            }
        }
        prop_assert!(held.values().all(|&held| held <= buffer));
    }
}
