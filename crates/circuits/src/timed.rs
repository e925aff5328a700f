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
    whole(longest(demand, &totals(demand), counts, &Pace::new(rates)))
}

/// A demand for which many circuits are timed: what each server sends and receives is added up once.
///
/// ```
/// use lightloom_circuits::{CircuitCounts, Rates, ServerDemand, TimedDemand, all_to_all_time};
/// let rate = 400_000_000_000;
/// let rates = Rates { optical_bps: rate, packet_bps: rate, packet_nics: 2, share_eps: false };
/// let demand = ServerDemand::from_gpu_demand(2, 1, [(0, 1, 300_000)]);
/// let counts = CircuitCounts::dark(2);
/// let time = all_to_all_time(&demand, &counts, &rates);
/// assert_eq!(TimedDemand::new(demand).time(&counts, &rates), time);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedDemand {
    demand: ServerDemand,
    totals: Vec<(u64, u64)>,
}

impl TimedDemand {
    /// Of this demand.
    pub fn new(demand: ServerDemand) -> Self {
        TimedDemand { totals: totals(&demand), demand }
    }

    /// What servers send each other.
    pub fn demand(&self) -> &ServerDemand {
        &self.demand
    }

    /// [`all_to_all_time`] of it.
    ///
    /// # Panics
    /// As that.
    pub fn time(&self, counts: &CircuitCounts, rates: &Rates) -> Time {
        whole(self.longest(counts, &Pace::new(rates)))
    }

    /// The same \[ps\].
    pub(super) fn longest(&self, counts: &CircuitCounts, pace: &Pace) -> f64 {
        longest(&self.demand, &self.totals, counts, pace)
    }
}

/// Picoseconds, rounded up.
pub(super) fn whole(ps: f64) -> Time {
    // Beyond 64 bits, and infinite, becomes the greatest.
    Time::from_ps(ps.ceil() as u64)
}

/// By server: all bytes out and in.
pub(super) fn totals(demand: &ServerDemand) -> Vec<(u64, u64)> {
    let n = demand.n;
    assert_eq!(demand.bytes.len(), n * n, "bytes of {n} servers");
    let mut totals = vec![(0, 0); n];
    for a in 0..n {
        let row = &demand.bytes[a * n..(a + 1) * n];
        let mut out = 0;
        for others in [0..a, a + 1..n] {
            for (&bytes, total) in row[others.clone()].iter().zip(&mut totals[others]) {
                out += bytes;
                total.1 += bytes;
            }
        }
        totals[a].0 = out;
    }
    totals
}

/// The time of the whole with some circuits \[ps\].
pub(super) fn longest(
    demand: &ServerDemand,
    totals: &[(u64, u64)],
    counts: &CircuitCounts,
    pace: &Pace,
) -> f64 {
    assert_eq!(counts.servers(), demand.n, "servers of the circuits and of the demand");
    let time = |server: usize| {
        let near = joined(counts, server);
        let left = |(out, into): (u64, u64), (to, _)| {
            (out - demand.get(server, to), into - demand.get(to, server))
        };
        let packets = near.clone().fold(totals[server], left);
        pace.time(demand, server, packets, near)
    };
    (0..demand.n).map(time).fold(0.0, f64::max)
}

/// The servers that one has circuits to, in order, and how many.
pub(super) fn joined(
    counts: &CircuitCounts,
    server: usize,
) -> impl Iterator<Item = (usize, u32)> + Clone + '_ {
    counts.row(server).iter().copied().enumerate().filter(|&(_, circuits)| circuits > 0)
}

/// How long a byte takes.
pub(super) struct Pace {
    optical_ps: f64,
    pub packet_ps: f64,
    pub share_eps: bool,
}

impl Pace {
    pub fn new(rates: &Rates) -> Self {
        let packet_bps = rates.packet_bps as f64 * f64::from(rates.packet_nics);
        Pace {
            optical_ps: 8e12 / rates.optical_bps as f64,
            packet_ps: 8e12 / packet_bps,
            share_eps: rates.share_eps && packet_bps > 0.0,
        }
    }

    /// The time of one server \[ps\]: bytes out and in that have no circuit, and the servers that it has
    /// circuits to, in order, with how many.
    pub fn time(
        &self,
        demand: &ServerDemand,
        server: usize,
        (out, into): (u64, u64),
        near: impl Iterator<Item = (usize, u32)> + Clone,
    ) -> f64 {
        if self.share_eps {
            let row = |to: usize| demand.get(server, to);
            let column = |from: usize| demand.get(from, server);
            let (out, into) =
                (self.shared(out, near.clone(), row), self.shared(into, near, column));
            return out.max(into);
        }
        let packets = ps(out.max(into), self.packet_ps);
        near.fold(packets, |longest, (to, circuits)| {
            longest.max(self.circuits(demand, server, to, circuits))
        })
    }

    /// The time of a pair's circuits \[ps\].
    pub fn circuits(&self, demand: &ServerDemand, a: usize, b: usize, circuits: u32) -> f64 {
        ps(busier(demand, a, b), self.optical_ps) / f64::from(circuits)
    }

    /// One direction of a server: the least time in which packet NICs carry what its circuits do not,
    /// by Newton's method from the left on a convex, falling function.
    fn shared(
        &self,
        packets: u64,
        near: impl Iterator<Item = (usize, u32)> + Clone,
        bytes: impl Fn(usize) -> u64,
    ) -> f64 {
        let mut time = packets as f64 * self.packet_ps;
        loop {
            let (mut left, mut rate) = (packets as f64, 1.0 / self.packet_ps);
            for (to, circuits) in near.clone() {
                let circuits = f64::from(circuits) / self.optical_ps;
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
}

/// Bytes of the busier direction of a pair.
pub(super) fn busier(demand: &ServerDemand, a: usize, b: usize) -> u64 {
    demand.get(a, b).max(demand.get(b, a))
}

/// Nothing takes no time, over no matter what.
pub(super) fn ps(bytes: u64, ps_per_byte: f64) -> f64 {
    if bytes == 0 { 0.0 } else { bytes as f64 * ps_per_byte }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::delegation::{Layout, RouteOptions, route};
    use crate::ports::{PortMap, assign};
    use proptest::prelude::*;

    pub(crate) fn cases() -> impl Strategy<Value = (ServerDemand, CircuitCounts, Rates)> {
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
