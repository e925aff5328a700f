//! Tests of placements.

use super::lanes::candidates;
use super::*;
use crate::bandwidth::{Objective, Share, Turns};
use crate::volume::Work;
use lightloom_workload::{Parallelism, example};
use proptest::prelude::*;

fn hall(mesh: u32, ports: u32, ocs: u32) -> Hall {
    let port_bytes_per_s = 1e11;
    Hall { mesh, ports, ocs, inside: 4.0, port_bytes_per_s, hop_s: 3e-7, uneven: false }
}

fn phase(degrees: [u32; 5], sequence_length: u32) -> Phase {
    let [tp, cp, ep, dp, pp] = degrees;
    let work = Work {
        model: example::mixtral_8x7b().model,
        parallelism: Parallelism { tp, cp, ep, etp: None, dp, pp },
        sequence_length,
        micro_batch: 1,
        micro_batches: 16,
        activation_bytes: 2,
        gradient_bytes: 2,
    };
    Phase { weight: 1.0, traffic: work.traffic(), turns: 256.0 }
}

fn question(hall: Hall, degrees: [u32; 5], phases: &[Phase]) -> Question<'_> {
    let objective = Objective::Total;
    Question { hall, degrees, phases, hidden_s: [0.0; 5], objective, turns: None }
}

/// Every way to deal the units of both axes.
fn splits(shares: &[Share], units: u32) -> Vec<Vec<u32>> {
    let mut all = vec![Vec::new()];
    for (at, share) in shares.iter().enumerate() {
        let deal = |given: Vec<u32>| {
            let used: u32 =
                (0..at).filter(|&i| shares[i].pool == share.pool).map(|i| given[i]).sum();
            (share.least..=units - used.min(units)).map(move |n| [&given[..], &[n]].concat())
        };
        all = all.into_iter().flat_map(deal).collect();
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Chunk by chunk, each taking the dimension with the most to do last, the bound is reached.
    #[test]
    fn orders_of_chunks_reach_the_bound(
        dimensions in prop::collection::vec((2u32..6, 1u32..10), 1..5),
    ) {
        let dimensions: Vec<(u32, f64)> =
            dimensions.into_iter().map(|(p, rate)| (p, rate.into())).collect();
        let mut times = vec![0.0f64; dimensions.len()];
        let chunks = 20_000;
        for _ in 0..chunks {
            let mut order: Vec<usize> = (0..dimensions.len()).collect();
            order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
            let mut left = 1.0 / f64::from(chunks);
            for at in order {
                let (members, rate) = dimensions[at];
                times[at] += left * f64::from(members - 1) / f64::from(members) / rate;
                left /= f64::from(members);
            }
        }
        let slowest = times.iter().copied().fold(0.0, f64::max);
        let bound = gather_s(1.0, &dimensions);
        prop_assert!(slowest >= bound * (1.0 - 1e-9) && slowest <= bound * 1.01,
            "{slowest} against {bound}");
    }

    /// No placement, no way to join, no split of rails costs less than what is found.
    #[test]
    fn nothing_is_better(
        exponents in [0u32..3, 0u32..3, 0u32..4, 0u32..3, 0u32..3], ports in 1u32..5,
        hidden in 0u32..3, slowest in any::<bool>(), uneven in any::<bool>(),
        by_turns in any::<bool>(),
    ) {
        let degrees = exponents.map(|e| 1 << e);
        let phases = [phase(degrees, 8192), Phase { weight: 0.5, ..phase(degrees, 65536) }];
        let mut asked = question(Hall { uneven, ..hall(2, ports, 16) }, degrees, &phases);
        asked.hidden_s[3] = f64::from(hidden);
        if slowest {
            asked.objective = Objective::Slowest;
        }
        let turns = Turns { delay_s: 0.007, gap_s: 0.006, gap_back_s: 0.006 };
        asked.turns = by_turns.then_some(turns);
        let mut least = f64::INFINITY;
        for candidate in candidates(&asked) {
            for units in splits(&candidate.shares(asked.hall), asked.hall.units()) {
                let cost = asked.cost(&candidate, &units);
                prop_assert!(candidate.bound_s <= cost);
                least = least.min(cost);
            }
        }
        match place(&asked) {
            None => prop_assert_eq!(least, f64::INFINITY),
            Some(found) => {
                prop_assert_eq!(found.cost_s, least);
                legal(&asked, &found)?;
            }
        }
    }
}

fn legal(asked: &Question<'_>, found: &Mapping) -> Result<(), TestCaseError> {
    let hall = asked.hall;
    for (f, degree) in found.factors.iter().zip(asked.degrees) {
        prop_assert_eq!(f.inside * f.x * f.y, degree);
    }
    let inside: u32 = found.factors.iter().map(|f| f.inside).product();
    prop_assert_eq!(inside, hall.mesh * hall.mesh);
    for axis in [Axis::X, Axis::Y] {
        let nodes: u32 =
            found.factors.iter().map(|f| if axis == Axis::X { f.x } else { f.y }).product();
        prop_assert!(nodes <= hall.ocs / 2);
        let groups = found.groups.iter().filter(|group| group.axis == axis);
        let rails: u32 = groups.map(|group| group.rails).sum();
        prop_assert!(rails <= hall.mesh * hall.ports);
    }
    for group in found.groups.iter().filter(|group| group.joined == Joined::AllToAll) {
        let experts = found.factors[Kind::Ep as usize];
        let nodes = if group.axis == Axis::X { experts.x } else { experts.y };
        prop_assert!(nodes <= group.rails + 1);
    }
    Ok(())
}

/// RailX, equation 9: one dimension 2 V / (2 n B / m), two alike half of that, for large p.
#[test]
fn sums_take_what_equation_9_says() {
    let sum = |axes: &[u32]| {
        let hall = hall(4, 2, 1 << 12);
        let dimensions: Vec<(u32, f64)> =
            axes.iter().map(|&nodes| (nodes, hall.chip_rate(hall.rails(2)))).collect();
        2.0 * gather_s(8e9, &dimensions)
    };
    let rate = 2.0 * 1e11 / 4.0; // n B / m
    assert!((sum(&[1024]) / (8e9 / rate) - 1.0).abs() < 1e-3);
    assert!((sum(&[1024, 1024]) / (8e9 / (2.0 * rate)) - 1.0).abs() < 1e-3);
}

/// The heaviest traffic finds its way to the mesh by itself.
#[test]
fn tensor_parallelism_goes_inside() {
    let degrees = [16, 2, 8, 4, 4];
    let phases = [phase(degrees, 8192)];
    let found = place(&question(hall(4, 4, 128), degrees, &phases)).unwrap();
    assert_eq!(found.factors[0], Factors { kind: Kind::Tp, inside: 16, x: 1, y: 1 });
    let asked = question(hall(4, 4, 128), [3, 1, 1, 1, 1], &phases);
    assert_eq!(place(&asked), None);
}

/// By turns each kind has all rails; what the switches take beyond the gap is added.
#[test]
fn turns_win_where_the_gap_hides_the_switch() {
    let degrees = [16, 8, 8, 1, 1];
    let phases = [phase(degrees, 65536)];
    let fixed = question(hall(4, 4, 128), degrees, &phases);
    let cost = |delay_s| {
        let turns = Some(Turns { delay_s, gap_s: 0.006, gap_back_s: 0.006 });
        place(&Question { turns, ..fixed }).unwrap().cost_s
    };
    assert_eq!(cost(0.0), cost(0.006));
    assert!((cost(0.025) - cost(0.0) - 256.0 * 2.0 * 0.019).abs() < 1e-9);
}
