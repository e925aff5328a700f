//! Properties of schedules, whoever made them.

use super::*;
use lightloom_units::{BitRate, Bytes, Time};
use proptest::prelude::*;
use std::collections::HashMap;

fn planes(k: u32, dark_us: u64, latency_us: u64) -> Planes {
    Planes {
        planes: k,
        rate_bps: BitRate::from_gbps(100),
        reconfiguration_ps: Time::from_us(dark_us),
        latency_ps: Time::from_us(latency_us),
    }
}

type Rule = fn(&Planes, &Demand) -> Vec<Hold>;

/// What circuits carry; each port serial, each circuit dark first unless both ports were left so.
fn checked(planes: &Planes, n: usize, holds: &[Hold]) -> Vec<u64> {
    let mut carried = vec![0; n * n];
    let mut order: Vec<&Hold> = holds.iter().collect();
    order.sort_by_key(|h| h.dark_ps);
    let mut left: HashMap<(bool, u32, u32), (Time, u32)> = HashMap::new();
    for hold in order {
        let dark = if hold.set { planes.reconfiguration_ps } else { Time::ZERO };
        assert_eq!(hold.start_ps, hold.dark_ps + dark);
        let takes = planes.latency_ps + planes.rate_bps.time_for(hold.bytes);
        assert_eq!(hold.end_ps, hold.start_ps + takes);
        assert!(hold.bytes > Bytes::ZERO && hold.from != hold.to);
        for (sends, node, peer) in [(true, hold.from, hold.to), (false, hold.to, hold.from)] {
            let before = left.insert((sends, node, hold.plane), (hold.end_ps, peer));
            let (free, joined) = before.unwrap_or((Time::ZERO, u32::MAX));
            assert!(hold.dark_ps >= free, "{hold:?}");
            assert!(hold.set || joined == peer, "{hold:?}");
        }
        carried[hold.from as usize * n + hold.to as usize] += hold.bytes.get();
    }
    carried
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_byte_goes_once_and_never_too_soon(
        n in 1u32..9, k in 1u32..5,
        dark in prop_oneof![Just(0u64), 0u64..300], latency in prop_oneof![Just(0u64), 0u64..20],
        bytes in prop::collection::vec(prop_oneof![Just(0u64), 1u64..50, 1u64..9_000_000], 64),
    ) {
        let planes = planes(k, dark, latency);
        let demand = Demand::new(n, bytes[..(n * n) as usize].to_vec()).expect("valid");
        let (least, whole) = (bound(&planes, &demand), whole_bound(&planes, &demand));
        prop_assert!(least <= whole);
        for (rule, least) in [(ports as Rule, least), (matchings, whole)] {
            let holds = rule(&planes, &demand);
            prop_assert_eq!(&checked(&planes, n as usize, &holds), &demand.bytes);
            prop_assert!(completion(&holds) >= least);
            prop_assert_eq!(&holds, &rule(&planes, &demand));
            let plan = plan(&planes, &demand, &holds);
            prop_assert_eq!(plan.transmissions.len(), holds.len());
            prop_assert_eq!(plan.completion_ps, completion(&holds));
        }
    }
}

/// The best order of entries, unsplit, each on whichever plane: every one tried.
fn exhaustive(
    planes: &Planes,
    left: &mut Vec<(u32, u32, u64)>,
    free: &mut [Time],
    at: Time,
) -> Time {
    if left.is_empty() {
        return at;
    }
    let mut least = Time::MAX;
    for i in 0..left.len() {
        let (from, to, bytes) = left.swap_remove(i);
        for plane in 0..planes.planes {
            // Transmitters, then receivers, of three nodes on each plane.
            let (tx, rx) = ((plane * 6 + from) as usize, (plane * 6 + 3 + to) as usize);
            let before = (free[tx], free[rx]);
            let end = before.0.max(before.1)
                + planes.reconfiguration_ps
                + planes.latency_ps
                + planes.rate_bps.time_for(Bytes::new(bytes));
            (free[tx], free[rx]) = (end, end);
            least = least.min(exhaustive(planes, left, free, at.max(end)));
            (free[tx], free[rx]) = before;
        }
        left.push((from, to, bytes));
        let last = left.len() - 1;
        left.swap(i, last);
    }
    least
}

#[test]
fn tiny_demands_are_near_the_best_order() {
    let mut seed = 5u64;
    for _ in 0..40 {
        let bytes: Vec<u64> = (0..9)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 40) % 4 * 400_000
            })
            .collect();
        let planes = planes(2, 50, 1);
        let demand = Demand::new(3, bytes).expect("valid");
        let mut left: Vec<_> = demand.entries().collect();
        if left.len() > 5 {
            left.truncate(5);
        }
        let mut bytes = vec![0; 9];
        left.iter().for_each(|&(from, to, b)| bytes[(from * 3 + to) as usize] = b);
        let demand = Demand::new(3, bytes).expect("valid");
        let optimum = exhaustive(&planes, &mut left, &mut [Time::ZERO; 12], Time::ZERO);
        let found = completion(&ports(&planes, &demand));
        // Splitting an entry may do better than any order.
        assert!(found.ps() as f64 <= 1.05 * optimum.ps() as f64, "{found} {optimum} {demand:?}");
        assert!(found >= bound(&planes, &demand));
    }
}

#[test]
fn free_switching_switches_no_more_than_entries_end() {
    // Some entries hardly count beside others, and are far shorter.
    #[rustfmt::skip]
    let bytes = vec![
        0, 9, 8, 0, 0, 7_260_627, 35334, 4_468_286,
        15, 0, 0, 42, 44, 487_224, 15, 36,
        15, 19, 0, 0, 0, 5_581_699, 46, 33,
        8_377_906, 26, 16, 0, 43, 0, 0, 2_746_402,
        26, 47, 5_176_265, 6_603_507, 0, 2_828_543, 0, 35,
        5_768_442, 23, 43, 0, 34, 0, 4, 3_352_750,
        27, 0, 35, 0, 2_973_112, 0, 0, 0,
        0, 0, 0, 1_836_915, 12, 0, 0, 0,
    ];
    let demand = Demand::new(8, bytes).expect("valid");
    let planes = planes(2, 0, 0);
    let holds = matchings(&planes, &demand);
    let entries = demand.entries().count();
    assert!(holds.len() <= 8 * entries, "{} circuits of {entries} entries", holds.len());
    assert_eq!(checked(&planes, 8, &holds), demand.bytes);
    assert!(completion(&holds).ps() as f64 <= 1.1 * bound(&planes, &demand).ps() as f64);
}

#[test]
fn extremes() {
    let nothing = Demand::new(3, vec![7, 0, 0, 0, 7, 0, 0, 0, 7]).expect("valid");
    let planes = planes(2, 20, 1);
    assert_eq!([ports, matchings].map(|rule| rule(&planes, &nothing)), [[], []]);
    assert_eq!(bound(&planes, &nothing), Time::ZERO);
    // One entry: over both planes.
    let one = Demand::new(2, vec![0, 25_000_000, 0, 0]).expect("valid");
    assert_eq!(completion(&ports(&planes, &one)), Time::from_us(20 + 1 + 1000));
    assert_eq!(Demand::new(0, vec![]), Err(DemandError::Nodes(0)));
    assert_eq!(Demand::new(2, vec![0, 1 << 51, 0, 0]), Err(DemandError::Large));
    assert_eq!(Demand::new(2, vec![0, u64::MAX, 9, 0]), Err(DemandError::Large));
}
