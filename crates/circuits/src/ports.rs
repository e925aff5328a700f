//! Which optical port joins which: from circuit counts to the state of the optical switch (MixNet,
//! Algorithm 1, Step 4).
//!
//! Modelled: a circuit joins a port of one server and a port of another, both ways. Of the circuits
//! that stand, as many stay as the counts allow, since only ports that change go dark. Each end of a
//! new circuit goes to the NUMA node where its pair has the fewest circuits, so that parallel
//! circuits are fed from different nodes; among equals to the one with most free ports, then the
//! lowest, and there to the lowest port. A port that failed is blocked: it has no circuit and gets
//! none until it is unblocked (MixNet 5.4: what fails leaves the candidates).
//! Ignored: moving a circuit that stands for the sake of a better spread; it would go dark.
//! Checked: the result is an involution with the wanted counts; no other map of three servers with
//! these counts has fewer new circuits; kept circuits reach their upper bound; from dark, with two equal nodes, every pair is split evenly at both ends; blocked ports
//! stay dark.

use crate::greedy::CircuitCounts;

/// The circuits that stand between the optical ports of a region's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMap {
    n: usize,
    degree: usize,
    peer: Vec<Option<(u16, u16)>>,
    blocked: Vec<bool>,
}

impl PortMap {
    /// No circuits between `n` servers of `degree` optical ports.
    pub fn dark(n: usize, degree: usize) -> Self {
        PortMap { n, degree, peer: vec![None; n * degree], blocked: vec![false; n * degree] }
    }

    /// The number of servers.
    pub fn servers(&self) -> usize {
        self.n
    }

    /// Optical ports of a server.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// The `(server, port)` at the other end of a port's circuit.
    pub fn peer(&self, server: usize, port: usize) -> Option<(u16, u16)> {
        self.peer[server * self.degree + port]
    }

    /// The ports of a server, in order, each with its peer.
    pub fn ports(&self, server: usize) -> &[Option<(u16, u16)>] {
        &self.peer[server * self.degree..(server + 1) * self.degree]
    }

    /// Takes a port out of use, with the circuit that ends there.
    ///
    /// ```
    /// use lightloom_circuits::*;
    /// let two = |bytes| ServerDemand { n: 2, bytes: vec![0, bytes, 0, 0] };
    /// let mut map = PortMap::dark(2, 3);
    /// map.block(0, 1);
    /// assert_eq!(map.usable(), [2, 3]);
    /// let counts = allocate(&two(7), &map.usable(), true);
    /// let map = assign(&counts, &map, &[0, 0, 0]);
    /// assert_eq!((map.between(0, 1), map.peer(0, 1)), (2, None));
    /// ```
    ///
    /// # Panics
    /// If there is no such port; so do the other two.
    pub fn block(&mut self, server: usize, port: usize) {
        assert!(server < self.n && port < self.degree, "port {port} of server {server}");
        if let Some((to, at)) = self.peer[server * self.degree + port].take() {
            self.peer[usize::from(to) * self.degree + usize::from(at)] = None;
        }
        self.blocked[server * self.degree + port] = true;
    }

    /// Puts a port back into use, dark.
    pub fn unblock(&mut self, server: usize, port: usize) {
        assert!(server < self.n && port < self.degree, "port {port} of server {server}");
        self.blocked[server * self.degree + port] = false;
    }

    /// Whether a port is out of use.
    pub fn is_blocked(&self, server: usize, port: usize) -> bool {
        self.blocked[server * self.degree + port]
    }

    /// By server: how many of its ports may have a circuit.
    pub fn usable(&self) -> Vec<u32> {
        let usable = |server: usize| {
            let blocked = &self.blocked[server * self.degree..(server + 1) * self.degree];
            blocked.iter().filter(|&&blocked| !blocked).count() as u32
        };
        (0..self.n).map(usable).collect()
    }

    /// The circuits by pair of servers.
    pub fn counts(&self) -> CircuitCounts {
        let mut counts = CircuitCounts::dark(self.n);
        for a in 0..self.n {
            for b in self.ports(a).iter().flatten().map(|&(b, _)| usize::from(b)).filter(|&b| b > a)
            {
                counts.join(a, b);
            }
        }
        counts
    }

    /// How many circuits join two servers.
    pub fn between(&self, a: usize, b: usize) -> u32 {
        let joins = |peer: &&Option<(u16, u16)>| peer.is_some_and(|(to, _)| usize::from(to) == b);
        self.ports(a).iter().filter(joins).count() as u32
    }

    /// Joins two ports, whose former circuits end.
    ///
    /// ```
    /// use lightloom_circuits::PortMap;
    /// let mut map = PortMap::dark(3, 1);
    /// map.connect((0, 0), (1, 0));
    /// map.connect((1, 0), (2, 0));
    /// assert_eq!((map.peer(0, 0), map.peer(2, 0)), (None, Some((1, 0))));
    /// ```
    ///
    /// # Panics
    /// If there is no such port, or they are one.
    pub fn connect(&mut self, a: (u16, u16), b: (u16, u16)) {
        assert_ne!(a, b, "a circuit has two ends");
        self.disconnect(a);
        self.disconnect(b);
        let at = |(server, port): (u16, u16)| (usize::from(server), usize::from(port));
        self.join(at(a), at(b));
    }

    /// Ends the circuit of a port, if it has one.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn disconnect(&mut self, (server, port): (u16, u16)) {
        let at = usize::from(server) * self.degree + usize::from(port);
        if let Some((to, q)) = self.peer[at].take() {
            self.peer[usize::from(to) * self.degree + usize::from(q)] = None;
        }
    }

    /// Every circuit once, by its lower end.
    pub fn circuits(&self) -> impl Iterator<Item = ((u16, u16), (u16, u16))> + '_ {
        let degree = self.degree;
        let ends = self.peer.iter().enumerate().filter_map(move |(at, peer)| {
            Some((((at / degree) as u16, (at % degree) as u16), (*peer)?))
        });
        ends.filter(|(a, b)| a < b)
    }

    fn join(&mut self, (a, p): (usize, usize), (b, q): (usize, usize)) {
        self.peer[a * self.degree + p] = Some((b as u16, q as u16));
        self.peer[b * self.degree + q] = Some((a as u16, p as u16));
    }
}

/// Maps circuits to ports, changing as few of the `current` ones as `counts` allows. Ports that are
/// blocked in `current` get none and stay blocked.
///
/// `numa_of_port` gives the NUMA node of each optical port of a server, the same in every server.
///
/// # Panics
/// If the three do not agree on servers and ports, or a server has more circuits than usable ports.
///
/// ```
/// use lightloom_circuits::{CircuitCounts, PortMap, assign, changed_ports};
/// let mut counts = CircuitCounts::dark(3);
/// counts.join(0, 1);
/// counts.join(0, 1);
/// let first = assign(&counts, &PortMap::dark(3, 4), &[0, 0, 1, 1]);
/// assert_eq!((first.peer(0, 0), first.peer(0, 2)), (Some((1, 0)), Some((1, 2)))); // both nodes
/// counts.join(1, 2);
/// let second = assign(&counts, &first, &[0, 0, 1, 1]);
/// assert_eq!(changed_ports(&first, &second), [(1, 1), (2, 0)]);
/// ```
pub fn assign(counts: &CircuitCounts, current: &PortMap, numa_of_port: &[u8]) -> PortMap {
    let (n, degree) = (current.n, current.degree);
    assert_eq!(counts.servers(), n, "servers of counts and of the ports that stand");
    assert_eq!(numa_of_port.len(), degree, "ports with a NUMA node");
    let mut map = PortMap { blocked: current.blocked.clone(), ..PortMap::dark(n, degree) };
    let mut missing = Vec::new();
    for a in 0..n {
        let joined = counts.row(a).iter().enumerate().skip(a + 1);
        for (b, &wanted) in joined.filter(|&(_, &wanted)| wanted > 0) {
            let kept = keep(current, &mut map, (a, b), wanted, numa_of_port);
            if wanted > kept {
                missing.push((wanted - kept, a, b));
            }
        }
    }
    for (circuits, a, b) in missing {
        for _ in 0..circuits {
            let p = free_port(&map, a, b, numa_of_port, |_| true);
            let q = free_port(&map, b, a, numa_of_port, |_| true);
            map.join((a, p), (b, q));
        }
    }
    map
}

/// Keeps up to `wanted` of the circuits between two servers; returns how many.
pub(crate) fn keep(
    current: &PortMap,
    map: &mut PortMap,
    (a, b): (usize, usize),
    wanted: u32,
    numa_of_port: &[u8],
) -> u32 {
    if wanted == 0 {
        return 0; // as for most pairs
    }
    let stand = current.between(a, b);
    for kept in 0..stand.min(wanted) {
        let best = (0..current.degree)
            .filter(|&p| map.peer(a, p).is_none())
            .filter_map(|p| Some((p, current.peer(a, p).filter(|to| usize::from(to.0) == b)?)))
            .min_by_key(|&(p, (_, q))| {
                // All stay: no need to choose.
                if stand <= wanted {
                    return 0;
                }
                let ends = [(a, b, p), (b, a, usize::from(q))];
                ends.map(|(s, t, port)| on_node(map, s, t, numa_of_port[port], numa_of_port))
                    .iter()
                    .sum()
            });
        let Some((p, (_, q))) = best else {
            return kept; // a map that is no involution: not one of ours
        };
        map.join((a, p), (b, usize::from(q)));
    }
    stand.min(wanted)
}

/// Circuits from a server to another that end on this NUMA node of the first.
fn on_node(map: &PortMap, from: usize, to: usize, node: u8, numa_of_port: &[u8]) -> usize {
    let peers = map.ports(from).iter().zip(numa_of_port);
    let joins = |peer: &Option<(u16, u16)>| peer.is_some_and(|(s, _)| usize::from(s) == to);
    peers.filter(|&(peer, &on)| on == node && joins(peer)).count()
}

/// The free port of `from`, of those that may be taken, that spreads its circuits to `to` best.
pub(crate) fn free_port(
    map: &PortMap,
    from: usize,
    to: usize,
    numa_of_port: &[u8],
    may: impl Fn(usize) -> bool,
) -> usize {
    let free =
        |&port: &usize| map.peer(from, port).is_none() && !map.is_blocked(from, port) && may(port);
    (0..map.degree)
        .filter(free)
        .min_by_key(|&port| {
            let node = numa_of_port[port];
            let left = (0..map.degree).filter(free).filter(|&p| numa_of_port[p] == node).count();
            (on_node(map, from, to, node, numa_of_port), std::cmp::Reverse(left), node)
        })
        .unwrap_or_else(|| {
            panic!("server {from} has more circuits than its {} ports", map.usable()[from])
        })
}

/// The `(server, port)`s whose circuit is another, new or gone: those that go dark for the change.
///
/// # Panics
/// If the two are not of the same region.
pub fn changed_ports(old: &PortMap, new: &PortMap) -> Vec<(u16, u16)> {
    assert_eq!((old.n, old.degree), (new.n, new.degree), "regions");
    let ports = (0..new.n).flat_map(|server| (0..new.degree).map(move |port| (server, port)));
    ports
        .filter(|&(server, port)| old.peer(server, port) != new.peer(server, port))
        .map(|(server, port)| (server as u16, port as u16))
        .collect()
}

/// How many circuits of `new` do not stand in `old`: pairs of ports for the switch to join, by which
/// its delay is measured.
///
/// # Panics
/// If the two are not of the same region.
pub fn new_circuits(old: &PortMap, new: &PortMap) -> u32 {
    let joined = |&&(server, port): &&(u16, u16)| new.peer(server.into(), port.into()).is_some();
    // Both ends of a new circuit change.
    changed_ports(old, new).iter().filter(joined).count() as u32 / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::ServerDemand;
    use crate::greedy::allocate;
    use proptest::prelude::*;

    fn counts(n: usize, degree: u32) -> impl Strategy<Value = CircuitCounts> {
        prop::collection::vec(0u64..1000, n * n)
            .prop_map(move |bytes| allocate(&ServerDemand { n, bytes }, &vec![degree; n], true))
    }

    fn nodes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..3, 6)
    }

    proptest! {
        #[test]
        fn the_map_is_an_involution_with_the_wanted_counts(
            chain in prop::collection::vec(counts(5, 6), 1..5), numa in nodes(),
        ) {
            let mut map = PortMap::dark(5, 6);
            for counts in chain {
                let next = assign(&counts, &map, &numa);
                prop_assert_eq!(&next, &assign(&counts, &map, &numa));
                let mut kept = 0;
                let mut bound = 0;
                for a in 0..5 {
                    for b in 0..5 {
                        prop_assert_eq!(next.between(a, b), counts.get(a, b));
                        bound += counts.get(a, b).min(map.between(a, b));
                    }
                    for p in 0..6 {
                        if let Some((b, q)) = next.peer(a, p) {
                            let back = next.peer(b.into(), q.into());
                            prop_assert_eq!(back, Some((a as u16, p as u16)));
                            prop_assert!(usize::from(b) != a);
                        }
                        kept += u32::from(next.peer(a, p).is_some() && next.peer(a, p) == map.peer(a, p));
                    }
                }
                prop_assert!(kept >= bound, "kept {} of {} circuit ends", kept, bound);
                prop_assert_eq!(new_circuits(&map, &next), (2 * counts.total() - kept) / 2);
                prop_assert!(changed_ports(&next, &assign(&counts, &next, &numa)).is_empty());
                map = next;
            }
        }

        #[test]
        fn from_dark_parallel_circuits_split_evenly_over_two_nodes(counts in counts(5, 8)) {
            let numa = [0, 0, 0, 0, 1, 1, 1, 1];
            let map = assign(&counts, &PortMap::dark(5, 8), &numa);
            for a in 0..5 {
                for b in 0..5 {
                    let on = |node| on_node(&map, a, b, node, &numa);
                    prop_assert!(on(0).abs_diff(on(1)) <= 1, "{} and {}", on(0), on(1));
                }
            }
        }
    }

    /// Tells `each` of every map that has the circuits of `map` and any between its other ports.
    fn every_map(map: &mut PortMap, from: usize, each: &mut impl FnMut(&PortMap)) {
        let (all, degree) = (map.n * map.degree, map.degree);
        let Some(first) = (from..all).find(|&at| map.peer[at].is_none()) else { return each(map) };
        every_map(map, first + 1, each);
        for other in (first + 1..all).filter(|&at| at / degree != first / degree) {
            if map.peer[other].is_none() {
                map.join((first / degree, first % degree), (other / degree, other % degree));
                every_map(map, first + 1, each);
                (map.peer[first], map.peer[other]) = (None, None);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn no_map_with_these_counts_has_fewer_new_circuits(
            old in counts(3, 3), new in counts(3, 3), numa in nodes(),
        ) {
            let old = assign(&old, &PortMap::dark(3, 3), &numa[..3]);
            let assigned = new_circuits(&old, &assign(&new, &old, &numa[..3]));
            let mut least = u32::MAX;
            every_map(&mut PortMap::dark(3, 3), 0, &mut |map| {
                if map.counts() == new {
                    least = least.min(new_circuits(&old, map));
                }
            });
            prop_assert_eq!(assigned, least);
        }
    }

    proptest! {
        #[test]
        fn blocked_ports_stay_dark_and_the_others_are_used(
            bytes in prop::collection::vec(0u64..1000, 25),
            blocked in prop::collection::vec((0usize..5, 0usize..6), 0..20), numa in nodes(),
        ) {
            let demand = ServerDemand { n: 5, bytes };
            let mut map = assign(&allocate(&demand, &[6; 5], true), &PortMap::dark(5, 6), &numa);
            for &(server, port) in &blocked {
                map.block(server, port);
            }
            let counts = allocate(&demand, &map.usable(), true);
            let next = assign(&counts, &map, &numa);
            prop_assert_eq!(next.counts(), counts);
            for &(server, port) in &blocked {
                prop_assert!(next.is_blocked(server, port) && next.peer(server, port).is_none());
                prop_assert!(map.peer(server, port).is_none());
            }
            for &(server, port) in &blocked {
                map.unblock(server, port);
            }
            prop_assert_eq!(map.usable(), [6; 5]);
        }
    }

    #[test]
    fn of_parallel_circuits_those_on_different_nodes_stay() {
        let mut three = CircuitCounts::dark(2);
        (0..3).for_each(|_| three.join(0, 1));
        let old = assign(&three, &PortMap::dark(2, 4), &[0, 0, 1, 1]);
        let mut two = CircuitCounts::dark(2);
        (0..2).for_each(|_| two.join(0, 1));
        let new = assign(&two, &old, &[0, 0, 1, 1]);
        assert_eq!([on_node(&new, 0, 1, 0, &[0, 0, 1, 1]), new.between(0, 1) as usize], [1, 2]);
        assert_eq!(new_circuits(&old, &new), 0);
        assert_eq!(changed_ports(&old, &new).len(), 2);
    }

    /// Server 1's ports are crossed, so that which circuits to keep is decided at its end.
    #[test]
    fn both_ends_count_for_which_circuits_stay() {
        let numa = [0, 0, 1, 1];
        let mut old = PortMap::dark(2, 4);
        for (p, q) in [(0, 0), (2, 1), (3, 2)] {
            old.join((0, p), (1, q));
        }
        let mut two = CircuitCounts::dark(2);
        (0..2).for_each(|_| two.join(0, 1));
        let new = assign(&two, &old, &numa);
        assert_eq!((new.peer(0, 0), new.peer(0, 2)), (Some((1, 0)), None));
        assert_eq!(new.peer(0, 3), Some((1, 2)));
    }

    #[test]
    #[should_panic(expected = "server 0 has more circuits than its 1 ports")]
    fn more_circuits_than_ports_are_refused() {
        let mut counts = CircuitCounts::dark(3);
        counts.join(0, 1);
        counts.join(0, 2);
        assign(&counts, &PortMap::dark(3, 1), &[0]);
    }
}
