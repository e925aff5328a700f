//! TopoOpt: circuits set once for a job's average demand (Wang et al., NSDI 2023).
//!
//! Modelled: TopologyFinder. A server's ports are split between all-reduce and model-parallel
//! traffic (here experts' and pipelines') by their bytes. All-reduce groups get rings of different
//! strides (TotientPerms, SelectPermutations); model-parallel traffic gets matchings of greatest
//! weight, one a port, where a pair's bytes count half after each circuit it gets.
//! Departures, where circuits are duplex and jobs have many groups:
//! - a ring takes two ports of each member, both ways used; so ports for all-reduce are rounded up to
//!   an even number, and one is left to model-parallel traffic if there are three;
//! - groups on the same servers are merged; ring by ring, the ports for all-reduce go to the group
//!   with most bytes per member and ring, so every group gets a first one before any a second;
//! - ports that no ring can use get matchings too;
//! - parts without a circuit between them are joined, by what they exchange.
//!
//! Ignored: the paper's search over parallelisations, and its routing (traffic takes shortest paths).
//! Checked: degrees and connection on random jobs; the matchings against all matchings and by their
//! duals; worked examples.

mod connect;
mod matching;
mod permutations;
mod topology;

pub use matching::heaviest;

use std::collections::BTreeMap;
use topology::{Purpose, Topology};

/// Servers that sum gradients, and what that sends in an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllReduceGroup {
    /// The servers, in any order; one that comes twice counts once.
    pub servers: Vec<u32>,
    /// What all members together send each other \[B\].
    pub bytes: u64,
}

/// What [`find`] needs to know of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopoOptInput {
    /// How many servers there are.
    pub servers: usize,
    /// Ports of a server on the patch panel.
    pub degree: u32,
    /// The job's all-reduces, one a group.
    pub all_reduce: Vec<AllReduceGroup>,
    /// `(server, server, bytes)` of all other traffic in an iteration, both ways; pairs may come in
    /// any order and repeatedly.
    pub mp: Vec<(u32, u32, u64)>,
}

/// Circuits, and how they came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    /// Duplex circuits `(lower, higher)` in rising order, parallel ones repeated.
    pub circuits: Vec<(u32, u32)>,
    /// The rings that all-reduce groups got. Connecting parts may have broken one up where nothing
    /// else could be spared.
    pub rings: Vec<Ring>,
    /// Circuits that were set to connect parts.
    pub crossings: u32,
    /// Whether every server reaches every other. Fails only with fewer than two ports a server.
    pub connected: bool,
}

/// A ring over the servers of a group: member `i` is joined to member `i + stride`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The members, rising.
    pub servers: Vec<u32>,
    /// Has no common divisor with their number.
    pub stride: u32,
}

/// Chooses circuits for a job; no server gets more than `degree`.
///
/// # Panics
/// If a server is not below `input.servers`.
pub fn find(input: &TopoOptInput) -> Design {
    let in_range = |&server: &u32| (server as usize) < input.servers;
    let mut groups: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
    for group in &input.all_reduce {
        assert!(group.servers.iter().all(in_range), "{:?} of {}", group.servers, input.servers);
        let mut servers = group.servers.clone();
        servers.sort_unstable();
        servers.dedup();
        if servers.len() > 1 && group.bytes > 0 {
            *groups.entry(servers).or_default() += group.bytes;
        }
    }
    let mut demand: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for &(a, b, bytes) in &input.mp {
        assert!(in_range(&a) && in_range(&b), "({a}, {b}) of {}", input.servers);
        if a != b && bytes > 0 {
            *demand.entry((a.min(b), a.max(b))).or_default() += bytes;
        }
    }
    let mut topology = Topology::new(input.servers, input.degree);
    let ports = ring_ports(input.degree, groups.values().sum(), demand.values().sum());
    let rings = lay_rings(&mut topology, &groups, ports);
    lay_matchings(&mut topology, &demand);
    for (servers, bytes) in &groups {
        for (a, b) in permutations::ring(servers, 1) {
            *demand.entry((a.min(b), a.max(b))).or_default() += bytes / servers.len() as u64;
        }
    }
    let crossings = connect::connect(&mut topology, &demand);
    Design {
        circuits: topology.into_circuits(),
        rings,
        crossings: crossings.unwrap_or(0),
        connected: crossings.is_some(),
    }
}

/// Ports of a server for rings: `ceil(d A / (A + M))`, made even, less than all if there is other
/// traffic and `d` leaves a choice.
fn ring_ports(degree: u32, all_reduce: u64, other: u64) -> u32 {
    match (all_reduce, other) {
        (0, _) => 0,
        (_, 0) => degree,
        _ => {
            let (part, all) = (u128::from(all_reduce), u128::from(all_reduce) + u128::from(other));
            let share = (u128::from(degree) * part).div_ceil(all) as u32; // at most the degree
            share.next_multiple_of(2).min(degree.saturating_sub(1).max(2)).min(degree)
        }
    }
}

/// Sets rings in up to `ports` ports of each server.
fn lay_rings(topology: &mut Topology, groups: &BTreeMap<Vec<u32>, u64>, ports: u32) -> Vec<Ring> {
    let mut left = vec![ports; topology.free.len()];
    let mut rings = vec![0u32; groups.len()];
    let groups: Vec<(&Vec<u32>, u64)> = groups.iter().map(|(servers, &b)| (servers, b)).collect();
    let mut open: Vec<usize> = (0..groups.len()).collect();
    let load = |group: usize, rings: u32| {
        let (servers, bytes) = groups[group];
        (rings == 0, bytes / (servers.len() as u64 * u64::from(rings.max(1))))
    };
    // The greatest load; of equals the first group.
    while let Some(at) = (0..open.len()).rev().max_by_key(|&at| load(open[at], rings[open[at]])) {
        let servers = groups[open[at]].0;
        let needed = permutations::ports(servers);
        if servers.iter().all(|&server| left[server as usize] >= needed) {
            servers.iter().for_each(|&server| left[server as usize] -= needed);
            rings[open[at]] += 1;
        } else {
            open.remove(at); // ports never come back
        }
    }
    let mut laid = Vec::new();
    for (&(servers, _), &rings) in groups.iter().zip(&rings) {
        for stride in permutations::select(servers.len() as u32, rings) {
            for (a, b) in permutations::ring(servers, stride) {
                topology.join(a, b, Purpose::Ring);
            }
            laid.push(Ring { servers: servers.clone(), stride });
        }
    }
    laid
}

/// Sets matchings of greatest weight until no two servers with demand have a free port each.
fn lay_matchings(topology: &mut Topology, demand: &BTreeMap<(u32, u32), u64>) {
    let mut edges: Vec<(u32, u32, u64)> = demand.iter().map(|(&(a, b), &w)| (a, b, w)).collect();
    loop {
        edges.retain(|&(a, b, _)| topology.free(a) > 0 && topology.free(b) > 0);
        let matched = matching::heaviest(topology.free.len(), &edges);
        if matched.is_empty() {
            return;
        }
        for &(a, b) in &matched {
            topology.join(a, b, Purpose::Matching);
        }
        for (a, b, weight) in &mut edges {
            if matched.binary_search(&(*a, *b)).is_ok() {
                *weight = (*weight / 2).max(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jobs() -> impl Strategy<Value = TopoOptInput> {
        (1usize..20, 0u32..9).prop_flat_map(|(servers, degree)| {
            let server = 0..servers as u32;
            let members = prop::collection::vec(server.clone(), 0..8);
            let group = (members, 0u64..1000)
                .prop_map(|(servers, bytes)| AllReduceGroup { servers, bytes });
            let groups = prop::collection::vec(group, 0..5);
            let mp = prop::collection::vec((server.clone(), server, 0u64..1000), 0..40);
            (groups, mp).prop_map(move |(all_reduce, mp)| TopoOptInput {
                servers,
                degree,
                all_reduce,
                mp,
            })
        })
    }

    fn degrees(servers: usize, circuits: &[(u32, u32)]) -> Vec<u32> {
        let mut degrees = vec![0; servers];
        for &(a, b) in circuits {
            degrees[a as usize] += 1;
            degrees[b as usize] += 1;
        }
        degrees
    }

    fn connected(servers: usize, circuits: &[(u32, u32)]) -> bool {
        let mut reached = vec![false; servers];
        reached[0] = true;
        for _ in 0..servers {
            for &(a, b) in circuits {
                let either = reached[a as usize] || reached[b as usize];
                (reached[a as usize], reached[b as usize]) = (either, either);
            }
        }
        reached.into_iter().all(|r| r)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn degrees_are_kept_and_all_are_connected(input in jobs()) {
            let design = find(&input);
            for &(a, b) in &design.circuits {
                prop_assert!(a < b && (b as usize) < input.servers);
            }
            let degrees = degrees(input.servers, &design.circuits);
            prop_assert!(degrees.iter().all(|&d| d <= input.degree));
            prop_assert_eq!(design.connected, connected(input.servers, &design.circuits));
            prop_assert!(design.connected || input.degree < 2);
            prop_assert_eq!(&find(&input), &design);
        }

        #[test]
        fn order_and_splitting_of_the_input_do_not_matter(input in jobs()) {
            let mut other = input.clone();
            other.mp = input.mp.iter().rev()
                .flat_map(|&(a, b, bytes)| [(b, a, bytes / 2), (a, b, bytes - bytes / 2)])
                .collect();
            other.all_reduce = input.all_reduce.iter().rev()
                .flat_map(|group| {
                    let mut half = group.clone();
                    half.bytes /= 2;
                    let mut rest = group.clone();
                    rest.bytes -= half.bytes;
                    [rest, half]
                })
                .collect();
            prop_assert_eq!(find(&input), find(&other));
        }

        #[test]
        fn every_ring_is_a_ring_of_its_group(input in jobs()) {
            for ring in find(&input).rings {
                let n = ring.servers.len() as u32;
                prop_assert!(permutations::strides(n).contains(&ring.stride));
            }
        }
    }

    #[test]
    fn ports_are_split_by_bytes() {
        // ceil(8 * 1 / 100) = 1, made even; all but one at most; all without other traffic.
        assert_eq!(ring_ports(8, 1, 99), 2);
        assert_eq!(ring_ports(8, 30, 70), 4);
        assert_eq!(ring_ports(8, 99, 1), 7);
        assert_eq!(ring_ports(8, 1, 0), 8);
        assert_eq!(ring_ports(8, 0, 1), 0);
        assert_eq!(ring_ports(2, 1, 1), 2);
        assert_eq!(ring_ports(1, 1, 1), 1);
    }

    #[test]
    fn without_other_traffic_all_ports_go_to_rings_of_different_strides() {
        let servers: Vec<u32> = (0..16).collect();
        let group = AllReduceGroup { servers, bytes: 1 << 30 };
        let input = TopoOptInput { servers: 16, degree: 6, all_reduce: vec![group], mp: vec![] };
        let design = find(&input);
        let strides: Vec<u32> = design.rings.iter().map(|ring| ring.stride).collect();
        assert_eq!(strides, [1, 3, 7]); // 1, 16^(1/3) = 2.5, 7.6
        assert_eq!(degrees(16, &design.circuits), [6; 16]);
        assert_eq!(design.crossings, 0);
    }

    #[test]
    fn a_pair_counts_half_after_each_circuit() {
        let matchings = |heavy, degree| {
            let mut topology = Topology::new(4, degree);
            lay_matchings(
                &mut topology,
                &BTreeMap::from([((0, 1), heavy), ((0, 2), 3), ((1, 3), 3)]),
            );
            topology.into_circuits()
        };
        // 16, then 8, against 6; then 4.
        assert_eq!(matchings(16, 2), [(0, 1), (0, 1)]);
        assert_eq!(matchings(16, 3), [(0, 1), (0, 1), (0, 2), (1, 3)]);
        assert_eq!(matchings(11, 2), [(0, 1), (0, 2), (1, 3)]);
    }

    /// Two cliques of four exchange a tenth of what they exchange inside: matchings take all ports,
    /// and the parts then get a tenth of the circuits, spread over servers.
    #[test]
    fn parts_are_joined_by_what_they_exchange() {
        let mut mp = Vec::new();
        for first in [0, 4] {
            for a in first..first + 4 {
                mp.extend((a + 1..first + 4).map(|b| (a, b, 1000)));
            }
        }
        mp.extend((0..4).map(|a| (a, a + 4, 300)));
        let input = TopoOptInput { servers: 8, degree: 6, all_reduce: vec![], mp };
        let design = find(&input);
        let across: Vec<_> = design.circuits.iter().filter(|c| c.0 < 4 && c.1 >= 4).collect();
        // ceil(1200 / 13200 * 24 circuits) = 3, set in twos.
        assert_eq!((design.crossings, across.len()), (4, 4));
        assert_eq!(degrees(8, &design.circuits), [6; 8]);
        for server in 0..8 {
            let ends = across.iter().filter(|c| c.0 == server || c.1 == server);
            assert!(ends.count() <= 2, "server {server}");
        }
    }

    #[test]
    fn servers_without_demand_are_connected_too() {
        let input = TopoOptInput { servers: 5, degree: 2, ..TopoOptInput::default() };
        let design = find(&input);
        assert_eq!((design.circuits.len(), design.crossings, design.connected), (4, 4, true));
        let lone = TopoOptInput { servers: 3, degree: 1, ..TopoOptInput::default() };
        assert!(!find(&lone).connected);
        assert_eq!(find(&TopoOptInput::default()).circuits, []);
    }
}
