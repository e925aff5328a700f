//! Connections break, or move little at a time: bytes still arrive, each at its place.

use crate::choppy::Choppy;
use crate::cluster::{Cluster, PATIENCE, Size, calm};
use crate::proxy::Proxy;
use lightloom_runtime::exchange::{LaneId, Statistics};
use lightloom_runtime::net::Tcp;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[test]
fn connections_that_break_lose_nothing() {
    let size: Size = |from, to, number| 3_000_000 + usize::from(from + to) * 1000 + number as usize;
    let proxies = Mutex::new(Vec::new());
    let through = |me, peer, at| {
        if me > peer {
            return at; // the lesser dials
        }
        let proxy = Proxy::to(at);
        let address = proxy.address;
        proxies.lock().expect("whole").push(proxy);
        address
    };
    let cluster = Cluster::over(2, 2, calm, |_| Tcp::default(), through);
    let proxies = proxies.into_inner().expect("whole");
    for number in 0..8 {
        cluster.await_lanes();
        // One of the two is cut once some of the operation has gone through it.
        let proxy = &proxies[number as usize % 2];
        let (before, began) = (proxy.carried(), Instant::now());
        cluster.post_all(1, number, size);
        while proxy.carried() < before + 1_000_000 && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(200));
        }
        proxy.cut();
        cluster.expect_done(2, size);
    }
    let sum = |it: &lightloom_runtime::exchange::Exchange| {
        let mut sum = Statistics::default();
        (0..2).for_each(|lane| sum += it.statistics(LaneId(lane)));
        sum
    };
    let sum = cluster.node(0).ask(sum).expect("it runs");
    assert!(sum.breaks >= 6 && sum.resent > 0, "{sum:?}");
}

#[test]
fn a_few_bytes_at_a_time_are_enough() {
    let size: Size =
        |from, to, number| (usize::from(from * 3 + to) * 9001 + number as usize * 400) % 60_000;
    let cluster = Cluster::over(3, 2, calm, |me| Choppy(u64::from(me) + 1), |_, _, at| at);
    for number in 0..6 {
        cluster.post_all(1, number, size);
    }
    cluster.expect_done(18, size);
}
