//! Which switch each circuit runs over, where the optical ports of servers are spread over several.
//!
//! Modelled: a circuit needs a free port of both servers on one switch. That makes an edge colouring of it: servers are
//! nodes, circuits edges, switches colours, and a server may have as many edges of a colour as ports on that
//! switch. Circuits that stand stay if the counts allow. Each other one gets the switch with the most ports that are
//! free at both ends. Where none has, circuits in an alternating chain of two switches change places (as in the
//! proofs of König and Vizing). Those for which this fails too are left out: with one port a server on each of three
//! switches, three servers cannot have two circuits each between all pairs.
//! Ignored: that a decision knows nothing of switches when it counts circuits.
//! Checked: on one switch it is [`assign`]; legal, never more than the counts, and none left out that could simply be
//! set; of random decisions for 16 servers 0.7 % of circuits are left out with two ports of each on each of three
//! switches, and 1.6 % with one on each of six, in the tests below.

use crate::greedy::CircuitCounts;
use crate::ports::{PortMap, assign, free_port, keep};

/// As [`assign`], where a port is on a switch and a circuit joins two ports of the same.
///
/// `switch_of_port`: by port, server by server. The counts of the map that is returned are lower than `counts` where no
/// switch has free ports at both ends.
///
/// # Panics
/// As [`assign`], and if the number of ports is another.
///
/// ```
/// use lightloom_circuits::{CircuitCounts, PortMap, assign_over};
/// let mut counts = CircuitCounts::dark(3);
/// counts.join(0, 1);
/// counts.join(1, 2);
/// // Ports 0 of all servers are on switch 0, ports 1 on switch 1.
/// let map = assign_over(&counts, &PortMap::dark(3, 2), &[0, 0], &[0, 1, 0, 1, 0, 1]);
/// assert_eq!((map.peer(0, 0), map.peer(1, 1)), (Some((1, 0)), Some((2, 1))));
/// ```
pub fn assign_over(
    counts: &CircuitCounts,
    current: &PortMap,
    numa_of_port: &[u8],
    switch_of_port: &[u16],
) -> PortMap {
    let (n, degree) = (current.servers(), current.degree());
    assert_eq!(switch_of_port.len(), n * degree, "ports with a switch");
    if switch_of_port.iter().all(|&switch| switch == switch_of_port[0]) {
        return assign(counts, current, numa_of_port);
    }
    assert_eq!(counts.servers(), n, "servers of counts and of the ports that stand");
    assert_eq!(numa_of_port.len(), degree, "ports with a NUMA node");
    let mut map = PortMap::dark(n, degree);
    let blocked = |&(server, port): &(usize, usize)| current.is_blocked(server, port);
    let ports = (0..n).flat_map(|server| (0..degree).map(move |port| (server, port)));
    ports.filter(blocked).for_each(|(server, port)| map.block(server, port));
    let switches = switch_of_port.iter().max().map_or(0, |&last| last + 1);
    let mut over = Over { map, numa_of_port, switch_of_port, switches };
    let mut missing = Vec::new();
    for a in 0..n {
        for b in a + 1..n {
            let wanted = counts.get(a, b);
            let kept = keep(current, &mut over.map, (a, b), wanted, numa_of_port);
            missing.extend((kept..wanted).map(|_| (a, b)));
        }
    }
    // Chains last: what can simply be set needs none. Each makes room for others, perhaps.
    let mut left = usize::MAX;
    while missing.len() < left {
        left = missing.len();
        missing.retain(|&(a, b)| !over.set(a, b));
        missing.retain(|&(a, b)| !over.set_by_chain(a, b) && !over.set_by_chain(b, a));
    }
    over.map
}

struct Over<'a> {
    map: PortMap,
    numa_of_port: &'a [u8],
    switch_of_port: &'a [u16],
    switches: u16,
}

impl Over<'_> {
    fn is_on(&self, server: usize, port: usize, switch: u16) -> bool {
        self.switch_of_port[server * self.map.degree() + port] == switch
    }

    /// Ports of a server on this switch that have no circuit and may have one.
    fn free(&self, server: usize, switch: u16) -> usize {
        let free = |&port: &usize| {
            self.is_on(server, port, switch)
                && self.map.peer(server, port).is_none()
                && !self.map.is_blocked(server, port)
        };
        (0..self.map.degree()).filter(free).count()
    }

    /// Joins two servers over the switch with the most ports that are free at both; says whether there is one.
    fn set(&mut self, a: usize, b: usize) -> bool {
        let free = |&switch: &u16| self.free(a, switch).min(self.free(b, switch));
        let order = |switch: &u16| (free(switch), std::cmp::Reverse(*switch));
        let most = (0..self.switches).max_by_key(order);
        let found = most.filter(|switch| free(switch) > 0);
        if let Some(switch) = found {
            self.join(a, b, switch);
        }
        found.is_some()
    }

    /// Joins two servers over a switch on which both have a free port.
    fn join(&mut self, a: usize, b: usize, switch: u16) -> [(usize, usize); 2] {
        let port = |from, to| {
            let on = |port| self.is_on(from, port, switch);
            free_port(&self.map, from, to, self.numa_of_port, on)
        };
        let ends = [(a, port(a, b)), (b, port(b, a))];
        let [from, to] = ends.map(|(server, port)| (server as u16, port as u16));
        self.map.connect(from, to);
        ends
    }

    /// Joins two servers that have free ports on no common switch, if others' circuits can make room.
    /// Says whether they can.
    fn set_by_chain(&mut self, a: usize, b: usize) -> bool {
        for switch in 0..self.switches {
            for other in 0..self.switches {
                if self.free(a, switch) == 0 || self.free(b, other) == 0 {
                    continue;
                }
                let before = self.map.clone();
                let made = self.make_room(b, switch, other);
                if made && self.free(a, switch) > 0 && self.free(b, switch) > 0 {
                    self.join(a, b, switch);
                    return true;
                }
                self.map = before;
            }
        }
        false
    }

    /// Has a circuit of `server` leave switch `from` for `to`, where the server has a free port. Where the other end
    /// has none, one of its circuits goes from `to` to `from` in turn, and so on. Says whether that came to an end.
    fn make_room(&mut self, server: usize, mut from: u16, mut to: u16) -> bool {
        let mut moved = Vec::new();
        let Some(mut next) = self.take(server, from, &moved) else { return false };
        let mut at = server;
        while self.free(next, to) == 0 {
            let Some(beyond) = self.take(next, to, &moved) else { return false };
            // Each circuit is moved at most once, so this ends.
            moved.extend(self.join(at, next, to));
            (at, next) = (next, beyond);
            (from, to) = (to, from);
        }
        self.join(at, next, to);
        true
    }

    /// Ends a circuit of a server on a switch that has not been `moved`; returns the server at its other end.
    fn take(&mut self, server: usize, switch: u16, moved: &[(usize, usize)]) -> Option<usize> {
        let here = |&port: &usize| {
            self.is_on(server, port, switch)
                && self.map.peer(server, port).is_some()
                && !moved.contains(&(server, port))
        };
        let port = (0..self.map.degree()).find(here)?;
        let (next, _) = self.map.peer(server, port)?;
        self.map.disconnect((server as u16, port as u16));
        Some(usize::from(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::ServerDemand;
    use crate::greedy::allocate;
    use proptest::prelude::*;

    fn counts(n: usize, usable: &[u32]) -> impl Strategy<Value = CircuitCounts> + use<> {
        let usable = usable.to_vec();
        prop::collection::vec(0u64..1000, n * n)
            .prop_map(move |bytes| allocate(&ServerDemand { n, bytes }, &usable, true))
    }

    /// Ports of 7 servers on three switches, at random.
    fn switches() -> impl Strategy<Value = Vec<u16>> {
        prop::collection::vec(0u16..3, 7 * 4)
    }

    proptest! {
        #[test]
        fn circuits_are_legal_and_none_is_left_out_that_could_be_set(
            chain in prop::collection::vec(counts(7, &[4; 7]), 1..4), on in switches(),
            blocked in prop::collection::vec((0usize..7, 0usize..4), 0..6),
        ) {
            let mut map = PortMap::dark(7, 4);
            blocked.iter().for_each(|&(server, port)| map.block(server, port));
            for counts in chain {
                let fits = (0..7).all(|server| counts.degree(server) <= map.usable()[server]);
                if !fits {
                    continue;
                }
                let next = assign_over(&counts, &map, &[0, 0, 1, 1], &on);
                prop_assert_eq!(&next, &assign_over(&counts, &map, &[0, 0, 1, 1], &on));
                let switch = |(server, port): (u16, u16)| on[usize::from(server) * 4 + usize::from(port)];
                for (a, b) in next.circuits() {
                    prop_assert_eq!(switch(a), switch(b));
                    prop_assert!(a.0 != b.0 && next.peer(b.0.into(), b.1.into()) == Some(a));
                }
                for &(server, port) in &blocked {
                    prop_assert_eq!(next.peer(server, port), None);
                }
                let over = Over { map: next.clone(), numa_of_port: &[0; 4], switch_of_port: &on, switches: 3 };
                for a in 0..7 {
                    for b in a + 1..7 {
                        prop_assert!(next.between(a, b) <= counts.get(a, b));
                        let both = |s| over.free(a, s) > 0 && over.free(b, s) > 0;
                        prop_assert!(next.between(a, b) == counts.get(a, b) || !(0..3).any(both));
                    }
                }
                map = next;
            }
        }

        #[test]
        fn on_one_switch_nothing_is_left_out(counts in counts(7, &[4; 7])) {
            let dark = PortMap::dark(7, 4);
            let map = assign_over(&counts, &dark, &[0, 0, 1, 1], &[3; 28]);
            prop_assert_eq!(map, assign(&counts, &dark, &[0, 0, 1, 1]));
        }
    }

    /// Of how many circuits how many are left out, over demands of 16 servers with these ports.
    fn left_out(on: &[u16]) -> (u32, u32) {
        let (mut all, mut left) = (0, 0);
        for seed in 0..50u64 {
            let mut state = seed * 2 + 1;
            let mut draw = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                state >> 40
            };
            let bytes = (0..256).map(|_| draw()).collect();
            let counts = allocate(&ServerDemand { n: 16, bytes }, &[on.len() as u32; 16], true);
            let switch_of_port: Vec<u16> = (0..16).flat_map(|_| on.iter().copied()).collect();
            let numa = vec![0; on.len()];
            let map = assign_over(&counts, &PortMap::dark(16, on.len()), &numa, &switch_of_port);
            all += counts.total();
            left += counts.total() - map.counts().total();
        }
        (all, left)
    }

    #[test]
    fn few_circuits_are_left_out() {
        // A 2 m-regular graph is a sum of m graphs of degree 2 (Petersen): nothing need be left out.
        let (all, left) = left_out(&[0, 0, 1, 1, 2, 2]);
        assert!(left * 100 < all, "two ports on each of three switches: {left} of {all}");
        let (all, left) = left_out(&[0, 1, 2, 3, 4, 5]);
        assert!(left * 20 < all, "one port on each of six switches: {left} of {all}");
    }
}
