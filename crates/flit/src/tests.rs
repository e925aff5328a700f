//! What every network must show: nothing lost, no channel too full, latencies flit by flit, the same
//! bits on any number of threads.

use crate::measure;
use crate::measure::Measured;
use crate::settings::{Arbitration, Credits, Settings};
use crate::traffic::Traffic;
use lightloom_fabric::routers::{ChannelKind, Choice, Network, Routing};
use proptest::prelude::*;

/// Routers in a row; packets go straight.
struct Line {
    vcs: u8,
}

fn line(routers: u32, width: u16, delay: u16, vcs: u8) -> (Network, Line) {
    let mut network = Network::new("line", routers);
    for router in 0..routers {
        network.terminal(router);
    }
    for router in 1..routers {
        network.duplex(router - 1, router, width, delay, ChannelKind::Long);
    }
    (network, Line { vcs })
}

impl Routing for Line {
    fn name(&self) -> &'static str {
        "line"
    }
    fn vcs(&self) -> u8 {
        self.vcs
    }
    fn route(&self, at: u32, _: Option<(u16, u8)>, to: u32, _: u32, choices: &mut Vec<Choice>) {
        // Port 0 of the first router leads right; others have left, then right.
        let port = if to < at || at == 0 { 0 } else { 1 };
        choices.extend((0..self.vcs).map(|vc| Choice::new(port, vc)));
    }
}

fn run(network: &Network, routing: &Line, traffic: &Traffic, load: f64, s: &Settings) -> Measured {
    measure(network, routing, traffic, load, s, 1, &mut |_| true).expect("a sound network")
}

fn one_way(routers: u32) -> Traffic {
    // The first to the last, the last to the first, the others silent.
    let mut to: Vec<u32> = (0..routers).collect();
    to.swap(0, routers as usize - 1);
    Traffic::Permutation(to)
}

fn quick() -> Settings {
    Settings { warm_up: 500, cycles: 3_000, ..Settings::default() }
}

#[test]
fn latency_without_contention_is_counted_cycle_by_cycle() {
    // Each channel: a cycle to be allocated it, one to switch, one and its delay to arrive. Then
    // allocation, switching and the rest of the packet, as fast as the narrowest channel.
    for (routers, width, delay, pipeline) in
        [(2, 1, 1, 0), (5, 1, 10, 0), (4, 4, 3, 0), (3, 2, 1, 2)]
    {
        let (network, routing) = line(routers, width, delay, 2);
        let settings = Settings { pipeline, ..quick() };
        let measured = run(&network, &routing, &one_way(routers), 0.004, &settings);
        let hop = 2 + u64::from(delay) + u64::from(pipeline);
        let tail = 4u64.div_ceil(width.into()) - 1;
        let expected = u64::from(routers - 1) * hop + 2 + tail;
        assert_eq!(measured.least_latency, expected, "{routers} {width} {delay} {pipeline}");
        assert_eq!(measured.mean_hops, f64::from(routers - 1));
    }
}

#[test]
fn one_channel_carries_a_packet_and_a_cycle_of_allocation() {
    // One VC with instant credits: four flits, then a cycle in which the next packet is given the VC.
    let (network, routing) = line(2, 1, 10, 1);
    let settings = Settings { vcs: 1, injection_vcs: 4, ..quick() };
    let one = run(&network, &routing, &one_way(2), 2.0, &settings);
    assert!((one.accepted - 0.8).abs() < 0.01, "{}", one.accepted);
    assert!(one.unstable);
    // Two VCs hide it.
    let (network, routing) = line(2, 1, 10, 2);
    let two = run(&network, &routing, &one_way(2), 2.0, &Settings { vcs: 2, ..settings.clone() });
    assert!((two.accepted - 1.0).abs() < 0.01, "{}", two.accepted);
    // Credits that travel hold one VC of 16 flits to a buffer a round trip.
    let (network, routing) = line(2, 1, 10, 1);
    let real = Settings { credits: Credits::Link, ..settings };
    let slow = run(&network, &routing, &one_way(2), 2.0, &real);
    assert!((0.5..0.75).contains(&slow.accepted), "{}", slow.accepted);
}

#[test]
fn a_wide_channel_carries_what_ends_take() {
    let (network, routing) = line(3, 4, 1, 4);
    let settings = Settings { injection: 8, ejection: 2, ..quick() };
    let measured = run(&network, &routing, &one_way(3), 6.0, &settings);
    assert!((measured.accepted * 3.0 / 2.0 - 2.0).abs() < 0.02, "{}", measured.accepted);
}

#[test]
fn the_largest_buffer_does_not_count_as_busy() {
    let (network, routing) = line(3, 1, 1, 2);
    let settings = Settings { buffer: 32_767, ..quick() };
    let measured = run(&network, &routing, &one_way(3), 0.3, &settings);
    assert!(measured.accepted > 0.15, "{}", measured.accepted);
}

#[test]
fn settings_and_traffic_that_cannot_be_are_refused() {
    let (network, routing) = line(3, 1, 1, 2);
    let try_with = |load: f64, traffic: Traffic, settings: Settings| {
        measure(&network, &routing, &traffic, load, &settings, 1, &mut |_| true)
            .expect_err("refused")
            .to_string()
    };
    let uniform = || Traffic::Uniform { to_self: false };
    for (change, says) in [
        (Settings { vcs: 1, ..quick() }, "vcs = 1: the routing function needs at least 2"),
        (Settings { buffer: 3, ..quick() }, "buffer = 3: a buffer must hold a whole packet"),
        (Settings { packet: 0, ..quick() }, "packet = 0: must be from 1 to 255"),
        (Settings { buffer: 32_768, ..quick() }, "buffer = 32768: must be from 1 to 32767"),
        (Settings { warm_up: 3_000, ..quick() }, "warm_up = 3000: must be below cycles = 3000"),
    ] {
        let said = try_with(0.1, uniform(), change);
        assert!(said.starts_with(says), "{said}");
    }
    for load in [0.0, -1.0, f64::NAN, 9.0] {
        assert!(try_with(load, uniform(), quick()).contains("must be above 0 and at most"));
    }
    for traffic in [
        Traffic::Permutation(vec![1, 1, 0]),
        Traffic::HotSpot { terminals: vec![3], share: 0.5 },
        Traffic::Ring { order: vec![0, 1] },
        Traffic::Matrix(vec![0.0; 9]),
    ] {
        assert!(try_with(0.1, traffic, quick()).starts_with("traffic: "));
    }
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let (network, routing) = line(3, 1, 1, 2);
    let stopped =
        measure(&network, &routing, &Traffic::AllToAll, 0.1, &quick(), 1, &mut |done| done < 0.5);
    assert_eq!(stopped.expect_err("stopped").to_string(), "interrupted");
}

/// Round a ring, one way, on one virtual channel; a packet enters where there is room for so many.
struct Round {
    room: u8,
}

impl Routing for Round {
    fn name(&self) -> &'static str {
        "round"
    }
    fn vcs(&self) -> u8 {
        1
    }
    fn route(&self, at: u32, came: Option<(u16, u8)>, _: u32, _: u32, choices: &mut Vec<Choice>) {
        // Router 0's first port leads out; all others' first leads in.
        let (port, room) = (u16::from(at != 0), if came.is_none() { self.room } else { 1 });
        choices.push(Choice { port, vc: 0, rank: 0, room });
    }
}

#[test]
fn a_full_ring_goes_round_by_its_bubbles() {
    let mut network = Network::new("ring", 6);
    for at in 0..6 {
        network.terminal(at);
        network.simplex(at, (at + 1) % 6, 1, 1, ChannelKind::Long);
    }
    let settings = Settings { buffer: 8, ..quick() };
    let of = |room| {
        measure(&network, &Round { room }, &Traffic::AllToAll, 0.9, &settings, 1, &mut |_| true)
    };
    assert!(of(2).expect("bubbles keep it going").accepted > 0.1);
    assert!(of(1).expect_err("it fills up").to_string().contains("deadlock"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    /// What is offered below saturation arrives, no channel carries more than it can, and threads
    /// change no bit.
    #[test]
    fn flits_are_conserved_on_any_number_of_threads(
        routers in 130u32..180,
        width in 1u16..4,
        delay in 0u16..12,
        load in 0.002f64..0.008,
        credits in prop_oneof![Just(Credits::Ideal), Just(Credits::Link)],
        arbitration in prop_oneof![Just(Arbitration::RoundRobin), Just(Arbitration::Oldest)],
        seed in 0u64..1_000,
    ) {
        // Enough creation at silent routers' neighbours that several threads are worth it.
        let (network, routing) = line(routers, width, delay, 3);
        let order: Vec<u32> = (0..routers).collect();
        let settings = Settings { credits, arbitration, seed, injection: 2, ..quick() };
        let ring = Traffic::Ring { order };
        let at = |threads| {
            measure(&network, &routing, &ring, load * 100.0, &settings, threads, &mut |_| true)
                .expect("a sound network")
        };
        let one = at(1);
        prop_assert!(one.busiest <= 1.0 + 1e-9);
        prop_assert!(one.accepted <= one.offered * 1.1);
        if load * 100.0 < 0.5 {
            prop_assert!((one.accepted / one.offered - 1.0).abs() < 0.05, "{one:?}");
        }
        for threads in 2..=3 {
            prop_assert_eq!(&at(threads), &one);
        }
    }
}
