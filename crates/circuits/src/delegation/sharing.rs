//! How many bytes of pairs that have circuits go over packet switches, so that both end together.

use super::layout::{Layout, RouteOptions};
use crate::ports::PortMap;

/// Sets, for each pair of servers that has circuits, the bytes that its circuits cannot carry in the
/// time of the whole exchange; the others stay as they are.
///
/// In a time `T` a pair's `c` circuits carry `c r T`; what is left must fit, with all that has no
/// circuit, into the server's packet NICs, out and in. `T` is the least that fits everywhere: for
/// each server and direction the root of a convex, falling, piecewise linear function, which
/// Newton's method from the left finds in at most as many steps as there are pairs.
pub(super) fn over_packets(
    between: &[u64],
    ports: &PortMap,
    layout: &Layout,
    options: &RouteOptions,
    shares: &mut [u64],
) {
    let n = usize::from(layout.servers);
    let packet_rate = layout.packet_nics.len() as f64 * options.packet_bps as f64;
    if packet_rate == 0.0 {
        return;
    }
    let circuit_rate =
        |pair: usize| f64::from(ports.between(pair / n, pair % n)) * options.optical_bps as f64;
    // Bytes over bits per second: a unit of eight seconds.
    let mut time = 0.0_f64;
    for server in 0..n {
        let out = (0..n).map(|to| server * n + to);
        let into = (0..n).map(|from| from * n + server);
        time = end(out.clone(), between, packet_rate, circuit_rate, time);
        time = end(into, between, packet_rate, circuit_rate, time);
    }
    for (pair, share) in shares.iter_mut().enumerate() {
        let rate = circuit_rate(pair);
        if rate > 0.0 {
            let carried = (rate * time).ceil() as u64; // saturates
            *share = between[pair].saturating_sub(carried);
        }
    }
}

/// The time, at least `time`, in which one server's packet NICs carry what its circuits do not.
fn end(
    pairs: impl Iterator<Item = usize> + Clone,
    between: &[u64],
    packet_rate: f64,
    circuit_rate: impl Fn(usize) -> f64,
    mut time: f64,
) -> f64 {
    loop {
        let (mut bytes, mut rate) = (0.0, packet_rate);
        for pair in pairs.clone() {
            let circuits = circuit_rate(pair);
            if between[pair] as f64 > circuits * time {
                bytes += between[pair] as f64;
                rate += circuits;
            }
        }
        let next = bytes / rate;
        if next <= time {
            return time;
        }
        time = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::greedy::CircuitCounts;
    use crate::ports::assign;
    use proptest::prelude::*;

    const N: usize = 4;

    /// Whether all can end in `time`: circuits carry what they can, packet NICs the rest.
    fn feasible(between: &[u64], circuits: &[f64], packet: f64, time: f64) -> bool {
        let rest = |pair: usize| match pair / N == pair % N {
            true => 0.0,
            false => (between[pair] as f64 - circuits[pair] * time).max(0.0),
        };
        (0..N).all(|server| {
            let out: f64 = (0..N).map(|to| rest(server * N + to)).sum();
            let into: f64 = (0..N).map(|from| rest(from * N + server)).sum();
            out.max(into) <= packet * time
        })
    }

    fn bisected(between: &[u64], circuits: &[f64], packet: f64) -> f64 {
        let (mut low, mut high) = (0.0, between.iter().sum::<u64>() as f64 / packet);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            match feasible(between, circuits, packet, middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        high
    }

    proptest! {
        #[test]
        fn no_other_sharing_ends_earlier(
            bytes in prop::collection::vec(prop_oneof![Just(0u64), 0u64..1 << 40], N * N),
            joins in prop::collection::vec((0..N, 1..N), 0..7),
            (optical_bps, packet_bps) in (1u64..1 << 40, 1u64..1 << 40),
        ) {
            let mut counts = CircuitCounts::dark(N);
            joins.iter().for_each(|&(a, step)| counts.join(a, (a + step) % N));
            let ports = assign(&counts, &PortMap::dark(N, 12), &[0; 12]);
            let layout = Layout {
                servers: N as u16,
                gpus_per_server: 14,
                packet_nics: vec![0, 1],
                optical_nics: (2..14).collect(),
                nic_gpu: (0..14).collect(),
            };
            let between: Vec<u64> =
                (0..N * N).map(|p| if p / N == p % N { 0 } else { bytes[p] }).collect();
            let circuits: Vec<f64> = (0..N * N)
                .map(|p| f64::from(counts.get(p / N, p % N)) * optical_bps as f64)
                .collect();
            let packet = 2.0 * packet_bps as f64;
            let mut shares = vec![0; N * N];
            let options = RouteOptions { share_eps: true, optical_bps, packet_bps };
            over_packets(&between, &ports, &layout, &options, &mut shares);

            // What it takes: the slowest circuits and the busiest packet NICs.
            let (mut takes, mut spent) = (0.0f64, vec![(0.0, 0.0); N]);
            for pair in 0..N * N {
                prop_assert!(shares[pair] <= between[pair]);
                let over = if circuits[pair] > 0.0 { shares[pair] } else { between[pair] };
                if circuits[pair] > 0.0 {
                    takes = takes.max((between[pair] - over) as f64 / circuits[pair]);
                }
                spent[pair / N].0 += over as f64;
                spent[pair % N].1 += over as f64;
            }
            for (out, into) in spent {
                takes = takes.max(out.max(into) / packet);
            }
            // But for a byte a pair, rounded up onto circuits.
            let slack = 1.0 / circuits.iter().copied().filter(|&c| c > 0.0).fold(packet, f64::min);
            let least = bisected(&between, &circuits, packet);
            prop_assert!(takes <= least * (1.0 + 1e-9) + slack, "{takes} {least}");
        }
    }
}
