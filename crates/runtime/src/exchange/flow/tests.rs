use super::*;
use lightloom_packet::BalancerSpec;
use proptest::prelude::*;

const KIB: u64 = 1 << 10;

fn balancer(kind: &str, paths: u16) -> LoneBalancer {
    let more = match kind {
        "reps" => r#", "paths": 64"#,
        "plb" => r#", "marked_share": 0.5, "rounds": 3, "rounds_busy": 12"#,
        _ => "",
    };
    let spec = format!(r#"{{"kind": {kind:?}{more}}}"#);
    let spec: BalancerSpec = serde_json::from_str(&spec).expect("a balancer");
    LoneBalancer::new(&spec, paths, 5)
}

/// A flow of so many chunks of 1 KiB, over so many NICs with so many lanes each: lane `10 * nic + path`.
fn flow(kind: &str, nics: u16, lanes: u32, window: u64, chunks: u32) -> (Flows, Vec<Chunk>) {
    let subflow = |nic: u16| SubFlow {
        nic,
        lanes: (0..lanes).map(|path| LaneId(10 * u32::from(nic) + path)).collect(),
        balancer: balancer(kind, lanes as u16),
    };
    let subflows = (0..nics).map(subflow).collect();
    let flow = Flow { peer: 1, window, subflows, chunks: (0..chunks).collect() };
    let chunk = |at: u32| Chunk {
        peer: 1,
        lane: LaneId(0),
        offset: u64::from(at) * KIB,
        length: KIB as u32,
    };
    let order: Vec<u32> = (0..chunks).collect();
    (Flows::new(vec![flow], &order), (0..chunks).map(chunk).collect())
}

fn ms(ms: u64) -> Time {
    Time::from_ms(ms)
}

/// All that may leave now.
fn leave(flows: &mut Flows, chunks: &[Chunk], now: Time) -> Vec<(u32, u32)> {
    std::iter::from_fn(|| flows.next(0, chunks, now)).map(|(chunk, lane)| (chunk, lane.0)).collect()
}

#[test]
fn the_windows_of_a_flow_and_of_its_subflows_hold() {
    let (mut flows, chunks) = flow("min-rtt", 3, 1, 6 * KIB, 20);
    let out = leave(&mut flows, &chunks, ms(0));
    let mut lanes: Vec<u32> = out.iter().map(|it| it.1).collect();
    lanes.sort_unstable();
    assert_eq!(lanes, [0, 0, 10, 10, 20, 20], "two of six at each NIC");
    assert_eq!(flows.acknowledged(3, ms(1)), Some(0));
    assert_eq!(leave(&mut flows, &chunks, ms(1)).len(), 1);
    assert_eq!(flows.acknowledged(3, ms(2)), None, "twice");
}

#[test]
fn a_chunk_that_is_longer_than_the_window_goes_alone() {
    let (mut flows, chunks) = flow("ecmp", 1, 1, KIB / 2, 3);
    assert_eq!(leave(&mut flows, &chunks, ms(0)), [(0, 0)]);
    flows.acknowledged(0, ms(1));
    assert_eq!(leave(&mut flows, &chunks, ms(1)), [(1, 0)]);
}

#[test]
fn the_nic_with_the_shortest_round_trip_sends_if_it_has_room() {
    let (mut flows, chunks) = flow("min-rtt", 3, 1, 3 * KIB, 20);
    let out = leave(&mut flows, &chunks, ms(0));
    let lane = |chunk: u32| out.iter().find(|it| it.0 == chunk).expect("it has left").1;
    // NIC 1 is quick, NIC 2 is slow, NIC 0 in between; then all have room.
    for (nic, late) in [(1, 1), (0, 3), (2, 9)] {
        let chunk = out.iter().find(|it| it.1 == 10 * nic).expect("each has one").0;
        flows.acknowledged(chunk, ms(late));
    }
    assert_eq!([lane(0), lane(1), lane(2)], [0, 10, 20]);
    let order: Vec<u32> = leave(&mut flows, &chunks, ms(9)).iter().map(|it| it.1).collect();
    assert_eq!(order, [10, 0, 20]);
}

#[test]
fn reps_takes_again_what_was_quick_and_leaves_what_was_slow() {
    let (mut flows, chunks) = flow("reps", 1, 4, 4 * KIB, 40);
    let mut out = leave(&mut flows, &chunks, ms(0));
    let mut now = 0;
    // Lane 2 takes ten times as long as the others.
    let mut taken = [0; 4];
    for _ in 0..8 {
        let (slow, quick): (Vec<_>, Vec<_>) = out.into_iter().partition(|it| it.1 == 2);
        for (chunks, late) in [(quick, 1), (slow, 10)] {
            for (chunk, _) in chunks {
                assert_eq!(flows.acknowledged(chunk, ms(now + late)), Some(0));
            }
        }
        now += 10;
        out = leave(&mut flows, &chunks, ms(now));
        out.iter().for_each(|it| taken[it.1 as usize] += 1);
    }
    assert_eq!(taken.iter().sum::<u32>(), 32);
    assert!((0..4).all(|at| at == 2 || taken[at] > 2 * taken[2]), "{taken:?}");
}

#[test]
fn plb_moves_when_its_chunks_are_slower_than_others_of_the_nic() {
    // Two flows of one NIC; the first one's lane becomes slow.
    let (mut one, chunks) = flow("plb", 1, 64, KIB, 40);
    let (other, _) = flow("plb", 1, 64, KIB, 40);
    let mut second = other.all[0].clone();
    second.waiting = (40..80).collect();
    one.of.extend((40..80).map(|chunk| (chunk, 1)));
    one.all.push(second);
    let chunks = [chunks.clone(), chunks].concat();
    let (mut lanes, mut now) = (Vec::new(), 0);
    for _ in 0..12 {
        let (slow, lane) = one.next(0, &chunks, ms(now)).expect("room");
        let (quick, _) = one.next(1, &chunks, ms(now)).expect("room");
        lanes.push(lane);
        one.acknowledged(quick, ms(now + 1));
        one.acknowledged(slow, ms(now + 9));
        now += 9;
    }
    lanes.dedup();
    assert!(lanes.len() > 1 && lanes.len() < 7, "after some slow rounds, not at once: {lanes:?}");
}

#[test]
fn ecmp_keeps_its_lane_and_round_robin_goes_round() {
    let (mut flows, chunks) = flow("ecmp", 1, 4, 8 * KIB, 8);
    let out = leave(&mut flows, &chunks, ms(0));
    assert!(out.iter().all(|it| it.1 == out[0].1) && out.len() == 8);
    let (mut flows, chunks) = flow("round-robin", 1, 3, 8 * KIB, 7);
    let lanes: Vec<u32> = leave(&mut flows, &chunks, ms(0)).iter().map(|it| it.1).collect();
    assert_eq!(lanes, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn chunks_are_found_where_sorting_has_put_them() {
    let flow = Flow {
        peer: 1,
        window: KIB,
        subflows: vec![SubFlow { nic: 0, lanes: vec![LaneId(0)], balancer: balancer("ecmp", 1) }],
        chunks: vec![2],
    };
    // The plan's chunks 0, 1, 2 have gone to places 1, 2, 0.
    let flows = Flows::new(vec![flow], &[2, 0, 1]);
    assert_eq!([0, 1, 2].map(|chunk| flows.of(chunk)), [Some(0), None, None]);
    assert_eq!((flows.to(1), flows.to(2)), (vec![0], vec![]));
}

proptest! {
    /// Whatever is acknowledged when: nothing is lost, nothing goes twice, and the window holds.
    #[test]
    fn every_chunk_leaves_once(
        kind in prop::sample::select(vec!["ecmp", "plb", "reps", "min-rtt", "round-robin"]),
        nics in 1u16..5, lanes in 1u32..5, window in 1u64..9, count in 0u32..40, seed: u64,
    ) {
        let (mut flows, chunks) = flow(kind, nics, lanes, window * KIB, count);
        let (mut left, mut flying, mut now) = (Vec::new(), Vec::new(), 0);
        loop {
            flying.extend(leave(&mut flows, &chunks, ms(now)).into_iter().map(|it| it.0));
            prop_assert!(flying.len() as u64 <= window);
            if flying.is_empty() {
                break;
            }
            now += 1 + seed % 3;
            let at = (seed as usize).wrapping_add(now as usize) % flying.len();
            let chunk = flying.swap_remove(at);
            left.push(chunk);
            prop_assert_eq!(flows.acknowledged(chunk, ms(now)), Some(0));
        }
        left.sort_unstable();
        prop_assert_eq!(left, (0..count).collect::<Vec<_>>());
        prop_assert!(flows.nics.values().all(|nic| nic.bytes == 0));
    }
}
