//! Packets that travel together.

use crate::tests::{hosts, names, orders, run};
use crate::{BALANCERS, PacketEngine, TRANSPORTS, engine, settings};
use lightloom_fabric::{ClosSpec, Cluster, FatTree, build};
use lightloom_units::{BitRate, Bytes, Time};
use proptest::prelude::*;

/// A train is at each switch as soon as its first packet is, so one flow by itself takes as long as packet by
/// packet, and needs fewer events.
#[test]
fn one_flow_takes_as_long_by_trains() {
    let fabric = hosts(8, 2);
    let wire = |payload: u64| (payload + 64) * 80; // 80 ps a byte at 100 Gbps
    for transport in ["roce", "dcqcn"] {
        for train in [1, 2, 4, 15] {
            let mut engine = engine(transport, "ecmp");
            engine.spec.train = train;
            let (outcome, _) = run(&engine, &fabric, orders(&fabric, [(0, 7, 600 * 4096)]));
            assert_eq!(outcome.makespan.ps(), (600 + 3) * wire(4096) + 4_000_000, "{transport}");
            let packets = outcome.packets.expect("counted");
            assert_eq!(
                (packets.data, packets.links.iter().map(|l| l.packets).max()),
                (600, Some(600))
            );
            assert!(outcome.events <= 600 * 11 / u64::from(train) + 20, "{}", outcome.events);
        }
    }
}

/// The same inside a server, where packets are larger: two links, a switch between them.
#[test]
fn one_flow_inside_a_server_takes_as_long_by_trains() {
    let cluster = Cluster { scale_up_bps: BitRate::from_gbps(3600), ..Cluster::of(16, 8) };
    let clos = ClosSpec::new(BitRate::from_gbps(100), Time::from_us(1));
    let fabric = build(&cluster, &FatTree(clos).into(), 1, &[]).expect("a valid fabric");
    let mut alone = None;
    for train in [1, 2, 4, 15] {
        let mut engine = engine("roce", "ecmp");
        engine.spec.train = train;
        let mtu = engine.spec.scale_up_mtu.get();
        let (outcome, _) = run(&engine, &fabric, orders(&fabric, [(0, 7, 600 * mtu)]));
        let packets = outcome.packets.expect("counted");
        let (one, events) = *alone.get_or_insert((outcome.makespan, outcome.events));
        // The time of each event on a link is rounded up by less than a picosecond.
        assert!((0..=600).contains(&(one.ps() - outcome.makespan.ps())), "{train}");
        assert_eq!((packets.data, packets.links.iter().map(|l| l.packets).max()), (600, Some(600)));
        assert!(outcome.events <= events / u64::from(train) + 20, "{}", outcome.events);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// All bytes arrive once, and no link carries more than it can (but for a train that has begun), whatever trains are cut, lost, trimmed
    /// and sent again.
    #[test]
    fn all_bytes_arrive_by_trains(
        transport in prop::sample::select(names(&TRANSPORTS)),
        balancer in prop::sample::select(names(&BALANCERS)), seed in 0u64..1000, ack_every in 1u32..9,
        queue in 5_000u64..60_000, train in 2u32..16,
        flows in prop::collection::vec((0u32..16, 1u32..16, 1u64..400_000), 1..40),
    ) {
        let fabric = hosts(16, 3);
        let mut spec = settings(transport, balancer);
        (spec.switch.queue, spec.ack_every, spec.train) = (Bytes::new(queue), ack_every, train);
        let flows: Vec<_> = flows.iter().map(|&(a, step, bytes)| (a, (a + step) % 16, bytes)).collect();
        let total: u64 = flows.iter().map(|f| f.2).sum();
        let (outcome, ends) = run(&PacketEngine::new(spec, seed), &fabric, orders(&fabric, flows));
        prop_assert_eq!(ends.iter().map(|e| e.0).sum::<u64>(), total);
        for (link, carried) in fabric.links().iter().zip(&outcome.link_bytes) {
            prop_assert!(link.rate.time_for(*carried) <= outcome.makespan + Time::from_us(6));
        }
        let packets = outcome.packets.expect("counted");
        prop_assert!(packets.resent >= packets.trims && packets.data >= packets.resent);
    }
}
