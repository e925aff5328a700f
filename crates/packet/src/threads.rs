//! Any number of threads gives the same bits.

use crate::tests::{hosts, names, orders, run};
use crate::{BALANCERS, PacketEngine, TRANSPORTS, settings};
use lightloom_engine::Orders;
use lightloom_fabric::{ClosSpec, Cluster, NicId, RailOptimized, Splitting, build};
use lightloom_units::{BitRate, Bytes, Time};
use proptest::prelude::*;

fn with_threads(transport: &str, balancer: &str, seed: u64, threads: usize) -> PacketEngine {
    PacketEngine { threads, ..PacketEngine::new(settings(transport, balancer), seed) }
}

#[test]
fn threads_change_nothing() {
    let fabric = hosts(32, 3);
    let flows: Vec<_> = (0..32u32)
        .flat_map(|i| [(i, (i + 9) % 32, 60_000), (i, 31 - i, 30_000), (i, 7, 5_000)])
        .filter(|&(from, to, _)| from != to)
        .collect();
    for transport in names(&TRANSPORTS) {
        for balancer in names(&BALANCERS) {
            let run_with = |threads| {
                let engine = with_threads(transport, balancer, 3, threads);
                run(&engine, &fabric, orders(&fabric, flows.clone()))
            };
            let alone = run_with(1);
            let others: &[usize] = if balancer == "round-robin" { &[2, 3, 8] } else { &[3] };
            for &threads in others {
                assert!(run_with(threads) == alone, "{transport}, {balancer}, {threads} threads");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// ... whatever is sent when, over however many lanes, and however full queues are.
    #[test]
    fn threads_change_nothing_for_lanes(
        transport in prop::sample::select(names(&TRANSPORTS)),
        balancer in prop::sample::select(names(&BALANCERS)), queue in 5_000u64..40_000,
        threads in 2usize..9, train in 1u32..9,
        flows in prop::collection::vec((0u32..16, 0u32..16, 1u64..200_000, 1u32..5), 1..30),
    ) {
        let cluster = Cluster { gpus_per_server: 4, nics_per_server: 4, ..hosts(16, 2).cluster().clone() };
        let rate = BitRate::from_gbps(100);
        let spec = RailOptimized(ClosSpec {
            splitting: Splitting::Ecmp,
            tiers: 2,
            ..ClosSpec::new(rate, Time::from_us(1))
        });
        let fabric = build(&cluster, &spec.into(), 1, &[]).expect("a valid fabric");
        let mut orders = Orders::default();
        for &(from, to, bytes, lanes) in flows.iter().filter(|f| f.0 / 4 != f.1 / 4) {
            for lane in 0..lanes {
                let nic = from / 4 * 4 + (from + lane) % 4;
                fabric.nic_route(NicId(nic), NicId(to), 0, orders.path()).expect("NICs");
                orders.lane();
            }
            orders.flow(Bytes::new(bytes));
        }
        orders.end_phase(Time::ZERO);
        let run_with = |threads| {
            let mut engine = with_threads(transport, balancer, 1, threads);
            engine.spec.switch.queue = Bytes::new(queue);
            engine.spec.train = train;
            run(&engine, &fabric, orders.clone())
        };
        prop_assert!(run_with(1) == run_with(threads));
    }
}
