use super::*;
use proptest::prelude::*;

#[test]
fn every_number_to_160_but_4_and_6() {
    for k in 1..=160 {
        match decompose(k) {
            Ok(cycles) => assert_eq!(verify(k, &cycles), Ok(()), "{k} nodes"),
            Err(error) => assert!([4, 6].contains(&k), "{error}"),
        }
    }
}

#[test]
fn eight_as_ever() {
    let rings = decompose(8).unwrap();
    let shown: Vec<String> = rings.iter().map(|ring| written(ring)).collect();
    let expected = [
        "6 0 5 1 4 2 3 7",
        "6 3 2 4 1 7 5 0",
        "6 1 0 2 5 7 3 4",
        "6 4 3 5 2 0 7 1",
        "6 7 2 1 3 0 4 5",
        "6 5 4 7 0 3 1 2",
        "5 3 6 2 7 4 0 1",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn sizes_out_of_reach_are_refused() {
    for k in [0, MOST_NODES + 1, u32::MAX] {
        assert_eq!(decompose(k), Err(NoDecomposition::Unknown(k)));
    }
    let message = decompose(4).unwrap_err().to_string();
    for part in ["3 nodes on 2 rails", "5 on 4", "0 1 2 3; 0 1 3 2; 0 2 1 3"] {
        assert!(message.contains(part), "{message}");
    }
}

/// All directed Hamiltonian cycles on `0..k`.
fn all_cycles(k: u32) -> Vec<Vec<u32>> {
    let mut cycles = vec![vec![0]];
    for _ in 1..k {
        let longer = |cycle: Vec<u32>| {
            let nodes = (0..k).filter(|node| !cycle.contains(node)).collect::<Vec<_>>();
            nodes.into_iter().map(move |node| [cycle.as_slice(), &[node]].concat())
        };
        cycles = cycles.into_iter().flat_map(longer).collect();
    }
    cycles
}

/// The ordered pairs of a cycle, a bit each.
fn pairs(k: u32, cycle: &[u32]) -> u64 {
    let ends = cycle.iter().zip(cycle.iter().cycle().skip(1));
    ends.map(|(from, to)| 1 << (from * k + to)).sum()
}

fn turned_round(k: u32, pairs: u64) -> u64 {
    let all = (0..k * k).filter(|bit| pairs >> bit & 1 == 1);
    all.map(|bit| 1 << (bit % k * k + bit / k)).sum()
}

/// The most ordered pairs that `left` more cycles, from `rest` on, add up to, where no two nodes may
/// be neighbours more than twice.
fn most(k: u32, rest: &[(u64, u64)], left: u32, once: u64, twice: u64, ordered: u64) -> u32 {
    if left == 0 {
        return ordered.count_ones();
    }
    let mut best = 0;
    for (at, &(there, both)) in rest.iter().enumerate() {
        if both & twice == 0 {
            let (once, twice) = (once | both, twice | (once & both));
            best = best.max(most(k, &rest[at..], left - 1, once, twice, ordered | there));
        }
        if left == k - 1 {
            // All cycles are alike up to the names of nodes, so the first may be fixed.
            break;
        }
    }
    best
}

#[test]
fn the_exceptions_have_none_and_their_substitutes_are_best() {
    for k in [4, 6] {
        let with_back = |cycle: &Vec<u32>| {
            let there = pairs(k, cycle);
            (there, there | turned_round(k, there))
        };
        let all: Vec<(u64, u64)> = all_cycles(k).iter().map(with_back).collect();
        let best = most(k, &all, k - 1, 0, 0, 0);
        assert!(best < k * (k - 1), "{k} nodes would have a decomposition");

        let rings: Vec<(u64, u64)> = substitute(k).unwrap().iter().map(with_back).collect();
        let ordered = rings.iter().fold(0, |all, ring| all | ring.0);
        assert_eq!(ordered.count_ones(), best);
        for pair in (0..k * k).filter(|bit| bit / k != bit % k) {
            assert_eq!(rings.iter().filter(|ring| ring.1 >> pair & 1 == 1).count(), 2);
        }
        assert_eq!(k * (k - 1) - best, 3);
    }
}

proptest! {
    #[test]
    fn a_change_anywhere_is_seen(
        k in prop_oneof![Just(3u32), 5u32..=5, 7u32..40],
        cycle in any::<prop::sample::Index>(),
        first in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
        value in 0u32..50,
    ) {
        let good = decompose(k).unwrap();
        let (cycle, first) = (cycle.index(good.len()), first.index(k as usize));
        let second = (first + 1 + second.index(k as usize - 1)) % k as usize;

        let mut swapped = good.clone();
        swapped[cycle].swap(first, second);
        prop_assert!(verify(k, &swapped).is_err());

        let mut renamed = good.clone();
        prop_assume!(renamed[cycle][first] != value);
        renamed[cycle][first] = value;
        prop_assert!(verify(k, &renamed).is_err());

        let mut shorter = good.clone();
        shorter[cycle].remove(first);
        prop_assert!(verify(k, &shorter).is_err());

        let mut fewer = good.clone();
        fewer.remove(cycle);
        prop_assert!(verify(k, &fewer).is_err());
        prop_assert!(verify(k + 1, &good).is_err());

        let mut twice = good.clone();
        twice[cycle] = good[(cycle + 1) % good.len()].clone();
        prop_assert!(verify(k, &twice).is_err());

        // A decomposition stays one under other names of nodes and other first nodes.
        let mut turned = good;
        turned[cycle].rotate_left(first);
        for node in turned.iter_mut().flatten() {
            *node = (*node + value) % k;
        }
        prop_assert_eq!(verify(k, &turned), Ok(()));
    }
}
