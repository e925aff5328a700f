//! How many bytes of pairs that have circuits go over packet switches, so that both end together.

use super::{Layout, RouteOptions};
use crate::mixnet::PortMap;

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
