//! MixNet, Algorithm 1: circuits for the server pairs that would take longest.
//!
//! Modelled: the pair with the longest time `T = D / C` gets the next circuit, where `D` is the
//! demand of both directions and `C` the pair's circuits; `T` is infinite where `D > 0` and `C = 0`.
//! Ties of infinity go to the larger `D`; what still ties, to the pair that is nearer when servers
//! stand in a circle, then to the lower index: equal demands get a circulant graph, where the index
//! alone would fill the first servers and leave the last one dark. As printed, the algorithm stops when the slowest pair has no free port on either side, though other pairs may;
//! `keep_going` sets that pair aside and goes on. It only ever adds circuits to those of the
//! algorithm as printed.
//! Ignored: packet switches, which carry what has no circuit. So the printed objective is infinite on
//! dense demands; judge a result by the time of the whole all-to-all.
//! Checked: against Algorithm 1 transcribed line by line with exact fractions.

use crate::demand::ServerDemand;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// How many circuits join each pair of servers: symmetric, with a zero diagonal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitCounts {
    n: usize,
    counts: Vec<u32>,
}

impl CircuitCounts {
    /// No circuits between `n` servers.
    pub fn dark(n: usize) -> Self {
        CircuitCounts { n, counts: vec![0; n * n] }
    }

    /// Adds a circuit between two servers.
    ///
    /// # Panics
    /// If the servers are the same, or not of the region.
    pub fn join(&mut self, a: usize, b: usize) {
        assert!(a != b && a < self.n && b < self.n, "circuit {a}-{b} of {} servers", self.n);
        self.counts[a * self.n + b] += 1;
        self.counts[b * self.n + a] += 1;
    }

    pub(super) fn set(&mut self, a: usize, b: usize, circuits: u32) {
        self.counts[a * self.n + b] = circuits;
        self.counts[b * self.n + a] = circuits;
    }

    /// The number of servers.
    pub fn servers(&self) -> usize {
        self.n
    }

    /// Circuits between two servers.
    pub fn get(&self, a: usize, b: usize) -> u32 {
        self.counts[a * self.n + b]
    }

    /// By other server: circuits between it and this one.
    pub(super) fn row(&self, server: usize) -> &[u32] {
        &self.counts[server * self.n..(server + 1) * self.n]
    }

    /// Circuits that end at a server.
    pub fn degree(&self, server: usize) -> u32 {
        self.row(server).iter().sum()
    }

    /// Circuits that `other` has not, of a region of as many servers: those that would be new.
    ///
    /// ```
    /// use lightloom_circuits::CircuitCounts;
    /// let (mut one, mut other) = (CircuitCounts::dark(3), CircuitCounts::dark(3));
    /// [(0, 1), (0, 1), (1, 2)].map(|(a, b)| one.join(a, b));
    /// [(0, 1), (0, 2), (0, 2)].map(|(a, b)| other.join(a, b));
    /// assert_eq!((one.beyond(&other), other.beyond(&one)), (2, 2));
    /// ```
    pub fn beyond(&self, other: &CircuitCounts) -> u32 {
        let more = |(mine, its): (&u32, &u32)| mine.saturating_sub(*its);
        self.counts.iter().zip(&other.counts).map(more).sum::<u32>() / 2
    }

    /// All circuits of the region.
    pub fn total(&self) -> u32 {
        self.counts.iter().sum::<u32>() / 2
    }
}

/// Chooses how many circuits join each pair of servers; no server gets more than its `ports`: the
/// paper's alpha, fewer where some have failed. `keep_going` goes on with other pairs when the slowest
/// has no free port; the paper's algorithm does not.
///
/// Takes time `O(pairs log pairs)`.
///
/// # Panics
/// If `demand.bytes` has not `n * n` entries, or `ports` not `n`.
///
/// ```
/// use lightloom_circuits::{ServerDemand, allocate};
/// // Server 0 wants to reach 1 and 2; 2 and 3 exchange a little.
/// let flows = [(0, 1, 900), (0, 2, 400), (2, 3, 10)];
/// let demand = ServerDemand::from_gpu_demand(4, 1, flows);
/// let counts = allocate(&demand, &[1; 4], false);
/// assert_eq!((counts.get(0, 1), counts.get(2, 3)), (1, 0)); // stopped at pair (0, 2)
/// let counts = allocate(&demand, &[1; 4], true);
/// assert_eq!((counts.get(0, 1), counts.get(2, 3)), (1, 1));
/// ```
pub fn allocate(demand: &ServerDemand, ports: &[u32], keep_going: bool) -> CircuitCounts {
    let n = demand.n;
    assert_eq!(demand.bytes.len(), n * n, "bytes of {n} servers");
    assert_eq!(ports.len(), n, "servers with ports");
    let mut counts = CircuitCounts::dark(n);
    let mut free = ports.to_vec();
    // Servers with free ports: of one alone nothing can be joined.
    let mut open = free.iter().filter(|&&ports| ports > 0).count();
    let both =
        |free: &[u32], (_, i, j): Place| free[usize::from(i)] > 0 && free[usize::from(j)] > 0;
    let join = |counts: &mut CircuitCounts, free: &mut [u32], open: &mut usize, place: Place| {
        let (i, j) = (usize::from(place.1), usize::from(place.2));
        let both = both(free, place);
        if both {
            counts.join(i, j);
            for end in [i, j] {
                free[end] -= 1;
                *open -= usize::from(free[end] == 0);
            }
        }
        both
    };
    // Infinite times come before all others, and larger demands before smaller ones.
    let pairs = demand.pairs().filter(|&(_, _, bytes)| bytes > 0);
    let mut unserved: Vec<u128> = pairs.map(|(i, j, bytes)| key(bytes, place(i, j, n))).collect();
    let mut served = BinaryHeap::with_capacity(n);
    // Ports are used up long before pairs are, so most of those need not be sorted: the first are, and of the others
    // those that have ports yet when these have been served.
    while open > 1 && !unserved.is_empty() {
        let next = unserved.len().min(4 * n);
        if next < unserved.len() {
            unserved.select_nth_unstable(next);
        }
        let others = unserved.split_off(next);
        unserved.sort_unstable();
        for &key in &unserved {
            let (demand, place) = pair(key);
            if join(&mut counts, &mut free, &mut open, place) {
                served.push(Pair { demand, circuits: 1, place });
            } else if !keep_going {
                return counts;
            }
        }
        unserved = others;
        if keep_going {
            unserved.retain(|&key| both(&free, pair(key).1));
        }
    }
    while open > 1 {
        let Some(mut slowest) = served.peek_mut() else { break };
        if join(&mut counts, &mut free, &mut open, slowest.place) {
            slowest.circuits += 1;
        } else if keep_going {
            PeekMut::pop(slowest); // ports never come back
        } else {
            break;
        }
    }
    counts
}

/// A pair `i < j` in the order of ties: how far apart in a circle of servers, `i`, `j`.
type Place = (u16, u16, u16);

fn place(i: usize, j: usize, n: usize) -> Place {
    let apart = i.abs_diff(j);
    (apart.min(n - apart) as u16, i as u16, j as u16)
}

/// A pair as one number, the larger demand first, then the earlier place: numbers are sorted fast.
fn key(bytes: u64, (apart, i, j): Place) -> u128 {
    let places = [apart, i, j].into_iter().fold(0, |all, one| all << 16 | u128::from(one));
    u128::from(u64::MAX - bytes) << 64 | places
}

/// What [`key`] was made of.
fn pair(key: u128) -> (u64, Place) {
    let part = |shift: u32| (key >> shift) as u16;
    (u64::MAX - (key >> 64) as u64, (part(32), part(16), part(0)))
}

/// A pair of servers that has circuits; the greatest is the slowest.
#[derive(PartialEq, Eq)]
struct Pair {
    /// Both directions \[B\].
    demand: u64,
    circuits: u32,
    place: Place,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        // D / C against D' / C' by cross multiplication: exact.
        let time = |a: &Self, b: &Self| u128::from(a.demand) * u128::from(b.circuits);
        let slower = time(self, other).cmp(&time(other, self));
        slower.then_with(|| other.place.cmp(&self.place))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Algorithm 1 as printed, `T` as a fraction (`None` is infinite), scanning all pairs each time.
    fn transcribed(demand: &ServerDemand, ports: &[u32], keep_going: bool) -> CircuitCounts {
        let n = demand.n;
        let d = |i, j| demand.get(i, j) + demand.get(j, i);
        let mut c = CircuitCounts::dark(n);
        let mut avail = ports.to_vec();
        let mut given_up = vec![false; n * n];
        loop {
            let mut bottleneck: Option<(usize, usize)> = None;
            let slower = |a: (usize, usize), b: (usize, usize)| {
                let (da, ca) = (u128::from(d(a.0, a.1)), u128::from(c.get(a.0, a.1)));
                let (db, cb) = (u128::from(d(b.0, b.1)), u128::from(c.get(b.0, b.1)));
                let by_time = match (ca, cb) {
                    (0, 0) => da.cmp(&db),
                    (0, _) => Ordering::Greater,
                    (_, 0) => Ordering::Less,
                    _ => (da * cb).cmp(&(db * ca)),
                };
                by_time.then_with(|| place(b.0, b.1, n).cmp(&place(a.0, a.1, n))).is_gt()
            };
            for i in 0..n {
                for j in i + 1..n {
                    let candidate = d(i, j) > 0 && !given_up[i * n + j];
                    if candidate && bottleneck.is_none_or(|b| slower((i, j), b)) {
                        bottleneck = Some((i, j));
                    }
                }
            }
            let Some((i, j)) = bottleneck else { break };
            if avail[i] > 0 && avail[j] > 0 {
                c.join(i, j);
                avail[i] -= 1;
                avail[j] -= 1;
            } else if keep_going {
                given_up[i * n + j] = true;
            } else {
                break;
            }
        }
        c
    }

    /// Few distinct values, so that ties and zeros are common.
    fn demands() -> impl Strategy<Value = ServerDemand> {
        let bytes = prop_oneof![Just(0u64), 1u64..5, 1u64..1 << 50];
        (0usize..9).prop_flat_map(move |n| {
            prop::collection::vec(bytes.clone(), n * n)
                .prop_map(move |bytes| ServerDemand { n, bytes })
        })
    }

    proptest! {
        #[test]
        fn agrees_with_algorithm_1_transcribed(
            demand in demands(), optical_degree in 0u32..8, keep_going: bool,
        ) {
            let ports = vec![optical_degree; demand.n];
            let found = allocate(&demand, &ports, keep_going);
            prop_assert_eq!(found, transcribed(&demand, &ports, keep_going));
        }

        #[test]
        fn counts_are_legal_and_going_on_only_adds(demand in demands(), optical_degree in 0u32..8) {
            let ports = vec![optical_degree; demand.n];
            let [stopped, full] = [false, true].map(|going| allocate(&demand, &ports, going));
            for i in 0..demand.n {
                prop_assert!(full.degree(i) <= optical_degree);
                prop_assert_eq!(full.get(i, i), 0);
                for j in 0..demand.n {
                    prop_assert_eq!(full.get(i, j), full.get(j, i));
                    prop_assert!(stopped.get(i, j) <= full.get(i, j));
                    let wanted = i != j && demand.get(i, j) + demand.get(j, i) > 0;
                    prop_assert!(wanted || full.get(i, j) == 0);
                    // Going on leaves no two free ports that a pair with demand could use.
                    let free = |s| full.degree(s) < optical_degree;
                    prop_assert!(!(wanted && free(i) && free(j)));
                }
            }
        }

        #[test]
        fn no_server_gets_more_circuits_than_its_own_ports(
            demand in demands(), ports in prop::collection::vec(0u32..7, 9), keep_going: bool,
        ) {
            let ports = &ports[..demand.n];
            let counts = allocate(&demand, ports, keep_going);
            for (i, &most) in ports.iter().enumerate() {
                prop_assert!(counts.degree(i) <= most);
            }
        }

        #[test]
        fn direction_does_not_matter(demand in demands(), optical_degree in 0u32..8) {
            let n = demand.n;
            let at = |k: usize| demand.get(k % n, k / n);
            let transposed = ServerDemand { n, bytes: (0..n * n).map(at).collect() };
            let ports = vec![optical_degree; n];
            prop_assert_eq!(allocate(&demand, &ports, true), allocate(&transposed, &ports, true));
        }
    }

    #[test]
    fn two_servers_get_every_circuit() {
        let demand = ServerDemand::from_gpu_demand(2, 8, [(0, 8, 1)]);
        assert_eq!(allocate(&demand, &[6; 2], false).get(0, 1), 6);
    }

    #[test]
    fn equal_demand_of_four_servers_is_shared_evenly() {
        let all = (0..4u32).flat_map(|i| (0..4).map(move |j| (i, j, 100)));
        let counts = allocate(&ServerDemand::from_gpu_demand(4, 1, all), &[6; 4], false);
        assert_eq!(counts.total(), 12);
        assert!((0..4).all(|i| (0..4).all(|j| counts.get(i, j) == 2 * u32::from(i != j))));
    }

    #[test]
    fn equal_demand_leaves_no_server_dark() {
        let all = (0..8u32).flat_map(|i| (0..8).map(move |j| (i, j, 100)));
        let counts = allocate(&ServerDemand::from_gpu_demand(8, 1, all), &[6; 8], true);
        // Every server reaches all but the opposite one.
        for i in 0..8 {
            assert!((0..8).all(|j| counts.get(i, j) == u32::from(j != i && j != (i + 4) % 8)));
        }
    }

    /// Worked by hand, two ports each. Pair 01 has 12, 02 has 6, 12 has 3: a circuit each, and
    /// servers 0, 1 and 2 are full. Pair 23 would be next, infinitely slow, and there it ends.
    #[test]
    fn a_worked_example() {
        let flows = [(0, 1, 10), (1, 0, 2), (0, 2, 6), (1, 2, 3), (3, 2, 2)];
        let demand = ServerDemand::from_gpu_demand(4, 1, flows);
        let counts = allocate(&demand, &[2; 4], false);
        let row = |i| (0..4).map(|j| counts.get(i, j)).collect::<Vec<_>>();
        assert_eq!(row(0), [0, 1, 1, 0]);
        assert_eq!(row(1), [1, 0, 1, 0]);
        assert_eq!(row(2), [1, 1, 0, 0]);
        assert_eq!(row(3), [0, 0, 0, 0]);
    }
}
