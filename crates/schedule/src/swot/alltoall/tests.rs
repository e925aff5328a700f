//! Properties of schedules, whoever made them.

use super::*;
use lightloom_units::BitRate;
use proptest::prelude::*;

fn planes(k: u32, dark_us: u64, latency_us: u64) -> Planes {
    Planes {
        planes: k,
        rate_bps: BitRate::from_gbps(100),
        reconfiguration_ps: Time::from_us(dark_us),
        latency_ps: Time::from_us(latency_us),
    }
}

/// What circuits carry, each port serial, each circuit dark first unless it stands.
fn checked(planes: &Planes, n: usize, holds: &[Hold], state: &PortState) -> Vec<u64> {
    let mut carried = vec![0; n * n];
    let mut order: Vec<&Hold> = holds.iter().collect();
    order.sort_by_key(|h| (h.dark_ps, h.start_ps));
    let mut ports = state.clone();
    for hold in order {
        let (tx, rx) = (ports.at(hold.plane, hold.from), ports.at(hold.plane, hold.to));
        assert!(hold.dark_ps >= ports.tx_free[tx] && hold.dark_ps >= ports.rx_free[rx], "{hold:?}");
        let dark = hold.start_ps - hold.dark_ps;
        if dark == Time::ZERO && planes.reconfiguration_ps > Time::ZERO {
            assert!(ports.stands(hold.plane, hold.from, hold.to), "{hold:?}");
        } else {
            assert_eq!(dark, planes.reconfiguration_ps);
        }
        let takes = planes.latency_ps + planes.rate_bps.time_for(hold.bytes);
        assert_eq!(hold.end_ps, hold.start_ps + takes);
        assert!(hold.bytes > Bytes::ZERO && hold.from != hold.to);
        carried[hold.from as usize * n + hold.to as usize] += hold.bytes.get();
        ports.hold(hold.plane, hold.from, hold.to, hold.end_ps);
    }
    carried
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_byte_goes_once_and_never_too_soon(
        n in 1u32..9, k in 1u32..5, dark in 0u64..300, latency in 0u64..20,
        bytes in prop::collection::vec(prop_oneof![Just(0u64), 1u64..50, 1u64..9_000_000], 64),
    ) {
        let planes = planes(k, dark, latency);
        let demand = Demand::new(n, bytes[..(n * n) as usize].to_vec()).expect("valid");
        let state = PortState::dark(k, n);
        let least = bound(&planes, &demand);
        for holds in [ports(&planes, &demand, &state), matchings(&planes, &demand)] {
            prop_assert_eq!(&checked(&planes, n as usize, &holds, &state), &demand.bytes);
            prop_assert!(completion(&holds) >= least);
        }
        let (holds, _) = best(&planes, &demand);
        prop_assert_eq!(&holds, &best(&planes, &demand).0);
        let plan = plan(&planes, &demand, &holds);
        prop_assert_eq!(plan.transmissions.len(), holds.len());
        prop_assert_eq!(plan.completion_ps, completion(&holds));
    }

    /// Ports that are joined and taken in any way.
    #[test]
    fn what_stands_costs_nothing(
        bytes in prop::collection::vec(0u64..5_000_000, 25),
        joined in prop::collection::vec((0u32..2, 0u32..5, 0u32..5, 0u64..500), 0..8),
    ) {
        let planes = planes(2, 100, 1);
        let demand = Demand::new(5, bytes).expect("valid");
        let mut state = PortState::dark(2, 5);
        for (plane, from, to, us) in joined {
            let (tx, rx) = (state.at(plane, from), state.at(plane, to));
            let free = state.tx_free[tx].max(state.rx_free[rx]) + Time::from_us(us);
            if from != to {
                state.hold(plane, from, to, free);
            }
        }
        let holds = ports(&planes, &demand, &state);
        prop_assert_eq!(&checked(&planes, 5, &holds, &state), &demand.bytes);
    }
}

#[test]
fn a_standing_circuit_is_used() {
    let planes = planes(1, 100, 0);
    let demand = Demand::new(2, vec![0, 1_000_000, 0, 0]).expect("valid");
    let mut state = PortState::dark(1, 2);
    state.hold(0, 0, 1, Time::from_us(3));
    assert_eq!(completion(&ports(&planes, &demand, &state)), Time::from_us(83));
}

/// The best order of entries, unsplit, each on whichever plane: every one tried.
fn exhaustive(
    planes: &Planes,
    left: &mut Vec<(u32, u32, u64)>,
    state: &PortState,
    at: Time,
) -> Time {
    if left.is_empty() {
        return at;
    }
    let mut least = Time::MAX;
    for i in 0..left.len() {
        let (from, to, bytes) = left.swap_remove(i);
        for plane in 0..planes.planes {
            let (tx, rx) = (state.at(plane, from), state.at(plane, to));
            let dark = state.tx_free[tx].max(state.rx_free[rx]);
            let end = dark
                + planes.reconfiguration_ps
                + planes.latency_ps
                + planes.rate_bps.time_for(Bytes::new(bytes));
            let mut next = state.clone();
            next.hold(plane, from, to, end);
            least = least.min(exhaustive(planes, left, &next, at.max(end)));
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
        let state = PortState::dark(2, 3);
        let optimum = exhaustive(&planes, &mut left, &state, Time::ZERO);
        let found = completion(&ports(&planes, &demand, &state));
        // Splitting an entry may do better than any order.
        assert!(found.ps() as f64 <= 1.05 * optimum.ps() as f64, "{found} {optimum} {demand:?}");
        assert!(found >= bound(&planes, &demand));
    }
}

#[test]
fn extremes() {
    let nothing = Demand::new(3, vec![7, 0, 0, 0, 7, 0, 0, 0, 7]).expect("valid");
    let planes = planes(2, 20, 1);
    assert_eq!(best(&planes, &nothing).0, []);
    assert_eq!(bound(&planes, &nothing), Time::ZERO);
    // One entry: over both planes.
    let one = Demand::new(2, vec![0, 25_000_000, 0, 0]).expect("valid");
    assert_eq!(completion(&best(&planes, &one).0), Time::from_us(20 + 1 + 1000));
    assert_eq!(Demand::new(0, vec![]), Err(DemandError::Nodes(0)));
    assert_eq!(Demand::new(2, vec![0, 1 << 51, 0, 0]), Err(DemandError::Large));
    assert_eq!(Demand::new(2, vec![0, u64::MAX, 9, 0]), Err(DemandError::Large));
}
