//! Symbolic blocks through every algorithm, for every number of nodes up to 64.

use super::steps::block;
use super::*;
use std::collections::HashMap as Map;

const SIZE: Bytes = Bytes::new(3_000_000);

fn named(name: &str) -> Algorithm {
    name.parse().expect(name)
}

/// Contributors of each block that each node holds, as bits of nodes.
type Held = Vec<Map<u64, u64>>;

/// Runs a collective; checks pairings and volumes on the way.
fn run(collective: &Collective, blocks: u64, mut held: Held) -> Held {
    for group in collective.groups() {
        let mut sent = Vec::new();
        for s in group {
            let before = sent.len();
            moved(collective, blocks, &held, s, &mut sent);
            assert!(sent.len() > before, "nothing moves in step {s}");
        }
        for (peer, b, what, reduce) in sent {
            let own = held[peer as usize].entry(b).or_insert(0);
            if reduce {
                assert_eq!(*own & what, 0, "counted twice");
                *own |= what;
            } else {
                *own = what;
            }
        }
    }
    assert_eq!(collective.groups().map(|group| group.len()).sum::<usize>(), collective.steps.len());
    assert!(!collective.steps[0].together);
    held
}

/// What moves in a step, as it was before all that move with it: (to, block, contributors, added).
fn moved(
    collective: &Collective,
    blocks: u64,
    held: &Held,
    s: usize,
    sent: &mut Vec<(u32, u64, u64, bool)>,
) {
    let (n, step) = (collective.nodes, &collective.steps[s]);
    let pairing = &collective.pairings[step.pairing as usize];
    let mut received = vec![false; n as usize];
    for node in 0..n {
        let moved = collective.moves(s, node);
        let Some(peer) = pairing.peer(node, n) else {
            assert!(moved.blocks.is_empty(), "node {node} has no peer in step {s}");
            continue;
        };
        assert!(peer < n && peer != node, "{node} to {peer}");
        assert!(!std::mem::replace(&mut received[peer as usize], true), "{peer} receives twice");
        if moved.blocks.is_empty() {
            continue;
        }
        let bytes = block(collective.size, blocks).get() * moved.blocks.len() as u64;
        assert_eq!(bytes, step.volume.get(), "step {s}, node {node}");
        for b in moved.blocks {
            let what = *held[node as usize].get(&b).unwrap_or_else(|| panic!("{node} has no {b}"));
            sent.push((peer, b, what, moved.reduce));
        }
    }
}

fn check(algorithm: Algorithm, n: u32) {
    let collective = match algorithm.build(n, SIZE) {
        Ok(collective) => collective,
        Err(CollectiveError::PowerOfTwo { .. }) => {
            // Halves of exchanges, and Swing; what folds nodes takes any number.
            let any = ["rabenseifner", "recursive-doubling-allreduce"];
            let name = algorithm.kind().name;
            assert!(!n.is_power_of_two() && !any.iter().any(|one| name.starts_with(one)));
            return;
        }
        Err(error) => panic!("{algorithm} on {n}: {error}"),
    };
    check_built(&collective);
}

fn check_built(collective: &Collective) {
    let (algorithm, n) = (collective.algorithm, collective.nodes);
    let cut = collective.blocks();
    let nodes = 0..u64::from(n);
    // Blocks of a node, or of a pair of nodes.
    let each = (cut / u64::from(n)).max(1);
    let own = |one: u64| one * each..(one + 1) * each;
    let everyone = if n == 64 { u64::MAX } else { (1 << n) - 1 };
    let all = |what: fn(u64) -> u64| -> Held {
        nodes.clone().map(|i| (0..cut).map(|b| (b, what(i))).collect()).collect()
    };
    match algorithm.primitive() {
        Primitive::ReduceScatter => {
            let end = run(collective, cut, all(|i| 1 << i));
            for (i, held) in end.iter().enumerate() {
                let whole = own(i as u64).all(|b| held[&b] == everyone);
                assert!(whole, "{algorithm} on {n}, node {i}");
            }
        }
        Primitive::AllReduce => {
            let end = run(collective, cut, all(|i| 1 << i));
            for held in end {
                assert!((0..cut).all(|b| held[&b] == everyone), "{algorithm} on {n}");
            }
        }
        Primitive::AllGather => {
            let start = nodes.map(|i| own(i).map(|b| (b, 1 << i)).collect()).collect();
            for held in run(collective, cut, start) {
                assert!((0..cut).all(|b| held[&b] == 1 << (b / each)), "{algorithm} on {n}");
            }
        }
        Primitive::Broadcast => {
            let mut start: Held = vec![Map::new(); n as usize];
            start[0] = (0..cut).map(|b| (b, 1)).collect();
            for held in run(collective, cut, start) {
                assert!((0..cut).all(|b| held.get(&b) == Some(&1)), "{algorithm} on {n}");
            }
        }
        Primitive::AllToAll => {
            let n = u64::from(n);
            let row =
                |i: u64| (0..n).flat_map(move |to| own(i * n + to)).map(move |b| (b, 1u64 << i));
            let start = (0..n).map(|i| row(i).collect()).collect();
            for (i, held) in run(collective, cut, start).iter().enumerate() {
                for from in 0..n {
                    let whole = own(from * n + i as u64).all(|b| held[&b] == 1 << from);
                    assert!(whole, "{algorithm} on {n}");
                }
            }
        }
    }
}

#[test]
fn everyone_ends_with_what_it_must_have() {
    for n in 2..=64 {
        for algorithm in Algorithm::all() {
            check(algorithm, n);
        }
    }
    for n in [2, 3, 5, 8, 9, 16, 27, 31, 64] {
        for radix in 2..=n {
            check(named(&format!("bruck-alltoall:{radix}")), n);
        }
    }
}

fn grid(lines: &[(u32, u32)]) -> (u32, Vec<Dimension>) {
    let dimensions = lines.iter().map(|&(nodes, slices)| Dimension { nodes, slices });
    (lines.iter().map(|line| line.0).product(), dimensions.collect())
}

#[test]
fn everyone_ends_with_what_it_must_have_on_grids() {
    let mut built = 0;
    for lines in [
        &[(2, 1), (2, 1)][..],
        &[(3, 2), (4, 1)],
        &[(4, 1), (4, 3)],
        &[(5, 1), (2, 1), (3, 2)],
        &[(2, 1); 5],
        &[(8, 2), (8, 2)],
    ] {
        let (n, dimensions) = grid(lines);
        for algorithm in Algorithm::all().chain([named("bruck-alltoall:3")]) {
            match algorithm.build_on(n, &dimensions, SIZE) {
                Ok(collective) => {
                    check_built(&collective);
                    built += 1;
                }
                Err(
                    CollectiveError::PowerOfTwo { .. }
                    | CollectiveError::Grid { .. }
                    | CollectiveError::Radix { radix: 3, nodes: 2 },
                ) => {}
                Err(error) => panic!("{algorithm} on {lines:?}: {error}"),
            }
        }
    }
    assert_eq!(built, 6 * 9 + 4 + 4 * 2);
}

/// Every dimension works all the time: it sends as much as its share of what all send.
#[test]
fn dimensions_of_a_grid_share_the_work() {
    let (n, dimensions) = grid(&[(4, 1), (4, 1), (4, 1)]);
    let sent = |name: &str| {
        let built = named(name).build_on(n, &dimensions, Bytes::new(3 << 16)).unwrap();
        let mut bytes = [0; 3];
        let mut latencies = [0; 3];
        for step in &built.steps {
            bytes[step.dimension as usize] += step.volume.get();
            latencies[step.part as usize] += 1;
        }
        assert!(built.steps.iter().all(|step| !step.together));
        (bytes, latencies)
    };
    let size = 3 << 16;
    for name in ["ring-allreduce", "rabenseifner-allreduce"] {
        let hops = if name.starts_with("ring") { 3 } else { 2 };
        assert_eq!(sent(name), ([2 * size / 3 * 63 / 64; 3], [2 * 3 * hops; 3]), "{name}");
    }
    assert_eq!(sent("ring-allgather"), ([size / 3 * 63 / 64; 3], [9; 3]));
    // Three times over the ports of a dimension, a third of the whole each time.
    assert_eq!(sent("pairwise-alltoall"), ([size * 3 / 4; 3], [9; 3]));
}

#[test]
fn grids_refuse_what_does_not_go_by_dimensions() {
    let (n, dimensions) = grid(&[(2, 1), (4, 1)]);
    let message = |name: &str| named(name).build_on(n, &dimensions, SIZE).unwrap_err().to_string();
    assert_eq!(
        message("double-tree-allreduce"),
        "double-tree-allreduce does not go over a grid; allowed: ring-allreduce, \
         rabenseifner-allreduce, recursive-doubling-allreduce"
    );
    assert!(message("binomial-broadcast").ends_with("allowed: another primitive"));
    let names = |lines: &[u32]| -> Vec<String> {
        let found = Algorithm::candidates_on(Primitive::AllReduce, lines);
        found.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        names(&[2, 4]),
        ["ring-allreduce", "rabenseifner-allreduce", "recursive-doubling-allreduce"]
    );
    assert_eq!(Algorithm::candidates_on(Primitive::AllToAll, &[3, 8]).len(), 1 + 5);
}

#[test]
fn counts_and_volumes_are_the_closed_forms() {
    let total = |name: &str, n: u32| {
        let built = name.parse::<Algorithm>().unwrap().build(n, Bytes::new(64 << 20)).unwrap();
        let bytes: Bytes = built.steps.iter().map(|s| s.volume).sum();
        (built.steps.len(), built.pairings.len(), bytes.get() as f64 / f64::from(64 << 20))
    };
    assert_eq!(total("ring-allreduce", 64), (126, 1, 2.0 * 63.0 / 64.0));
    assert_eq!(total("rabenseifner-allreduce", 64), (12, 6, 2.0 * 63.0 / 64.0));
    for half in ["reduce-scatter", "allgather"] {
        assert_eq!(total(&format!("rabenseifner-{half}"), 64), (6, 6, 63.0 / 64.0));
        assert_eq!(total(&format!("ring-{half}"), 64), (63, 1, 63.0 / 64.0));
    }
    assert_eq!(total("recursive-halving-reduce-scatter", 64), (6, 6, 63.0 / 64.0));
    assert_eq!(total("recursive-doubling-allgather", 64), (6, 6, 63.0 / 64.0));
    assert_eq!(total("recursive-doubling-allreduce", 64), (6, 6, 6.0));
    assert_eq!(total("pairwise-alltoall", 64), (63, 63, 63.0 / 64.0));
    assert_eq!(total("bruck-alltoall", 64), (6, 6, 3.0));
    assert_eq!(total("bruck-alltoall:8", 64), (14, 14, 14.0 / 8.0));
    assert_eq!(total("bruck-alltoall:64", 64), total("pairwise-alltoall", 64));
    assert_eq!(total("swing-allreduce", 64), (12, 6, 2.0 * 63.0 / 64.0));
    assert_eq!(total("binomial-broadcast", 64), (6, 6, 6.0));
    // Half the buffer, a quarter, ..., and backwards; of 48 = 2 2 2 2 3, two hops of three.
    assert_eq!(total("scatter-allgather-broadcast", 64), (12, 12, 2.0 * 63.0 / 64.0));
    assert_eq!(total("rabenseifner-allgather", 48).0, 6);
    assert_eq!(
        total("rabenseifner-reduce-scatter", 61),
        (60, 60, 60.0 * (f64::from(64 << 20) / 61.0).ceil() / f64::from(64 << 20))
    );
    // Folding: two more steps of the whole buffer.
    assert_eq!(total("rabenseifner-allreduce", 65).0, 14);
}

#[test]
fn the_worked_example_pairs_nearest_nodes_first() {
    let built = named("rabenseifner-allreduce").build(8, Bytes::new(40_000_000)).unwrap();
    let distances: Vec<u32> = built
        .steps
        .iter()
        .map(|step| built.pairings[step.pairing as usize].peer(0, 8).unwrap())
        .collect();
    assert_eq!(distances, [1, 2, 4, 4, 2, 1]);
    // Vectors are halved: whatever is sent is consecutive.
    for (step, node) in (0..6).flat_map(|step| (0..8).map(move |node| (step, node))) {
        let blocks = built.moves(step, node).blocks;
        assert!(blocks.windows(2).all(|two| two[0] + 1 == two[1]), "{step} {node}: {blocks:?}");
    }
}

#[test]
fn swing_meets_nodes_on_alternating_sides() {
    let built = named("swing-allreduce").build(16, Bytes::new(16 << 20)).unwrap();
    let peers = |node| -> Vec<u32> {
        built.steps[..4]
            .iter()
            .map(|s| built.pairings[s.pairing as usize].peer(node, 16).unwrap())
            .collect()
    };
    // Distances 1, 1, 3 and 5.
    assert_eq!(peers(0), [1, 15, 3, 11]);
    assert_eq!(peers(1), [0, 2, 14, 6]);
}

#[test]
fn trees_use_two_configurations_a_direction() {
    for n in [3, 4, 7, 16, 33, 64] {
        let built = named("double-tree-allreduce").build(n, SIZE).unwrap();
        assert!(built.pairings.len() <= 4, "{n}: {}", built.pairings.len());
    }
    // Chunks hide the depth: the root sends every byte once, in a step each.
    let built = named("double-tree-broadcast").build(64, Bytes::new(256 << 20)).unwrap();
    let bytes: Bytes = built.steps.iter().map(|s| s.volume).sum();
    assert!(bytes.get() < (256 << 20) * 11 / 10, "{bytes}");
}

#[test]
fn candidates_differ() {
    for (primitive, n) in Primitive::ALL.into_iter().flat_map(|p| [2, 8, 12, 64].map(|n| (p, n))) {
        let built: Vec<_> = Algorithm::candidates(primitive, n)
            .into_iter()
            .map(|algorithm| algorithm.build(n, SIZE).unwrap())
            .collect();
        assert!(!built.is_empty());
        for (i, one) in built.iter().enumerate() {
            // With two nodes there are few ways.
            let same = |other: &&Collective| {
                (&other.steps, &other.pairings) == (&one.steps, &one.pairings) && n > 2
            };
            let twin = built[..i].iter().find(same);
            assert!(twin.is_none(), "{} and {}", one.algorithm, twin.unwrap().algorithm);
        }
    }
    assert_eq!(Algorithm::candidates(Primitive::AllToAll, 8).len(), 1 + 5);
    assert_eq!(Algorithm::candidates(Primitive::AllToAll, 256).len(), 1 + 63);
}

#[test]
fn the_largest_are_built_in_little_memory() {
    let built = named("pairwise-alltoall").build(MOST_NODES, LARGEST).unwrap();
    assert!(built.pairings.iter().all(|pairing| matches!(pairing, Pairing::Shift(_))));
    let built = named("double-tree-allreduce").build(MOST_NODES, LARGEST).unwrap();
    assert_eq!(built.blocks(), 512);
    // Of more than 2^50 bytes, none is lost.
    assert!(built.steps[0].volume * built.blocks() >= LARGEST);
}

#[test]
fn names_are_read_back_and_errors_say_what_is_allowed() {
    for algorithm in Algorithm::all().chain([named("bruck-alltoall:16")]) {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
    }
    let message = |name: &str, n, size| {
        name.parse::<Algorithm>()
            .and_then(|a| a.build(n, Bytes::new(size)))
            .unwrap_err()
            .to_string()
    };
    for name in ["bruck", "bruck-alltoall:", "bruck-alltoall:-1", "Ring-allreduce", ""] {
        let known = format!("algorithm \"{name}\" is unknown; allowed: ring-");
        assert!(message(name, 4, 1).starts_with(&known), "{}", message(name, 4, 1));
    }
    assert_eq!(message("ring-allreduce", 1, 1), "nodes is 1; allowed: 2 to 4096");
    assert_eq!(
        message("swing-allreduce", 12, 1),
        "swing-allreduce is built for powers of two only; nodes is 12"
    );
    assert_eq!(
        message("bruck-alltoall:9", 8, 1),
        "the radix is 9; allowed: 2 to the number of nodes (8)"
    );
    assert_eq!(message("ring-allreduce", 8, 0), format!("size is 0 B; allowed: 1 B to {LARGEST}"));
}

#[test]
fn orders_send_the_same_messages() {
    let messages = |algorithm: Algorithm, n: u32| {
        let collective = algorithm.build(n, SIZE).expect("a collective");
        let mut sent = Vec::new();
        for (s, step) in collective.steps.iter().enumerate() {
            let pairing = &collective.pairings[step.pairing as usize];
            for (node, peer) in (0..n).filter_map(|node| Some((node, pairing.peer(node, n)?))) {
                let moved = collective.moves(s, node);
                sent.extend(
                    moved.blocks.into_iter().map(|block| (node, peer, block, moved.reduce)),
                );
            }
        }
        sent.sort_unstable();
        sent
    };
    for algorithm in Algorithm::all() {
        for order in algorithm.orders() {
            assert_eq!(order.primitive(), algorithm.primitive());
            for n in [2, 3, 7, 16, 17, 33] {
                if order != algorithm {
                    assert_eq!(messages(order, n), messages(algorithm, n), "{order}, {n} nodes");
                }
            }
        }
    }
}
