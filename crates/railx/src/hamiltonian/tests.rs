use super::*;
use proptest::prelude::*;

#[test]
fn every_number_to_160() {
    for k in 1..=160 {
        assert_eq!(verify(k, &decompose(k).expect("known")), Ok(()), "{k} nodes");
    }
}

#[test]
fn eight_as_ever() {
    let rings = decompose(8).unwrap();
    let written = |ring: &Vec<u32>| ring.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let shown: Vec<String> = rings.iter().map(written).collect();
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
        assert_eq!(decompose(k), Err(NoDecomposition(k)));
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

/// Whether `left` more cycles, from `rest` on, can have no ordered pair in common with each other or
/// with `used`.
fn decomposes(rest: &[u64], left: u32, used: u64) -> bool {
    let fits = |(at, cycle): (usize, &u64)| {
        cycle & used == 0 && decomposes(&rest[at + 1..], left - 1, used | cycle)
    };
    left == 0 || rest.iter().enumerate().any(fits)
}

/// No fewer rings have each ordered pair equally often, as none has each once.
#[test]
fn the_exceptions_have_each_pair_twice() {
    for k in [3, 4, 5, 6] {
        let all: Vec<u64> = all_cycles(k).iter().map(|cycle| pairs(k, cycle)).collect();
        assert_eq!(decomposes(&all, k - 1, 0), rings_of(k) == k - 1, "{k} nodes");
    }
    for k in [4, 6] {
        let mut rings = decompose(k).expect("known");
        for (from, to) in (0..k).flat_map(|from| (0..k).map(move |to| (from, to))) {
            let has = |ring: &&Vec<u32>| pairs(k, ring) >> (from * k + to) & 1 == 1;
            assert_eq!(rings.iter().filter(has).count(), if from == to { 0 } else { 2 });
        }
        (rings[1], rings[2]) = (rings[0].clone(), rings[0].clone());
        assert!(verify(k, &rings).unwrap_err().contains("both go from"));
    }
}

proptest! {
    #[test]
    fn a_change_anywhere_is_seen(
        k in 3u32..40,
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
