//! How long an all-to-all takes with given circuits: by what every other decision is judged.
//!
//! Modelled: a pair of servers that has circuits sends all over them, shared evenly; its two
//! directions do not disturb each other. All other bytes of a server share its NICs on packet
//! switches, out and in apart. The all-to-all ends with the last of these. With `share_eps`, pairs
//! that have circuits use packet switches too, as much as makes all end soonest: what
//! [`route`](super::route) does. So the time of the whole is the longest of its servers' times, and
//! a server's depends on its own circuits only.
//! Ignored: the scale-up network before and after, whose time hardly depends on the circuits;
//! latency; the core of the packet switches; circuits that are dark.
//! Checked: against the routes of [`route`](super::route), NIC by NIC; by hand; and against the flow
//! engine (`tests/test_mixnet_decision.py`).

use crate::demand::ServerDemand;
use crate::greedy::CircuitCounts;
use lightloom_units::Time;

/// What a server's NICs carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Rate of a circuit \[bit/s\].
    pub optical_bps: u64,
    /// Rate of a packet NIC \[bit/s\].
    pub packet_bps: u64,
    /// Packet NICs of a server.
    pub packet_nics: u32,
    /// Whether pairs that have circuits use packet switches too.
    pub share_eps: bool,
}

/// How long the exchange between servers takes; [`Time::MAX`] if some bytes have no path.
///
/// A demand and its transpose take equally long, so a dispatch's time is its combine's.
///
/// # Panics
/// If `demand` and `counts` are not of as many servers.
///
/// ```
/// use lightloom_circuits::{CircuitCounts, Rates, ServerDemand, all_to_all_time};
/// use lightloom_units::Time;
/// // 50 GB/s a NIC, two of them on packet switches.
/// let rate = 400_000_000_000;
/// let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false };
/// let flows = [(0, 1, 300_000), (1, 0, 100_000), (0, 2, 150_000), (1, 2, 50_000)];
/// let demand = ServerDemand::from_gpu_demand(3, 1, flows);
/// let mut counts = CircuitCounts::dark(3);
/// counts.join(0, 1);
/// // 300 kB over one circuit; 200 kB into server 2 by two NICs.
/// assert_eq!(all_to_all_time(&demand, &counts, &rates), Time::from_us(6));
/// counts.join(0, 1);
/// counts.join(0, 1);
/// assert_eq!(all_to_all_time(&demand, &counts, &rates), Time::from_us(2));
/// ```
pub fn all_to_all_time(demand: &ServerDemand, counts: &CircuitCounts, rates: &Rates) -> Time {
    whole(Rows::new(demand, counts, rates).longest())
}

/// Picoseconds, rounded up.
pub(super) fn whole(ps: f64) -> Time {
    // Beyond 64 bits, and infinite, becomes the greatest.
    Time::from_ps(ps.ceil() as u64)
}

/// Circuits, and each server's time with them, kept while they change.
pub(super) struct Rows<'a> {
    demand: &'a ServerDemand,
    counts: CircuitCounts,
    /// By server: those it has circuits to, in order.
    near: Vec<Vec<u16>>,
    /// By server: bytes out and in without a circuit.
    packets: Vec<(u64, u64)>,
    optical_ps: f64,
    packet_ps: f64,
    share_eps: bool,
}

impl<'a> Rows<'a> {
    pub fn new(demand: &'a ServerDemand, counts: &CircuitCounts, rates: &Rates) -> Self {
        let n = demand.n;
        assert_eq!(demand.bytes.len(), n * n, "bytes of {n} servers");
        assert_eq!(counts.servers(), n, "servers of the circuits and of the demand");
        // All bytes, without a look at circuits, then those of the few pairs that have some taken off.
        let mut near = vec![Vec::with_capacity(8); n];
        let mut packets = vec![(0, 0); n];
        for a in 0..n {
            let row = &demand.bytes[a * n..(a + 1) * n];
            let mut out = 0;
            for others in [0..a, a + 1..n] {
                for (&bytes, packets) in row[others.clone()].iter().zip(&mut packets[others]) {
                    out += bytes;
                    packets.1 += bytes;
                }
            }
            packets[a].0 = out;
            let joined = counts.row(a).iter().enumerate();
            let joined = joined.filter(|&(b, &circuits)| circuits > 0 && b != a);
            near[a].extend(joined.map(|(b, _)| b as u16));
        }
        for (a, near) in near.iter().enumerate() {
            for b in near.iter().map(|&b| usize::from(b)) {
                packets[a].0 -= demand.get(a, b);
                packets[b].1 -= demand.get(a, b);
            }
        }
        let packet_bps = rates.packet_bps as f64 * f64::from(rates.packet_nics);
        Rows {
            demand,
            counts: counts.clone(),
            near,
            packets,
            optical_ps: 8e12 / rates.optical_bps as f64,
            packet_ps: 8e12 / packet_bps,
            share_eps: rates.share_eps && packet_bps > 0.0,
        }
    }

    pub fn counts(&self) -> &CircuitCounts {
        &self.counts
    }

    pub fn into_counts(self) -> CircuitCounts {
        self.counts
    }

    /// The servers that `server` has circuits to, in order.
    pub fn near(&self, server: usize) -> &[u16] {
        &self.near[server]
    }

    /// Bytes of the busier direction of a pair.
    pub fn busier(&self, a: usize, b: usize) -> u64 {
        self.demand.get(a, b).max(self.demand.get(b, a))
    }

    /// Gives a pair so many circuits.
    pub fn set(&mut self, a: usize, b: usize, circuits: u32) {
        let before = self.counts.get(a, b);
        self.counts.set(a, b, circuits);
        if (before > 0) == (circuits > 0) {
            return;
        }
        let (out, into) = (self.demand.get(a, b), self.demand.get(b, a));
        if circuits > 0 {
            self.packets[a] = (self.packets[a].0 - out, self.packets[a].1 - into);
            self.packets[b] = (self.packets[b].0 - into, self.packets[b].1 - out);
        } else {
            self.packets[a] = (self.packets[a].0 + out, self.packets[a].1 + into);
            self.packets[b] = (self.packets[b].0 + into, self.packets[b].1 + out);
        }
        for (at, to) in [(a, b as u16), (b, a as u16)] {
            match self.near[at].binary_search(&to) {
                Ok(place) => drop(self.near[at].remove(place)),
                Err(place) => self.near[at].insert(place, to),
            }
        }
    }

    /// The time of one server \[ps\].
    pub fn time(&self, server: usize) -> f64 {
        let (out, into) = self.packets[server];
        if self.share_eps {
            let row = |to: usize| self.demand.get(server, to);
            let column = |from: usize| self.demand.get(from, server);
            return self.shared(server, out, row).max(self.shared(server, into, column));
        }
        let mut longest = ps(out.max(into), self.packet_ps);
        for &to in &self.near[server] {
            let circuits = f64::from(self.counts.get(server, to.into()));
            let busier = self.busier(server, to.into());
            longest = longest.max(ps(busier, self.optical_ps) / circuits);
        }
        longest
    }

    /// The peer whose circuits take longest, and how long \[ps\]; none where packets help circuits.
    pub fn slowest(&self, server: usize) -> Option<(usize, f64)> {
        let time = |&to: &u16| {
            let circuits = f64::from(self.counts.get(server, to.into()));
            (usize::from(to), ps(self.busier(server, to.into()), self.optical_ps) / circuits)
        };
        let near = self.near[server].iter().filter(|_| !self.share_eps);
        near.map(time).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// How long at least a server's packets take \[ps\], were `peer` given a circuit.
    pub fn packets_with(&self, server: usize, peer: usize) -> f64 {
        let (mut out, mut into) = self.packets[server];
        if self.counts.get(server, peer) == 0 {
            out -= self.demand.get(server, peer);
            into -= self.demand.get(peer, server);
        }
        ps(out.max(into), self.packet_ps)
    }

    /// One direction of a server: the least time in which packet NICs carry what its circuits do not,
    /// by Newton's method from the left on a convex, falling function.
    fn shared(&self, server: usize, packets: u64, bytes: impl Fn(usize) -> u64) -> f64 {
        let mut time = packets as f64 * self.packet_ps;
        loop {
            let (mut left, mut rate) = (packets as f64, 1.0 / self.packet_ps);
            for &to in &self.near[server] {
                let to = usize::from(to);
                let circuits = f64::from(self.counts.get(server, to)) / self.optical_ps;
                let bytes = bytes(to) as f64;
                if bytes > circuits * time {
                    left += bytes;
                    rate += circuits;
                }
            }
            let next = left / rate;
            if next <= time {
                return time;
            }
            time = next;
        }
    }

    /// When the last pair ends that has circuits beyond those that stood, if these are dark for
    /// `dark` \[ps\].
    pub fn latest(&self, stood: &CircuitCounts, dark: f64) -> f64 {
        let mut latest = 0.0_f64;
        for (server, near) in self.near.iter().enumerate() {
            for to in near.iter().map(|&to| usize::from(to)).filter(|&to| to > server) {
                let circuits = self.counts.get(server, to);
                let busier = self.busier(server, to);
                if circuits > stood.get(server, to) && busier > 0 {
                    let time = ps(busier, self.optical_ps) / f64::from(circuits);
                    latest = latest.max(dark + time);
                }
            }
        }
        latest
    }

    /// The time of the whole \[ps\].
    pub fn longest(&self) -> f64 {
        (0..self.demand.n).map(|server| self.time(server)).fold(0.0, f64::max)
    }
}

/// Nothing takes no time, over no matter what.
fn ps(bytes: u64, ps_per_byte: f64) -> f64 {
    if bytes == 0 { 0.0 } else { bytes as f64 * ps_per_byte }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delegation::{Layout, RouteOptions, route};
    use crate::ports::{PortMap, assign};
    use proptest::prelude::*;

    fn cases() -> impl Strategy<Value = (ServerDemand, CircuitCounts, Rates)> {
        let bytes = prop_oneof![Just(0u64), 1u64 << 20..1 << 40];
        let rate = 1u64 << 30..1 << 40;
        (2usize..6).prop_flat_map(move |n| {
            let demand = prop::collection::vec(bytes.clone(), n * n);
            let joins = prop::collection::vec((0..n, 1..n), 0..7);
            (demand, joins, rate.clone(), rate.clone(), 1u32..3, any::<bool>()).prop_map(
                move |(bytes, joins, optical_bps, packet_bps, packet_nics, share_eps)| {
                    let mut counts = CircuitCounts::dark(n);
                    joins.iter().for_each(|&(a, step)| counts.join(a, (a + step) % n));
                    let rates = Rates { optical_bps, packet_bps, packet_nics, share_eps };
                    (ServerDemand { n, bytes }, counts, rates)
                },
            )
        })
    }

    /// The busiest NIC of what [`route`] orders, one GPU a server.
    fn routed(demand: &ServerDemand, counts: &CircuitCounts, rates: &Rates) -> f64 {
        let n = demand.n;
        let ports = assign(counts, &PortMap::dark(n, 14), &[0; 14]);
        let packet = rates.packet_nics as u16;
        let layout = Layout {
            servers: n as u16,
            gpus_per_server: 1,
            packet_nics: (0..packet).collect(),
            optical_nics: (packet..packet + 14).collect(),
            nic_gpu: vec![0; usize::from(packet) + 14],
        };
        let flows: Vec<_> = (0..n as u32)
            .flat_map(|a| (0..n as u32).map(move |b| (a, b)))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| (a, b, demand.get(a as usize, b as usize)))
            .collect();
        let Rates { share_eps, optical_bps, packet_bps, .. } = *rates;
        let options = RouteOptions { share_eps, optical_bps, packet_bps };
        let mut busy = std::collections::HashMap::new();
        for hop in route(&flows, &ports, &layout, &options).exchange {
            let bps = if hop.circuit { optical_bps } else { packet_bps };
            for end in [(hop.from, true), (hop.to, false)] {
                *busy.entry(end).or_insert(0.0) += hop.bytes as f64 * 8e12 / bps as f64;
            }
        }
        busy.into_values().fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn agrees_with_what_is_routed((demand, counts, rates) in cases()) {
            let (time, routed) = (
                all_to_all_time(&demand, &counts, &rates).ps() as f64,
                routed(&demand, &counts, &rates),
            );
            // Shares are whole bytes, one for each pair of servers and NIC at most.
            let slower = rates.optical_bps.min(rates.packet_bps) as f64;
            let slack = 16.0 * 8e12 / slower + 1e-9 * time + 1.0;
            prop_assert!((time - routed).abs() <= slack, "{time} {routed}");
        }

        #[test]
        fn neither_direction_nor_the_names_of_servers_matter(
            (demand, counts, rates) in cases(), order in Just([3, 1, 4, 0, 2]).prop_shuffle(),
        ) {
            let n = demand.n;
            let order: Vec<usize> = order.into_iter().filter(|&s| s < n).collect();
            let permuted = |transposed: bool| {
                let mut other = ServerDemand::zero(n);
                let mut joined = CircuitCounts::dark(n);
                for a in 0..n {
                    for b in (0..n).filter(|&b| b != a) {
                        let (from, to) = if transposed { (b, a) } else { (a, b) };
                        other.bytes[order[from] * n + order[to]] = demand.get(a, b);
                        joined.set(order[a], order[b], counts.get(a, b));
                    }
                }
                all_to_all_time(&other, &joined, &rates)
            };
            let time = all_to_all_time(&demand, &counts, &rates);
            for other in [permuted(false), permuted(true)] {
                prop_assert!(time.ps().abs_diff(other.ps()) <= 1 + time.ps() / 1_000_000_000);
            }
        }

        #[test]
        fn rows_that_change_are_those_of_new_circuits(
            (demand, counts, rates) in cases(),
            changes in prop::collection::vec((0usize..6, 1usize..6, 0u32..4), 0..20),
        ) {
            let n = demand.n;
            let mut rows = Rows::new(&demand, &counts, &rates);
            for (a, step, circuits) in changes {
                let (a, b) = (a % n, (a % n + 1 + step % (n - 1)) % n);
                rows.set(a, b, circuits);
            }
            let fresh = Rows::new(&demand, rows.counts(), &rates);
            for server in 0..n {
                prop_assert_eq!(rows.time(server).to_bits(), fresh.time(server).to_bits());
                prop_assert_eq!(rows.near(server), fresh.near(server));
            }
        }

        #[test]
        fn sharing_is_never_slower((demand, counts, rates) in cases()) {
            let time = |share_eps| all_to_all_time(&demand, &counts, &Rates { share_eps, ..rates });
            prop_assert!(time(true).ps() <= time(false).ps() + 1 + time(false).ps() / 1_000_000_000);
        }
    }

    #[test]
    fn bytes_without_a_way_take_for_ever_and_none_no_time() {
        let rates = Rates { optical_bps: 1, packet_bps: 0, packet_nics: 0, share_eps: true };
        let dark = CircuitCounts::dark(2);
        let demand = ServerDemand { n: 2, bytes: vec![0, 1, 0, 0] };
        assert_eq!(all_to_all_time(&demand, &dark, &rates), Time::MAX);
        assert_eq!(all_to_all_time(&ServerDemand::zero(2), &dark, &rates), Time::ZERO);
        let mut one = dark;
        one.join(0, 1);
        assert_eq!(all_to_all_time(&demand, &one, &rates), Time::from_ps(8_000_000_000_000));
    }
}
